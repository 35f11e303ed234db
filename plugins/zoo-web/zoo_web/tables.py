"""Tables of a page: rows of text, each cell with the value that it is sorted by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoo import kit

TIME = re.compile(r"(\d+(?:\.\d+)?) (h|min|s)\b")  # 2 min 05 s
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | None = None  # None: sorted as text
    share: float | None = None  # from 0 to 1: a bar beside it


@dataclass(frozen=True)
class Table:
    """titles that begin with # are of numbers, as in kit.print_table."""

    titles: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""

    @property
    def columns(self) -> list[tuple[str, bool]]:
        return [(title.removeprefix("#"), title.startswith("#")) for title in self.titles]


def cell(value: Any) -> Cell:
    """Any value; a text that begins with a number is sorted by it."""
    if isinstance(value, Cell):
        return value
    if value is None:
        return Cell("")
    if isinstance(value, bool | str):
        words = kit.visible(str(value))
        if (times := TIME.findall(words)) and not TIME.sub("", words).strip():
            return Cell(words, sum(float(n) * SCALE.get(unit, 1) for n, unit in times))
        found = NUMBER.match(words)
        number = float(found[0].replace(",", "")) if found else None
        return Cell(words, number and SCALE.get(words.rpartition(" ")[2], 1) * number)
    return Cell(f"{value:,}" if isinstance(value, int) else f"{value:.5g}", float(value))


# What the units of a column's cells mean, where they differ from row to row.
SCALE = {"min": 60, "h": 3600, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def table(titles: Sequence[str], rows: Sequence[Any], caption: str = "") -> Table:
    """rows: sequences, or mappings by title without #."""
    names = [title.removeprefix("#") for title in titles]
    given = ([row.get(n) for n in names] if isinstance(row, Mapping) else row for row in rows)
    return Table(titles, [[cell(value) for value in row] for row in given], caption)
