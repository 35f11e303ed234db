"""Commands that plugins bring: found by name, listed without an import, and their mistakes told."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import click

from zoo_core.io.errors import PluginError, UnknownName, ZooError
from zoo_core.io.targets import describe, resolve
from zoo_core.spec.commands import COMMANDS
from zoo_core.spec.discovery import BUILTIN
from zoo_core.spec.entries import CommandEntry
from zoo_core.spec.plugins import load_plugins
from zoo_core.spec.registry import elsewhere, origin, plugin_of, qualified_name, registry

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def find(name: str) -> click.Command:
    """The command called `name` or `plugin/name`; a name that two plugins have is an error."""
    entry = registry().commands.get(name)
    command = resolve(entry.target, _in_words(entry))
    if not isinstance(command, click.Command):
        what = f"{_in_words(entry)} names {entry.target!r}, which is not a click command"
        raise PluginError(what, "its author makes one with @zoo.kit.command()")
    return command


def find_inside(group: str, name: str) -> click.Command | None:
    """A plugin's command of a group. None if there is none: click then says so."""
    if name in labelled(group):
        return find(f"{group} {name}")
    if hint := elsewhere("command", f"{group} {name}"):
        raise UnknownName(f"there is no command 'zoo {group} {name}'", hint)
    return None


def broken(name: str, error: Exception) -> str:
    """The sentence for a command that raised what is not an error for users."""
    try:
        whose = f"zoo {name}" if name in COMMANDS else _in_words(registry().commands.get(name))
    except ZooError:
        whose = "zoo"
    return f"{whose} raised {describe(error)}"


def labelled(group: str = "") -> dict[str, CommandEntry]:
    """The commands of plugins, each by the shortest name that finds it; or those of a group."""
    commands = registry().commands
    theirs = [entry for entry in commands if plugin_of(entry) != BUILTIN]
    if group:
        return {e.name.split(" ")[1]: e for e in theirs if e.name.startswith(f"{group} ")}
    return {commands.label(entry): entry for entry in theirs if " " not in entry.name}


def refused() -> list[str]:
    """A sentence for each name that several have: who they are, and how to reach them."""
    sentences = []
    for name, group in groupby(registry().commands, lambda entry: entry.name):
        entries = list(group)
        ways = [f"zoo {qualified_name(e)}" for e in entries if plugin_of(e) != BUILTIN]
        if len(entries) > 1:
            runs = "none of them" if len(ways) == len(entries) else "the built-in one"
            who = f"Command {name!r} is provided by {' and by '.join(map(origin, entries))}"
            sentences.append(f"{who}: zoo {name} runs {runs}; write {' or '.join(ways)}.")
    return sentences


def completions(incomplete: str, group: str = "") -> list[CompletionItem]:
    """What a shell offers."""
    from click.shell_completion import CompletionItem

    known = {label: entry.help for label, entry in labelled(group).items()}
    return [CompletionItem(n, help=h) for n, h in known.items() if n.startswith(incomplete)]


def format_section(formatter: click.HelpFormatter, group: str = "") -> None:
    """Write the part of `zoo --help`, or of a group's, that is about plugins."""
    try:
        entries = labelled(group).items()
        rows = [(label, f"{e.help} [plugin {plugin_of(e)}]") for label, e in entries]
        remarks = [] if group else [*refused(), *load_plugins().remarks]
    except ZooError as error:  # ZOO_STRICT or ZOO_PLUGINS, which the help explains
        rows, remarks = [], [f"Plugins cannot be loaded: {error}."]
    if rows:
        with formatter.section("Commands from plugins"):
            formatter.write_dl(rows)
    for remark in remarks:
        formatter.write_paragraph()
        formatter.write_text(remark)


def _in_words(entry: CommandEntry) -> str:
    return f"command {entry.name!r} of {origin(entry)}"
