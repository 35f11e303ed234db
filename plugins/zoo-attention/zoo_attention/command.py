"""zoo attention: where a transformer looks, as a plot."""

from __future__ import annotations

from pathlib import Path

import click

from zoo import kit


@kit.command(json_help="Print the attention of each layer as JSON.")
@kit.run_argument
@click.argument("image", type=click.Path())
@kit.output_option(".png", ".pdf", ".svg", default="attention.png",
                   help="The plot to write: .png, .pdf or .svg.")  # fmt: skip
@click.option("--heads", is_flag=True, help="Draw each head, not their mean.")
@kit.device_option
@kit.runs_option
def attention_command(
    run: str, image: str, output: Path, heads: bool, device: str, runs: Path | None
) -> kit.Answer:
    """Draw where a transformer looks, layer by layer.

    RUN is a path, a name in the runs folder, latest, or weights. IMAGE is a file or an address
    (http or https). The plot shows, for each layer, how much attention the class token gives to
    each patch of the part of IMAGE that the model sees. All layers share one colour scale.

    Examples:
      zoo attention latest cat.jpg --heads -o cat.pdf
      zoo list --json        "capabilities" says which models have attention
    """
    from zoo_attention.attention import attention

    seen = attention(run, image, device=device, runs=runs)
    seen.draw(output, heads=heads)
    # As float64, because a rounded float32 is written with many digits.
    shares = (seen.maps if heads else seen.maps.mean(1)).astype(float)
    document = {
        "image": image,
        "class": seen.label,
        "probability": round(seen.probability, 6),
        "layers": shares.round(6).tolist(),
        "output": output,
    }
    said = f"{image}: {seen.label}, {100 * seen.probability:.1f} %\n" if seen.label else ""
    return kit.Answer(document, f"{said}Plot: {output}")
