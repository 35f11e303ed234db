"""zoo cache and zoo doctor: this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zoo_core.cli.options import completion, confirm, runs_option, yes_option
from zoo_core.cli.output import Answer, command, group, note, print_part, print_table
from zoo_core.io.console import size
from zoo_core.io.errors import UsageError, did_you_mean, os_errors
from zoo_core.io.files import cache_dir, cache_root, caches
from zoo_core.runs.leftovers import Leftover, all_leftovers, clear_folder, measure
from zoo_core.runs.run import runs_root


@group(invoke_without_command=True, json_help="Print JSON.")
@runs_option
@click.pass_context
def cache_command(ctx: click.Context, runs: Path | None) -> Answer | None:
    """Show or clear what the zoo keeps on this machine.

    Everything in it can be made or downloaded again. ZOO_CACHE chooses another folder.

    Examples:
      zoo cache clear features
      zoo cache clear --yes       everything, without asking
      zoo cache clear --leftovers what killed processes left in caches and runs
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
    found, remarks = all_leftovers(runs_root(runs)), []
    if found:
        used = sum(one.bytes for one in found)
        what = f"{leftovers_in(found)} of processes that were killed, {size(used)}"
        remarks = [f"\n{what}: zoo cache clear --leftovers deletes them."]
    document = {"root": cache_root(), "caches": rows, "leftovers": found}
    return Answer(document, lambda: print_table(columns, shown), remarks=remarks)


@cache_command.command(json_help="Print what was deleted as JSON.")
@click.argument(
    "kinds", nargs=-1, metavar="[CACHE...]", shell_complete=completion(lambda ctx: caches())
)
@click.option("--leftovers", is_flag=True, help="Only what killed processes left, in runs too.")
@runs_option
@yes_option
def clear(kinds: tuple[str, ...], leftovers: bool, runs: Path | None, yes: bool) -> Answer:
    """Delete one or more caches, or all of them.

    What a living process uses stays.
    """
    known = caches()
    for kind in kinds:
        if kind not in known:
            hint = did_you_mean(kind, known, f"choose from {', '.join(known)}")
            raise UsageError(f"there is no cache {kind!r}", hint)
    if leftovers:
        if kinds:
            raise UsageError("--leftovers always covers all caches", f"leave out {' '.join(kinds)}")
        return clear_leftovers(all_leftovers(runs_root(runs)), yes)
    before = {cache_dir(kind): measure(cache_dir(kind))[1] for kind in kinds or known}
    if not (used := sum(before.values())):
        note("Nothing to clear.")
        return Answer([])
    confirm(f"Delete {size(used)} of {', '.join(kinds or known)} in {cache_root()}?", yes)
    for folder in before:
        with os_errors(f"{folder} could not be deleted"):
            clear_folder(folder)
    after = {folder: measure(folder)[1] for folder in before}
    gone = [{"path": path, "bytes": was - after[path]} for path, was in before.items()]
    left = sum(after.values())
    remarks = [f"A process works on the other {size(left)}."] * bool(left)
    return Answer(gone, f"Deleted {size(used - left)}.", remarks=remarks)


def leftovers_in(found: list[Leftover]) -> str:
    return "1 leftover" if len(found) == 1 else f"{len(found)} leftovers"


def clear_leftovers(found: list[Leftover], yes: bool) -> Answer:
    """Show them, ask, and delete those that no process has begun to use meanwhile."""
    if not found:
        note("Nothing to clear.")
        return Answer([])
    for one in found:
        print_part(f"{one.path}  {one.what}, {size(one.bytes)}")
    confirm(f"Delete {leftovers_in(found)}, {size(sum(one.bytes for one in found))}?", yes)
    gone = [one for one in found if one.remove()]
    return Answer(gone, f"Deleted {len(gone)}, {size(sum(one.bytes for one in gone))}.")


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
