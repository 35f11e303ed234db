"""Tables, fields and JSON, the same way in every command.

On a terminal rich draws; in a pipe it is plain text that `cut` and `grep` understand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

MOST_DRAWN = 500  # rows; rich takes a millisecond for each


def print_json(document: Any) -> None:
    """One document, and nothing else, on standard output."""
    click.echo(json.dumps(document, indent=2, default=_plain))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns whose name starts with # hold numbers and are aligned to the right."""
    cells = [[_text(cell) for cell in row] for row in rows]
    if sys.stdout.isatty() and len(cells) <= MOST_DRAWN:
        _draw(columns, cells)
        return
    titles = [column.lstrip("#").upper() for column in columns]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    align = [str.rjust if column.startswith("#") else str.ljust for column in columns]
    lines = [
        "  ".join(to(cell, width) for to, cell, width in zip(align, row, widths, strict=True))
        for row in (titles, *cells)
    ]
    click.echo("\n".join(map(str.rstrip, lines)))


def print_fields(fields: Mapping[str, object]) -> None:
    """One `name  value` line for each field that has a value."""
    shown = {name: _text(value) for name, value in fields.items() if value not in (None, "", ())}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        label = click.style(name.ljust(width), bold=True)
        click.echo(f"{label}  {value}")


def note(sentence: str) -> None:
    """A remark for the person at the keyboard; never part of the result."""
    click.echo(sentence, err=True)


def size(bytes_: int) -> str:
    """A file size as people say it."""
    value = float(bytes_)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def _draw(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = column.startswith("#")
        # Only the last column, a summary or a path, is broken into lines where room is short.
        table.add_column(
            column.lstrip("#"),
            justify="right" if numeric else "left",
            no_wrap=index < len(columns) - 1,
        )
    for row in cells:
        table.add_row(*map(Text, row))  # Text: names are not markup
    console = Console()
    # A table that cannot fit is printed wider than the terminal: figures are never cut.
    needed = Measurement.get(console, console.options.update(max_width=1000), table).minimum
    console.width = max(console.width, needed)
    console.print(table)


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
