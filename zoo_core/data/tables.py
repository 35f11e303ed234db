"""Tables of images, whatever files they come from: what each column is, which rows can be used."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoo_core.data.image_folder import SPLITS
from zoo_core.data.images import SUFFIXES
from zoo_core.data.originals import LeftOut, Originals
from zoo_core.io.console import typed
from zoo_core.io.errors import DataError, OptionError
from zoo_core.spec.answers import CLASS, CLASSES, NUMBERS

LOOK = 100  # rows that decide which column holds images
USUAL = ("file_name", "image")  # the column of the images, where several could be
MANY = 100  # so many classes are believed even if most of them have a single image
WHOLE = re.compile(r"-?(0|[1-9]\d*)")  # 007 is a name
NUMBER = re.compile(r"(?=.*\d)[+-]?(0|[1-9]\d*)?(\.\d*)?(e[+-]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows with an image and what is known of it. Readers give one to `table_originals`.

    rows: called with names of columns, gives for every row its name ("line 17") and its cells, or
    in place of the cells a text that says what is wrong with it. Images are paths in a column, or
    `read` gives them: called with a column and the number of a row, from 0, by threads.
    """

    name: str
    columns: Sequence[str]
    rows: Callable[[Sequence[str]], Iterable[tuple[str, Sequence[Any] | str]]]
    folder: Path = Path()  # what paths are relative to
    root: Path | None = None  # a path that leads out of this folder is refused
    images: Sequence[str] = ()  # columns that `read` has; their cells are not looked at
    read: Callable[[str, int], Path | bytes] | None = None
    key: Any = None  # JSON of what decides the bytes that `read` gives
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # column -> names of 0, 1...


class Row(NamedTuple):
    number: int
    where: str
    name: str
    file: tuple[str, int, int] | None  # path, size and time
    cells: Sequence[Any]
    split: str | None


class Unusable(Exception):
    """What is wrong with a row."""


def table_originals(
    table: Table, *, image: str | None = None, target: Any = None, labels: str = "auto"
) -> Originals:
    """The images of a table. image, target, labels: as in docs/datasets.md."""
    if labels not in ("auto", CLASS, CLASSES, NUMBERS):
        raise OptionError(f"labels is {labels!r}", "auto, class, classes or numbers")
    image = _image_column(table, image)
    columns = _target_columns(table, image, target)
    split = ["split"] if "split" in table.columns and "split" not in (image, *columns) else []
    rows: dict[str, Row] = {}  # by the name of the image
    left_out: list[LeftOut] = []

    def drop(where: str, why: object) -> None:
        left_out.append(LeftOut(where, f"{table.name}, {where}: {why}"))

    for number, (where, cells) in enumerate(table.rows([image, *columns, *split])):
        try:
            row = _row(table, image, number, where, cells, bool(split))
            if row.name in rows:
                raise Unusable(f"{row.name} is in {rows[row.name].where} already")
            rows[row.name] = row
        except Unusable as problem:
            drop(where, problem)
    kept = list(rows.values())
    values, names, problems = _labels(table, columns, kept, labels)
    for row, why in zip(kept, problems, strict=True):
        if why:
            drop(row.where, why)
    used, parts, remarks = _parts(table, kept, [not why for why in problems])
    kept = [kept[place] for place in used]
    if not kept:
        told = f"; {left_out[0].reason}" if left_out else ""
        raise DataError(f"{table.name} has no row that can be used{told}")
    numbers = [row.number for row in kept]
    files = [row.file for row in kept]

    def read(place: int) -> Path | bytes:
        if (file := files[place]) is not None:
            return table.folder / file[0]
        assert table.read is not None
        return table.read(image, numbers[place])

    return Originals(
        names=[row.name for row in kept],
        read=read,
        key=[table.key, image, numbers] if image in table.images else files,
        labels=None if values is None else values[used],
        classes=names if values is None or values.dtype.kind != "f" else None,
        numbers={} if values is None or values.dtype.kind != "f" else dict.fromkeys(names, ""),
        splits=parts,
        left_out=left_out,
        remarks=remarks,
    )


def _image_column(table: Table, asked: str | None) -> str:
    if asked is not None:
        _known(table, asked, "image")
        return asked
    found = list(table.images)
    head = [cells for _, cells in islice(table.rows(table.columns), LOOK)]
    for place, name in enumerate(table.columns):
        cells = [row[place] for row in head if not isinstance(row, str)]
        if any(isinstance(cell, str) and cell.lower().endswith(SUFFIXES) for cell in cells):
            found.append(name)
    usual = [name for name in USUAL if name in found]
    if len(found) == 1 or usual:
        return (usual or found)[0]
    what = "could be the images" if found else "and none of them names images"
    hint = f"say which column does: --set data.image={(found or ['COLUMN'])[0]}"
    listed = ", ".join(found or table.columns)
    raise DataError(f"{table.name}: the columns are {listed}, {what}" if not found else
                    f"{table.name}: each of the columns {listed} {what}", hint)  # fmt: skip


def _target_columns(table: Table, image: str, asked: Any) -> list[str]:
    if asked is not None:
        names = asked.split(",") if isinstance(asked, str) else list(asked)
        for name in names:
            _known(table, name, "target")
        return names
    others = [name for name in table.columns if name not in (image, "split", *table.images)]
    if len(others) > 1:
        what = f"{table.name} has several columns that could be the labels: {', '.join(others)}"
        raise OptionError(what, f"choose one or more: --set data.target={others[0]}")
    return others


def _known(table: Table, column: str, option: str) -> None:
    if column not in table.columns:
        what = f"{table.name} has no column {column!r}, which data.{option} names"
        raise OptionError(what, f"it has: {', '.join(table.columns)}")


def _row(
    table: Table, image: str, number: int, where: str, cells: Sequence[Any] | str, split: bool
) -> Row:
    if isinstance(cells, str):
        raise Unusable(cells)
    given, labels = cells[0], cells[1 : len(cells) - split]
    part = SPLITS.get(str(cells[-1]).lower()) if split else None
    if split and part is None:
        raise Unusable(f"its split is {cells[-1]!r}, which is not train, test or val")
    if image in table.images:
        return Row(number, where, where, None, labels, part)
    if not isinstance(given, str) or not given:
        raise Unusable("it names no image")
    path = os.path.normpath(table.folder / given.replace("\\", "/"))
    if table.root and not Path(path).is_relative_to(table.root):
        what = f"{table.name}, {where} names {given}, which is outside of {table.root}"
        common = os.path.commonpath((path, table.root))
        allow = typed("--set", f"data.root={common}")
        raise DataError(what, f"if you trust this table, allow it with {allow}")
    try:
        facts = os.stat(path)  # noqa: PTH116 - a million times
    except (OSError, ValueError):
        raise Unusable(f"there is no file {given}") from None
    if not stat.S_ISREG(facts.st_mode):
        raise Unusable(f"{given} is not a file")
    inside = Path(path).is_relative_to(table.folder)
    name = Path(path).relative_to(table.folder).as_posix() if inside else Path(path).as_posix()
    return Row(number, where, name, (name, facts.st_size, facts.st_mtime_ns), labels, part)


def _parts(
    table: Table, rows: Sequence[Row], good: Sequence[bool]
) -> tuple[list[int], dict[str, np.ndarray], list[str]]:
    """The places of the rows to use, which of those are for what, and what to say about it."""
    words = [row.split or SPLITS.get(row.name.partition("/")[0].lower()) for row in rows]
    if None in words:  # some are in no folder of a split: the folders mean something else
        words = [row.split for row in rows]
    present = {word for word in words if word}
    if present and not present & {"train"}:
        raise DataError(f"{table.name} has no rows for training, only for {min(present)}")
    used = [i for i, word in enumerate(words) if good[i]]
    remarks = []
    if {"test", "val"} <= present:
        remarks = [f"{words.count('val'):,} rows for validation are not used"]
        used = [i for i in used if words[i] != "val"]
    if not present - {"train"}:
        return used, {}, remarks
    train = np.array([words[i] == "train" for i in used], bool)
    return used, {"train": np.flatnonzero(train), "test": np.flatnonzero(~train)}, remarks


# ---------------------------------------------------------------- labels


def _labels(
    table: Table, columns: Sequence[str], rows: Sequence[Row], wanted: str
) -> tuple[np.ndarray | None, list[str], list[str]]:
    """The labels, the names of classes or numbers, and what is wrong with each row, or ""."""
    problems = [""] * len(rows)
    if not columns or not rows:
        return None, [], problems
    cells, kinds = zip(*(_typed([row.cells[k] for row in rows]) for k in range(len(columns))))
    by_row = list(zip(*cells, strict=True))
    flags = len(columns) > 1 and all(v in (0, 1, None) for row in by_row for v in row)
    if wanted == "auto":
        wanted = CLASS if len(columns) == 1 else CLASSES
        if CLASSES in kinds or flags:
            wanted = CLASSES
        elif set(kinds) <= {NUMBERS, "whole"} and (NUMBERS in kinds or len(columns) > 1):
            wanted = NUMBERS
    if wanted == CLASS and len(columns) > 1:
        raise OptionError("labels=class takes one column as target", "labels=classes takes several")
    one = columns[0] if len(columns) == 1 else ""
    for i, row in enumerate(by_row):
        for column, cell in zip(columns, row, strict=True):
            if cell is None and not (wanted == CLASSES and one):
                problems[i] = f"it has no {'label' if one else column}"
            elif wanted == NUMBERS and not isinstance(cell, int | float):
                problems[i] = f"{cell!r} in the column {column} is not a number"
    if wanted == NUMBERS:
        clean = [[0.0] * len(columns) if why else row for row, why in zip(by_row, problems)]
        return np.array(clean, np.float32), list(columns), problems
    known = table.classes.get(one)
    if wanted == CLASS:
        has = [[] if why else [row[0]] for row, why in zip(by_row, problems, strict=True)]
    elif one:
        has = [_several(row[0]) for row in by_row]
    elif flags:
        known, has = list(columns), [[k for k, v in enumerate(row) if v] for row in by_row]
    else:
        named = lambda row: [f"{c}={v}" for c, v in zip(columns, row) if v is not None]  # noqa: E731
        has = [named(row) for row in by_row]
    distinct = sorted({cell for row in has for cell in row}, key=_order)
    if known is not None:
        index = {i: i for i in range(len(known))} | {n: i for i, n in enumerate(known)}
        for i, row in enumerate(has):
            if unknown := [cell for cell in row if cell not in index]:
                problems[i] = f"its class is {unknown[0]!r}, and there are {len(known)} classes"
                has[i] = []
    else:
        if len(distinct) > max(MANY, len(rows) / 2):
            what = f"{table.name}: {', '.join(columns)} has {len(distinct):,} different values"
            hint = "choose another column with data.target, or say data.labels=class or numbers"
            raise DataError(f"{what} in {len(rows):,} rows, too many for classes", hint)
        index, known = {cell: i for i, cell in enumerate(distinct)}, [str(c) for c in distinct]
    if wanted == CLASS:
        return np.array([index[row[0]] if row else 0 for row in has]), list(known), problems
    matrix = np.zeros((len(rows), len(known)), np.uint8)
    for i, row in enumerate(has):
        matrix[i, [index[cell] for cell in row]] = 1
    return matrix, list(known), problems


def _typed(cells: list[Any]) -> tuple[list[Any], str]:
    """Cells as numbers if all are, None for those without a value; and what they are."""
    cells = [None if cell == "" or cell != cell else cell for cell in map(_plain, cells)]
    if any(isinstance(c, list) or (isinstance(c, str) and "|" in c) for c in cells):
        return cells, CLASSES
    texts = [c for c in cells if isinstance(c, str)]
    if all(WHOLE.fullmatch(text) for text in texts):
        cells = [int(c) if isinstance(c, str) else c for c in cells]
    elif all(NUMBER.fullmatch(text) for text in texts):
        cells = [float(c) if isinstance(c, str) else c for c in cells]
    found = {type(c) for c in cells if c is not None}
    if found <= {int, bool}:
        return cells, "whole"
    return cells, NUMBERS if found <= {int, bool, float} else CLASS


def _plain(cell: Any) -> Any:
    """A cell without types of NumPy, and texts without blanks around them."""
    if isinstance(cell, np.ndarray | np.generic):
        cell = cell.tolist()
    if isinstance(cell, tuple | set):
        cell = list(cell)
    return cell.strip() if isinstance(cell, str) else cell


def _several(cell: Any) -> list[Any]:
    """The classes in a cell: a list, or a text such as red|round."""
    parts = cell.split("|") if isinstance(cell, str) else cell if isinstance(cell, list) else [cell]
    plain = [_plain(part) for part in parts]
    return [part for part in plain if part not in (None, "")]


def _order(cell: Any) -> tuple[bool, Any]:
    return (True, cell) if isinstance(cell, int | float) else (False, str(cell))
