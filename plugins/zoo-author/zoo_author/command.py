"""zoo plugin: a new package, and whether one keeps its promises."""

from __future__ import annotations

from pathlib import Path

import click

from zoo import kit
from zoo_author.scaffold import write_plugin

COLORS = {"ok": "green", "found": "red", "skipped": "yellow"}


@kit.group()
def plugin_command() -> None:
    """Start a plugin, or check one.

    docs/plugins.md goes from an empty folder to published weights.

    Examples:
      zoo plugin new mixer            a package that works, to be changed into yours
      zoo plugin check ./zoo-mixer    what is wrong with it
    """


@plugin_command.command()
@click.argument("name")
@click.option("--model", "sort", flag_value="model", default=True, help="A model (default).")
@click.option("--dataset", "sort", flag_value="dataset", help="A dataset.")
@click.option("--trainer", "sort", flag_value="trainer", help="A trainer and a model for it.")
@click.option("--command", "sort", flag_value="command", help="A command of zoo.")
@click.option("--logger", "sort", flag_value="logger", help="A logger: it listens to runs.")
@click.option("--to", "parent", type=click.Path(path_type=Path, file_okay=False), default=Path(),
              help="Folder to make it in (default: here).")  # fmt: skip
def new(name: str, sort: str, parent: Path) -> kit.Answer:
    """Write a small, complete, installable plugin package.

    NAME is the family of models, the dataset or the command, in lower-case letters: the package
    is zoo-NAME. Nothing is overwritten.

    Examples:
      zoo plugin new mixer                  zoo-mixer/ with one small network
      zoo plugin new flowers --dataset
      zoo plugin new sizes --command        adds the command zoo sizes
      zoo plugin new tinygrad --trainer --to ~/projects
    """
    folder, files = write_plugin(name, sort, parent)

    def show() -> None:
        for file in files:
            kit.echo(folder / file)
        path = folder if folder.is_absolute() else f"./{folder}"
        steps = [kit.typed("pip install -e", folder), kit.typed("zoo plugin check", path)]
        steps += [kit.typed("cd", folder) + " && pytest"]
        kit.echo("\n  ".join(["\nNext:", *steps]), err=True)

    return kit.Answer({"folder": folder, "files": files}, show)


@plugin_command.command()
@click.argument("what", default=".", metavar="[PACKAGE|PATH]")
@kit.set_option("An option for all models that have it, to make large ones small.", "OPTION=VALUE")
def check(what: str, assignments: tuple[str, ...]) -> kit.Answer:
    """Check that a plugin keeps what it promises.

    PATH is the folder of a package: the command builds its wheel and checks the contents. It
    need not be installed. PACKAGE is an installed one. Each finding says what is wrong, why it
    matters and how to fix it. The exit code is 1 if there are findings.

    Examples:
      zoo plugin check                      the package in this folder
      zoo plugin check zoo-vit --set depth=2        an installed one; large models made small
      zoo plugin check ./zoo-mixer --json | jq '.[] | select(.state == "found")'
    """
    from zoo_author.package import check_folder, check_installed

    for option in assignments:
        if "=" not in option:
            raise click.UsageError(f"--set {option!r} must be OPTION=VALUE")
    is_path = what in (".", "..") or "/" in what or "\\" in what or Path(what).is_dir()
    made = check_folder(Path(what), assignments) if is_path else check_installed(what, assignments)
    outcomes = []
    for outcome in made:
        outcomes.append(outcome)
        state = click.style(outcome.state.ljust(8), fg=COLORS[outcome.state])
        kit.print_part(f"{state} {outcome.of}: {outcome.check.replace('_', ' ')}")
        if outcome.what:
            kit.print_part(f"         {outcome.what}.")
        if outcome.why:
            kit.print_part(f"         Why it matters: {outcome.why}.")
            kit.print_part(f"         To fix it: {outcome.fix}.")
    states = [outcome.state for outcome in outcomes]
    found, skipped = states.count("found"), states.count("skipped")
    words = [f"{len(states)} checks", "1 finding" if found == 1 else f"{found} findings"]
    words += [f"{skipped} skipped"] * bool(skipped)
    return kit.Answer(outcomes, f"\n{', '.join(words)}.", failed=found > 0)
