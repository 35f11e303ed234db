"""How a command answers: one document that `--json` prints, and what a person sees instead.

Tables and fields are plain text for `cut` and `grep`; a terminal breaks long cells into lines.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

import click

from zoo_core.io.console import plain, show_on_stderr
from zoo_core.io.errors import ZooError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

AS_JSON = "zoo.json"
LEAST_ROOM = 20  # columns, for the last cell of a row on a narrow terminal
STYLES = re.compile("\x1b\\[(?:0|1|3[0-7])m")  # what click.style writes for us: bold and colours


@dataclass(frozen=True)
class Answer:
    """What a command found out, for programs and for people."""

    document: Any  # what --json prints, and nothing else, on standard output
    show: str | Callable[[], object] = ""  # what a person reads, or what prints it
    failed: bool | ZooError = False  # the exit code is 1, or the error to end with
    remarks: Sequence[str] = ()  # on standard error, at the end
    brief: str = ""  # what --quiet prints instead of `show`: a path


class Command(click.Command):
    """What `command` makes; the examples in its docstring stand at the end of the help."""

    def __init__(self, name: str | None, json_help: str = "Print JSON.", **settings: Any) -> None:
        help = inspect.cleandoc(settings.pop("help", None) or "")
        text, found, examples = help.partition("\n\nExample")
        if found:
            settings["epilog"] = f"\b\nExample{examples}"  # \b keeps click from filling the lines
        super().__init__(name, help=text, **settings)
        self.json_help = json_help
        if json_help:
            self.params.append(click.Option(["--json", "as_json"], is_flag=True, help=json_help))

    def invoke(self, ctx: click.Context) -> Any:
        as_json = ctx.meta[AS_JSON] = ctx.params.pop("as_json", False)
        quiet = bool(ctx.params.get("quiet"))
        if quiet:
            show_on_stderr(quiet)
        answer = super().invoke(ctx)
        if not isinstance(answer, Answer):
            if isinstance(self, click.Group) or (answer is None and not self.json_help):
                return answer
            raise TypeError(f"it returned {type(answer).__name__}, not zoo.kit.Answer")
        if as_json:
            import json  # here, as below: `zoo list` in a pipe needs neither

            click.echo(json.dumps(answer.document, indent=2, default=_plain))
        elif quiet and answer.brief:
            echo(answer.brief)
        elif callable(answer.show):
            answer.show()
        elif answer.show:
            echo(answer.show)
        for remark in () if quiet else answer.remarks:
            note(remark)
        if isinstance(answer.failed, ZooError):
            raise answer.failed
        ctx.exit(int(answer.failed))


class Group(Command, click.Group):
    """A command that has commands of its own, and those that plugins add: `zoo data check`."""

    command_class = Command

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        own = super().get_command(ctx, name)
        if own is not None or not _is_first(ctx):
            return own
        from zoo_core.cli.plugin_commands import find_inside

        return find_inside(ctx.info_name or "", name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_commands(ctx, formatter)
        if _is_first(ctx):
            from zoo_core.cli.plugin_commands import format_section

            format_section(formatter, ctx.info_name or "")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = super().shell_complete(ctx, incomplete)
        if _is_first(ctx):
            from zoo_core.cli.plugin_commands import completions

            found += completions(incomplete, ctx.info_name or "")
        return found


def _is_first(ctx: click.Context) -> bool:
    """Whether the command stands directly below `zoo`: plugins add to no deeper ones."""
    return ctx.parent is not None and ctx.parent.parent is None


def command(**settings: Any) -> Callable[[Callable[..., Answer | None]], Command]:
    """Make a command of a function; what it returns, an Answer, `--json` prints as JSON.

    The docstring is the help. settings: click's, and `json_help`, which describes --json; a command
    with json_help="" has no --json, and its function may return None.
    """
    return click.command(cls=Command, **settings)


def group(
    json_help: str = "", cls: type[Group] = Group, **settings: Any
) -> Callable[[Callable[..., Any]], Group]:
    """Make a command that has commands of its own: `@NAME.command()` adds one, made as above."""
    return click.group(cls=cls, json_help=json_help, **settings)


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print for people: all that a command shows comes through here, names of strangers too."""
    parts = zip([*STYLES.split(str(text))], [*STYLES.findall(str(text)), ""], strict=True)
    click.echo("".join(plain(part) + style for part, style in parts), err=err, nl=nl)


def print_part(line: str) -> None:
    """Print a part of an answer as soon as it is there; --json has it in the document."""
    if not click.get_current_context().meta[AS_JSON]:
        echo(line)


def note(sentence: str) -> None:
    """A remark for the person at the keyboard; never part of the result."""
    echo(sentence, err=True)


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object] | Mapping[str, object]],
    spare: Sequence[str | tuple[str, ...]] = (),
    empty: str = "",
) -> None:
    """Print rows, sequences or mappings, as a table. Columns named #NAME are aligned to the right.

    A terminal that is too narrow does without the `spare` columns, the first of them first; those
    of a tuple move into the last column, as NAME=VALUE. Where there are no rows, `empty` says so on
    standard error.
    """
    if empty and not rows:
        note(empty)
        return
    names = [column.lstrip("#") for column in columns]
    titles = [name.upper() for name in names]
    values = ([row.get(n) for n in names] if isinstance(row, Mapping) else row for row in rows)
    texts = ([_text(value) for value in row] for row in values)
    table = dict(zip(columns, zip(titles, *texts, strict=True), strict=True))
    widths = {column: max(map(width, cells)) for column, cells in table.items()}
    *fixed, last = columns
    room = widths[last]
    if sys.stdout.isatty():
        import shutil

        # The last column, a summary or a path, is broken into lines where room is short; the
        # others are not: a figure is never cut.
        for step in ((), *spare):
            gone = (step,) if isinstance(step, str) else step
            if gone is step:
                table[last] = tuple(_folded(table, last, gone))
                widths[last] = max(map(width, table[last]))
            fixed = [other for other in fixed if other not in gone]
            room = shutil.get_terminal_size().columns - sum(widths[f] + 2 for f in fixed)
            if room >= min(LEAST_ROOM, widths[last]):
                break
        room = widths[last] if last.startswith("#") else max(room, LEAST_ROOM)
    lines = []
    for *cells, text in zip(*(table[column] for column in (*fixed, last)), strict=True):
        parts = wrap(text, room) if width(text) > room else [text]
        padded = [_padded(cell, widths[c], c) + "  " for cell, c in zip(cells, fixed, strict=True)]
        start = "".join(padded)
        lines.append(start + _padded(parts[0], min(widths[last], room), last))
        lines += [" " * width(start) + part for part in parts[1:]]
    lines[0] = click.style(lines[0].rstrip(), bold=True)  # click takes the style away in a pipe
    echo("\n".join(map(str.rstrip, lines)))


def _folded(table: Mapping[str, Sequence[str]], last: str, gone: Sequence[str]) -> Iterator[str]:
    """The cells of the last column, with those of the columns that move there."""
    yield table[last][0]
    for i, cell in enumerate(table[last][1:], 1):
        words = (f"{c.lstrip('#')}={table[c][i]}" for c in gone if table[c][i] not in ("-", ""))
        yield "; ".join(filter(None, (cell, " ".join(words))))


def print_fields(fields: Mapping[str, object]) -> None:
    """Print a line `name  value` for each field that has a value."""
    shown = {name: _text(value) for name, value in fields.items() if value not in (None, "", ())}
    longest = max(map(len, shown), default=0)
    for name, value in shown.items():
        echo(f"{click.style(name.ljust(longest), bold=True)}  {value}")


def width(text: str) -> int:
    """How many columns of a terminal a text takes: Chinese and Japanese signs take two each."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in text)


def _padded(cell: str, to: int, column: str) -> str:
    space = " " * (to - width(cell))
    return space + cell if column.startswith("#") else cell + space


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    text = ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")  # a cell is one line


def _plain(value: object) -> object:
    """What json does not know: records, sets, paths."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)
