"""Commands that plugins bring: found by name, listed without an import, and their mistakes told."""

from __future__ import annotations

from itertools import groupby

import click

from zoo_core.io.errors import PluginError, ZooError
from zoo_core.io.targets import describe, resolve
from zoo_core.spec.entries import CommandEntry
from zoo_core.spec.plugins import BUILTIN, load_plugins
from zoo_core.spec.registry import origin, plugin_of, qualified_name, registry


def find(name: str) -> click.Command:
    """The command called `name` or `plugin/name`; a name that two plugins have is an error."""
    entry = registry().commands.get(name)
    command = resolve(entry.target, _in_words(entry))
    if not isinstance(command, click.Command):
        raise PluginError(
            f"{_in_words(entry)} names {entry.target!r}, which is not a click command",
            "its author makes one with @zoo.kit.command()",
        )
    return command


def broken(name: str, error: Exception) -> PluginError:
    """The sentence for what a command raised and should not have."""
    return PluginError(
        f"{_in_words(registry().commands.get(name))} raised {describe(error)}",
        "the same command with --debug shows the traceback",
    )


def labelled() -> dict[str, CommandEntry]:
    """The commands of plugins by the shortest name that finds each; none if plugins cannot load."""
    try:
        commands = registry().commands
    except ZooError:
        return {}
    return {commands.label(entry): entry for entry in commands if plugin_of(entry) != BUILTIN}


def refused(plugin: str = "") -> list[str]:
    """A sentence for each name that several have: all of them, or those that concern a plugin."""
    sentences = []
    for name, group in groupby(registry().commands, lambda entry: entry.name):
        entries = list(group)
        owners = list(map(plugin_of, entries))
        if len(entries) > 1 and plugin in ("", *owners):
            runs = "the built-in one" if BUILTIN in owners else "none of them"
            ways = [f"zoo {qualified_name(e)}" for e in entries if plugin_of(e) != BUILTIN]
            sentences.append(
                f"Command {name!r} is provided by {' and by '.join(map(origin, entries))}: "
                f"zoo {name} runs {runs}; write {' or '.join(ways)}."
            )
    return sentences


def format_section(formatter: click.HelpFormatter) -> None:
    """Write the part of `zoo --help` that is about plugins."""
    rows = [(label, f"{e.help} [plugin {plugin_of(e)}]") for label, e in labelled().items()]
    if rows:
        with formatter.section("Commands from plugins"):
            formatter.write_dl(rows)
    try:
        remarks = [*refused(), *load_plugins().remarks]
    except ZooError as error:  # ZOO_STRICT or ZOO_PLUGINS, which the help explains
        remarks = [f"Plugins cannot be loaded: {error}."]
    for remark in remarks:
        formatter.write_paragraph()
        formatter.write_text(remark)


def _in_words(entry: CommandEntry) -> str:
    return f"command {entry.name!r} of {origin(entry)}"
