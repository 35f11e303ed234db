"""zoo gallery: the site of everything installed that is trained."""

from __future__ import annotations

from pathlib import Path

import click

from zoo import kit


@kit.command()
@click.option("--out", type=kit.PATH, default="site", show_default=True,
              help="The folder to write.")  # fmt: skip
def gallery_command(out: Path) -> kit.Answer:
    """Write a site of all trained models, which compute in the browser.

    Example:
      zoo gallery --out site
    """
    from zoo_web.gallery import gallery

    return kit.Answer(gallery(out), f"Wrote {out}")
