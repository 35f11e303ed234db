"""zoo gallery: a site of trained models."""

from __future__ import annotations

from pathlib import Path

import click

from zoo import kit


@kit.command()
@click.argument("references", nargs=-1, metavar="[REFERENCE]...")
@click.option("--out", type=kit.PATH, default="site", show_default=True,
              help="The folder to write; an earlier gallery in it is replaced.")  # fmt: skip
@kit.runs_option
def gallery_command(references: tuple[str, ...], out: Path, runs: Path | None) -> kit.Answer:
    """Write a site of trained models, which compute in the browser.

    Without REFERENCE: all trained weights of the installed plugins. REFERENCE is the name of
    weights, a run or latest. Measuring a model takes minutes, once: the next site is written in
    seconds, and a site that was interrupted goes on where it was.

    Examples:
      zoo gallery
      zoo gallery cnn latest --out mine
      python -m http.server --bind 127.0.0.1 --directory site     look at it
    """
    from zoo_web.gallery import gallery

    made = gallery(references, out, runs=runs)
    count = len(made["models"])
    lines = [f"{count} model{'s' * (count != 1)}, {kit.size(made['bytes'])}: {made['start']}"]
    lines.append(f"Look: python -m http.server --bind 127.0.0.1 --directory {out}")
    return kit.Answer(made, "\n".join(lines), brief=made["path"])
