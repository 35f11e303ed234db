"""zoo cache and zoo doctor: this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import click

from zoo_core.cli.options import completion, confirm, yes_option
from zoo_core.cli.output import Answer, command, echo, group, note, print_table
from zoo_core.io.console import size
from zoo_core.io.errors import UsageError, did_you_mean, os_errors
from zoo_core.io.files import cache_dir, cache_root, caches


@group(invoke_without_command=True, json_help="Print JSON.")
@click.pass_context
def cache_command(ctx: click.Context) -> Answer | None:
    """Show or clear what the zoo keeps on this machine.

    Everything in it can be made or downloaded again. ZOO_CACHE chooses another folder.

    Examples:
      zoo cache clear features
      zoo cache clear --yes       everything, without asking
    """
    if ctx.invoked_subcommand:
        return None
    rows: list[dict[str, Any]] = []
    for kind, holds in caches().items():
        files, used = measure(cache_dir(kind))
        facts = {"files": files, "bytes": used, "path": cache_dir(kind)}
        rows.append({"cache": kind, "holds": holds, **facts})
    shown = [row | {"size": size(row["bytes"])} for row in rows]
    columns = ["cache", "holds", "#files", "#size", "path"]
    return Answer({"root": cache_root(), "caches": rows}, lambda: print_table(columns, shown))


@cache_command.command(json_help="")
@click.argument(
    "kinds", nargs=-1, metavar="[CACHE...]", shell_complete=completion(lambda ctx: caches())
)
@yes_option
def clear(kinds: tuple[str, ...], yes: bool) -> None:
    """Delete one or more caches, or all of them."""
    known = caches()
    for kind in kinds:
        if kind not in known:
            hint = did_you_mean(kind, known, f"choose from {', '.join(known)}")
            raise UsageError(f"there is no cache {kind!r}", hint)
    folders = [cache_dir(kind) for kind in kinds or known]
    used = sum(measure(folder)[1] for folder in folders)
    if not used:
        note("Nothing to clear.")
        return
    confirm(f"Delete {size(used)} of {', '.join(kinds or known)} in {cache_root()}?", yes)
    for folder in folders:
        with os_errors(f"{folder} could not be deleted"):
            if folder.exists():
                shutil.rmtree(folder)
    echo(f"Deleted {size(used)}.")


def measure(folder: Path) -> tuple[int, int]:
    """Number of files below a folder and their bytes. Symbolic links are not followed."""
    files = (Path(path) / name for path, _, names in os.walk(folder) for name in names)
    sizes = [file.lstat().st_size for file in files]
    return len(sizes), sum(sizes)


@command()
@click.option("--offline", is_flag=True, help="Do not use the network.")
def doctor_command(offline: bool) -> Answer:
    """Check what is installed, reachable and writable, and say how to fix the rest.

    Exits with 1 if there is a problem; a note is not a problem.

    Examples:
      zoo doctor --offline    ask no hub
      zoo doctor --json       for a bug report
    """
    from zoo_core.doctor import examine

    found = list(examine(network=not offline))
    ok = all(one.state != "problem" for one in found)
    said = [f"{one.words}; {one.hint}" if one.hint else one.words for one in found]
    rows = [[one.about, one.state, what] for one, what in zip(found, said, strict=True)]
    document = {"ok": ok, "findings": found}
    return Answer(document, lambda: print_table(["about", "state", "what"], rows), failed=not ok)
