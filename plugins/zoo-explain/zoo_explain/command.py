"""zoo explain: a plot of images with what decided beside them, and a sentence on each."""

from __future__ import annotations

from pathlib import Path

import click

from zoo import kit


@kit.command()
@kit.run_argument
@click.argument("images", nargs=-1, required=True, metavar="IMAGE...", type=click.Path())
@click.option("--method", type=click.Choice(["cam", "attention", "occlusion"]), default=None,
              help="How; otherwise the first of these that the model has.")  # fmt: skip
@click.option("--class", "target", default="", metavar="NAME",
              help="Explain this class, not the most likely one; or this number.")  # fmt: skip
@kit.output_option(".png", ".pdf", ".svg", default="explain.png",
                   help="The plot to write: .png, .pdf or .svg.")  # fmt: skip
@kit.device_option
@kit.runs_option
def explain_command(
    run: str, images: tuple[str, ...], method: str | None, target: str, output: Path, device: str,
    runs: Path | None,
) -> kit.Answer:  # fmt: skip
    """Draw where in images a model found its answers, and check that it holds.

    RUN and IMAGE are as for zoo predict. cam is Grad-CAM: gradients times feature maps; attention
    is that of models that declare it; occlusion hides parts of the image in turn, and works with
    any model. The sentence below a plot says whether hiding the marked places changes the answer
    more than hiding random places.

    Examples:
      zoo explain cnn cat.jpg
      zoo explain latest cat.jpg dog.jpg --class dog -o why.png
      zoo explain latest cat.jpg --method occlusion --json
    """
    from zoo_explain.explain import explain

    found = explain(run, images, method=method or "", target=target, device=device, runs=runs)
    pages = found.draw(output)
    lines = [f"{one.image}: {one.answer}, by {one.method}. {one.sentence}" for one in found]
    lines.append(f"Plot: {', '.join(map(str, pages))}")
    document = {"plots": pages, "explanations": [one.to_dict() for one in found]}
    return kit.Answer(document, "\n".join(lines))
