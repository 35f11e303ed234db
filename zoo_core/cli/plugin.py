"""zoo plugin."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoo_core.cli.output import note, print_json

if TYPE_CHECKING:
    from zoo_core.testing.suite import Outcome


@click.group(
    epilog="""\b
Examples:
  zoo plugin new mixer            a package that works, to be changed into yours
  zoo plugin check ./zoo-mixer    whether it keeps what it promises
"""
)
def command() -> None:
    """Start a plugin, or check one.

    docs/plugins.md goes from an empty folder to published weights.
    """


@command.command(
    epilog="""\b
Examples:
  zoo plugin new mixer                  zoo-mixer/ with one small network
  zoo plugin new flowers --dataset
  zoo plugin new tinygrad --trainer --to ~/projects
"""
)
@click.argument("name")
@click.option("--model", "sort", flag_value="model", default=True, help="A model (default).")
@click.option("--dataset", "sort", flag_value="dataset", help="A dataset.")
@click.option("--trainer", "sort", flag_value="trainer", help="A trainer and a model for it.")
@click.option(
    "--to",
    "parent",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Folder to make it in (default: here).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def new(name: str, sort: str, parent: Path, as_json: bool) -> None:
    """Write a small, complete, installable plugin package.

    NAME is the family, in lower-case letters: the package is zoo-NAME. Nothing is overwritten.
    """
    from zoo_core.scaffold import write_plugin

    folder, files = write_plugin(name, sort, parent)
    if as_json:
        print_json({"folder": str(folder), "files": files})
        return
    for file in files:
        click.echo(folder / file)
    note(
        f"\nNext:\n  pip install -e {folder}\n  zoo plugin check {_as_path(folder)}\n"
        f"  cd {folder} && pytest"
    )


@command.command(
    epilog="""\b
Examples:
  zoo plugin check                      the package in this folder
  zoo plugin check ./zoo-mixer
  zoo plugin check zoo-vit --set depth=2        an installed one; large models made small
  zoo plugin check ./zoo-mixer --json | jq '.[] | select(.state == "found")'
"""
)
@click.argument("what", default=".", metavar="[PACKAGE|PATH]")
@click.option(
    "--set",
    "options",
    multiple=True,
    metavar="OPTION=VALUE",
    help="An option for all models that have it, to make large ones small.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(what: str, options: tuple[str, ...], as_json: bool) -> int:
    """Check that a plugin keeps what it promises.

    PATH is the folder of a package: its wheel is built, and what the wheel contains is checked. It
    need not be installed. PACKAGE is an installed one. Each finding says what is wrong, why it
    matters and how to mend it. The exit code is 1 if there are any.
    """
    from zoo_core.testing.package import check_folder, check_installed

    for option in options:
        if "=" not in option:
            raise click.UsageError(f"--set {option!r} must be OPTION=VALUE")
    is_path = what in (".", "..") or "/" in what or "\\" in what or Path(what).is_dir()
    outcomes = check_folder(Path(what), options) if is_path else check_installed(what, options)
    made = []
    for outcome in outcomes:
        made.append(outcome)
        if not as_json:
            show(outcome)
    found = sum(outcome.state == "found" for outcome in made)
    if as_json:
        print_json([asdict(outcome) for outcome in made])
    else:
        skipped = sum(outcome.state == "skipped" for outcome in made)
        words = [f"{len(made)} checks", f"{found} findings" if found != 1 else "1 finding"]
        click.echo("\n" + ", ".join(words + [f"{skipped} skipped"] * bool(skipped)) + ".")
    return 1 if found else 0


def show(outcome: Outcome) -> None:
    color = {"ok": "green", "found": "red", "skipped": "yellow"}[outcome.state]
    state = click.style(outcome.state.ljust(8), fg=color)
    click.echo(f"{state} {outcome.of}: {outcome.check.replace('_', ' ')}")
    if outcome.what:
        click.echo(f"         {outcome.what}.")
    if outcome.why:
        click.echo(f"         Why it matters: {outcome.why}.")
        click.echo(f"         To mend it: {outcome.fix}.")


def _as_path(folder: Path) -> str:
    return str(folder) if folder.is_absolute() else f"./{folder}"
