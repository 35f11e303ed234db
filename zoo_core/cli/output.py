"""Tables, fields and JSON, the same way in every command.

Plain text that `cut` and `grep` understand; on a terminal long cells are broken into lines.

Completion of names in the shell, and the remark about plugins that could not be loaded.
"""

from __future__ import annotations

import json
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any

import click

LEAST_ROOM = 20  # columns, for the last cell of a row on a narrow terminal


def print_json(document: Any) -> None:
    """One document, and nothing else, on standard output."""
    click.echo(json.dumps(document, indent=2, default=_plain))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], spare: Sequence[str] = ()
) -> None:
    """Columns whose name starts with # hold numbers and are aligned to the right.

    A terminal that is too narrow does without the `spare` columns, the first of them first.
    """
    titles = [column.lstrip("#").upper() for column in columns]
    texts = ([_text(cell) for cell in row] for row in rows)
    table = dict(zip(columns, zip(titles, *texts, strict=True), strict=True))
    widths = {column: max(map(width, cells)) for column, cells in table.items()}
    *fixed, last = columns
    room = widths[last]
    if sys.stdout.isatty():
        # The last column, a summary or a path, is broken into lines where room is short; the
        # others are not: a figure is never cut.
        for column in (None, *spare):
            fixed = [other for other in fixed if other != column]
            room = shutil.get_terminal_size().columns - sum(widths[f] + 2 for f in fixed)
            if room >= min(LEAST_ROOM, widths[last]):
                break
        room = widths[last] if last.startswith("#") else max(room, LEAST_ROOM)
    lines = []
    for *cells, text in zip(*(table[column] for column in (*fixed, last)), strict=True):
        parts = wrap(text, room) if width(text) > room else [text]
        start = "".join(
            _padded(cell, widths[column], column) + "  "
            for cell, column in zip(cells, fixed, strict=True)
        )
        lines.append(start + _padded(parts[0], min(widths[last], room), last))
        lines += [" " * width(start) + part for part in parts[1:]]
    lines[0] = click.style(lines[0].rstrip(), bold=True)  # click takes the style away in a pipe
    click.echo("\n".join(map(str.rstrip, lines)))


def print_fields(fields: Mapping[str, object]) -> None:
    """One `name  value` line for each field that has a value."""
    shown = {name: _text(value) for name, value in fields.items() if value not in (None, "", ())}
    longest = max(map(len, shown), default=0)
    for name, value in shown.items():
        label = click.style(name.ljust(longest), bold=True)
        click.echo(f"{label}  {value}")


def note(sentence: str) -> None:
    """A remark for the person at the keyboard; never part of the result."""
    click.echo(sentence, err=True)


def width(text: str) -> int:
    """How many columns of a terminal a text takes: Chinese and Japanese signs take two each."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _padded(cell: str, to: int, column: str) -> str:
    space = " " * (to - width(cell))
    return space + cell if column.startswith("#") else cell + space


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return str(value)


def _plain(value: object) -> object:
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def complete_models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from zoo_core.spec.registry import registry

    return [name for name in registry().models.labels() if name.startswith(incomplete)]


def complete_datasets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from zoo_core.spec.registry import registry

    return [name for name in registry().datasets.labels() if name.startswith(incomplete)]


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from zoo_core.runs.run import all_runs, runs_root

    names = ["latest", *(run.name for run in all_runs(runs_root(ctx.params.get("runs"))))]
    return [name for name in names if name.startswith(incomplete)]


def complete_weights(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from zoo_core.weights.manifest import all_weights

    names = sorted({weights.name for _, weights in all_weights()[0]})
    return [name for name in names if name.startswith(incomplete)]


def complete_trained(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [
        *complete_runs(ctx, param, incomplete),
        *complete_weights(ctx, param, incomplete),
    ]


def remark_on_broken_plugins() -> None:
    from zoo_core.spec.plugins import load_plugins

    broken = load_plugins().broken
    if broken:
        what = "1 plugin" if len(broken) == 1 else f"{len(broken)} plugins"
        note(
            f"{what} could not be loaded ({', '.join(r.id for r in broken)}): zoo plugins says why"
        )
