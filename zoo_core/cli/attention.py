"""zoo attention."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_core.cli.output import complete_trained, print_json
from zoo_core.io.errors import MissingDependency, UsageError, ZooError

if TYPE_CHECKING:
    import numpy as np


@click.command(
    epilog="""\b
Examples:
  zoo attention latest cat.jpg
  zoo attention latest cat.jpg --heads -o cat.pdf
  zoo list --json        "capabilities" says which models have attention
"""
)
@click.argument("run", shell_complete=complete_trained)
@click.argument("picture", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("attention.png"),
              show_default=True, help="The picture to write: .png, .pdf or .svg.")  # fmt: skip
@click.option("--heads", is_flag=True, help="Each head alone, not their mean.")
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--json", "as_json", is_flag=True, help="Print the attention of each layer as JSON.")
def command(
    run: str, picture: Path, output: Path, heads: bool, runs: Path | None, as_json: bool
) -> None:
    """Draw where a transformer looks, layer by layer.

    RUN is a path, a name in the runs folder, latest, or weights. For each layer the share of
    attention that the class token gives to each patch is laid over the PICTURE.
    """
    try:
        from zoo_core.report.comparison import draw_attention
        from zoo_core.report.drawing import FORMATS
    except ImportError as error:
        raise MissingDependency(
            "drawing attention needs matplotlib", "pip install 'zoo-core[report]'"
        ) from error
    if output.suffix not in FORMATS:
        raise UsageError(f"{output} must end in one of {', '.join(FORMATS)}")
    if not picture.is_file():
        raise UsageError(f"there is no picture {picture}")
    from zoo_core.use.predict import attention_of

    seen = attention_of(run, picture, runs=runs)
    try:
        draw_attention(output, seen, picture.name, heads)
    except OSError as error:
        raise ZooError(f"{output} could not be written: {error.strerror}") from error
    if as_json:
        print_json(
            {
                "picture": str(picture),
                "class": seen.label,
                "probability": round(seen.probability, 6),
                "layers": rounded(seen.maps if heads else seen.maps.mean(1)),
                "output": str(output),
            }
        )
        return
    if seen.label:
        click.echo(f"{picture}: {seen.label}, {100 * seen.probability:.1f} %")
    click.echo(f"Picture: {output}")


def rounded(shares: np.ndarray) -> list[Any]:
    """As float64, because a rounded float32 is written with many digits."""
    return shares.astype(float).round(6).tolist()  # type: ignore[no-any-return]
