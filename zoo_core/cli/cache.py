"""zoo cache."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from zoo_core.cli.output import note, print_json, print_table
from zoo_core.io.console import size
from zoo_core.io.errors import UsageError, ZooError
from zoo_core.io.files import CACHES, cache_dir, cache_root


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  zoo cache
  zoo cache clear features
  zoo cache clear --yes       everything, without asking
""",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show or clear what the zoo keeps on this machine.

    Everything in it can be made or downloaded again. ZOO_CACHE chooses another folder.
    """
    if ctx.invoked_subcommand:
        return
    rows = [
        {"cache": kind, "holds": holds, "files": files, "bytes": used, "path": str(cache_dir(kind))}
        for kind, holds in CACHES.items()
        for files, used in [measure(cache_dir(kind))]
    ]
    if as_json:
        print_json({"root": str(cache_root()), "caches": rows})
        return
    print_table(
        ["cache", "holds", "#files", "#size", "path"],
        [[r["cache"], r["holds"], r["files"], size(int(str(r["bytes"]))), r["path"]] for r in rows],
    )


@command.command()
@click.argument("kinds", nargs=-1, type=click.Choice(list(CACHES)))
@click.option("--yes", is_flag=True, help="Do not ask.")
def clear(kinds: tuple[str, ...], yes: bool) -> None:
    """Delete one or more caches, or all of them."""
    folders = [cache_dir(kind) for kind in kinds or CACHES]
    used = sum(measure(folder)[1] for folder in folders)
    if not used:
        note("Nothing to clear.")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("nobody is there to be asked", "--yes deletes without asking")
        names = ", ".join(kinds or CACHES)
        click.confirm(f"Delete {size(used)} of {names} in {cache_root()}?", abort=True, err=True)
    for folder in folders:
        try:
            if folder.exists():
                shutil.rmtree(folder)
        except OSError as error:
            raise ZooError(f"{folder} could not be deleted: {error.strerror}") from error
    click.echo(f"Deleted {size(used)}.")


def measure(folder: Path) -> tuple[int, int]:
    """Number of files below a folder and their bytes. Symbolic links are not followed."""
    files = used = 0
    for path, _, names in os.walk(folder):
        files += len(names)
        used += sum((Path(path) / name).lstat().st_size for name in names)
    return files, used
