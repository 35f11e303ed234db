"""zoo plugins: what is installed, and whether it can be used."""

from __future__ import annotations

from typing import Any

import click

from zoo_core.cli.options import completion
from zoo_core.cli.output import Answer, Group, echo, group, note, print_table
from zoo_core.cli.plugin_commands import refused
from zoo_core.io.console import typed
from zoo_core.io.errors import UnknownName
from zoo_core.spec.discovery import (
    declared_in,
    disable_plugin,
    disabled_plugins,
    enable_plugin,
)
from zoo_core.spec.entries import PluginRecord
from zoo_core.spec.plugins import SLOW, load_plugins


class Plugins(Group):
    """`zoo plugins` and `zoo plugins NAME` are short for `zoo plugins list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def installed(ctx: click.Context) -> list[str]:
    return [record.id for record in declared_in()]


@group(cls=Plugins)
def plugins_command() -> None:
    """List the installed plugins and their state, or leave one out.

    `zoo plugins` is short for `zoo plugins list`, and takes its options.

    Examples:
      zoo plugins                     every plugin, its state and the reason
      zoo plugins --traceback mixer   why one failed, in full
      zoo plugins disable mixer       leave it out from now on
    """


@plugins_command.command("list")
@click.argument("name", default="", shell_complete=completion(installed))
@click.option("--traceback", is_flag=True, help="Show where a plugin failed.")
@click.option("--requirements", is_flag=True, help="Print them as a requirements file for pip.")
def list_plugins(name: str, traceback: bool, requirements: bool) -> Answer:
    """List the installed plugins and their state.

    A plugin is ok, failed, disabled (by zoo plugins disable, ZOO_PLUGINS or ZOO_DISABLE_PLUGINS),
    in conflict with another of the same id, or incompatible: made for a newer zoo. NAME shows one
    of them.

    Examples:
      zoo plugins
      zoo plugins --traceback my-plugin    why it failed, in full
      zoo plugins --requirements > zoo.txt && pip install -r zoo.txt    the same set elsewhere
      ZOO_STRICT=1 zoo plugins             fail if any plugin is not ok
    """
    every = load_plugins().records
    records = [record for record in every if name in ("", record.id)]
    if name and not records:
        known = ", ".join(record.id for record in every)
        raise UnknownName(f"there is no plugin {name!r}", f"installed: {known}")
    if requirements:
        wanted = sorted({f"{r.distribution}=={r.version}" for r in records if r.version})
        return Answer(wanted, "\n".join(wanted))

    def show() -> None:
        cells = [
            [r.id, r.state, r.distribution, r.version, f"{r.seconds * 1000:.0f}", provides(r)]
            for r in records
        ]
        columns = ["plugin", "state", "distribution", "version", "#ms", "provides"]
        print_table(columns, cells, spare=("distribution",))
        for r in records:
            if r.reason:
                echo(f"\n{r.id} ({r.distribution}) is {r.state}: {r.reason}.")
            if traceback and r.traceback:
                echo(r.traceback.rstrip())
        for r in records:
            if r.seconds > SLOW:
                cost = f"\n{r.id} adds {1000 * r.seconds:.0f} ms to every start of the zoo"
                note(f"{cost}; zoo plugin check {r.id} says why.")
        if not traceback and any(r.traceback for r in records):
            note("\nzoo plugins --traceback shows where they failed.")

    return Answer([as_dict(r, traceback) for r in records], show, remarks=refused())


@plugins_command.command()
@click.argument("name", shell_complete=completion(installed))
def disable(name: str) -> Answer:
    """Leave a plugin out, in every command and program of yours, until you enable it.

    No plugin is loaded for this, so it works if one of them hangs or ends every command. ZOO_CONFIG
    chooses the folder where the zoo remembers it; ZOO_PLUGINS=NAME loads a disabled plugin once.

    Example:
      zoo plugins disable mixer
    """
    disable_plugin(name)
    back = typed("zoo plugins enable", name)
    return Answer({"disabled": disabled_plugins()}, f"Disabled {name}. To undo it: {back}")


@plugins_command.command()
@click.argument("name", shell_complete=completion(lambda ctx: disabled_plugins()))
def enable(name: str) -> Answer:
    """Load a plugin again that zoo plugins disable left out.

    Example:
      zoo plugins enable mixer
    """
    enable_plugin(name)
    return Answer({"disabled": disabled_plugins()}, f"Enabled {name}.")


def contributions(record: PluginRecord) -> dict[str, list[str]]:
    sorts = ("models", "datasets", "trainers", "augmentations", "commands", "engines")
    return {sort: [entry.name for entry in record.entries(sort)] for sort in sorts}


def provides(record: PluginRecord) -> str:
    listeners = [hook for hook in record.hooks if hook.startswith(("zoo_run", "zoo_epoch"))]
    weights = record.entries("manifests")
    words = {**contributions(record), "weights": weights, "listens to": listeners}
    return "; ".join(f"{sort}: {', '.join(names)}" for sort, names in words.items() if names) or "-"


def as_dict(record: PluginRecord, traceback: bool) -> dict[str, Any]:
    names = ("id", "state", "reason", "distribution", "version", "hooks")
    return {name: getattr(record, name) for name in names} | {
        "entry_point": record.value,
        "manifests": record.entries("manifests"),
        **contributions(record),
        "seconds": round(record.seconds, 4),
        **({"traceback": record.traceback} if traceback else {}),
    }
