"""Tables of images, whatever files they come from: what each column is, which rows can be used."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoo_core.data.image_folder import SPLITS
from zoo_core.data.images import names_image
from zoo_core.data.originals import LeftOut, Originals
from zoo_core.io.errors import DataError, OptionError
from zoo_core.spec.answers import CLASS, CLASSES, NUMBERS

LOOK = 100  # rows that decide which column holds images
USUAL = ("file_name", "image")  # the column of the images, where several could be
MANY = 100  # more classes are not believed where most of them have a single image
LARGEST = float(np.finfo(np.float32).max)  # of a label that is a number
WHOLE = re.compile(r"-?(0|[1-9]\d*)")  # 007 is a name
NUMERIC = {int, bool, float}
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
    folder: Path  # what paths are relative to
    root: Path | None = None  # a path that leads out of this folder is refused
    images: Sequence[str] = ()  # columns that `read` has; their cells are not looked at
    read: Callable[[str, int], bytes] | None = None
    key: Any = None  # JSON of what decides the bytes that `read` gives
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # column -> names of 0, 1...


class Row(NamedTuple):
    number: int
    where: str
    file: tuple[str, int, int]  # name, size and time of a file; where `read` has it, its name alone
    split: str | None
    cells: Sequence[Any]  # of the labels


class Unusable(Exception):
    """What is wrong with a row."""


def table_originals(
    table: Table, *, image: str | None = None, target: Any = None, labels: str = "auto"
) -> Originals:
    """The images of a table. image, target, labels: as in docs/datasets.md."""
    image = _image_column(table, image)
    columns = _target_columns(table, image, target)
    split = ["split"] if "split" in table.columns and "split" not in columns else []
    rows: dict[str, Row] = {}  # by the name of the image
    left_out: list[LeftOut] = []

    def leave_out(where: str, why: object) -> None:
        left_out.append(LeftOut(where, f"{table.name}, {where}: {why}"))

    for number, (where, cells) in enumerate(table.rows([image, *split, *columns])):
        try:
            if isinstance(cells, str):
                raise Unusable(cells)
            part = SPLITS.get(str(cells[1]).lower()) if split else None
            if split and not part:
                raise Unusable(f"its split is {cells[1]!r}, which is not train, test or val")
            file = (where, 0, 0) if image in table.images else _file(table, where, cells[0])
            row = Row(number, where, file, part, cells[1 + len(split) :])
            if rows.setdefault(file[0], row) is not row:
                raise Unusable(f"{file[0]} is in {rows[file[0]].where} already")
        except Unusable as problem:
            leave_out(where, problem)
    kept = list(rows.values())
    values, names, problems = read_labels(table, columns, [row.cells for row in kept], labels)
    for row, why in zip(kept, problems, strict=True):
        if why:
            leave_out(row.where, why)
    used, parts, remarks = _parts(table, kept, problems)
    if not used:
        told = f"; {left_out[0].reason}" if left_out else ""
        raise DataError(f"{table.name} has no row that can be used{told}")
    kept = [kept[place] for place in used]
    key: Any = [row.file for row in kept]
    read: Callable[[int], Path | bytes] = partial(_path, table.folder, key)
    if table.read and image in table.images:
        key = [table.key, image, numbers := [row.number for row in kept]]
        inside = partial(table.read, image)
        read = lambda place: inside(numbers[place])  # noqa: E731
    counted = values is not None and values.dtype.kind == "f"
    return Originals(
        names=[row.file[0] for row in kept],
        read=read,
        key=key,
        labels=None if values is None else values[used],
        classes=None if counted else names,
        numbers=dict.fromkeys(names, "") if counted else {},
        splits=parts,
        left_out=left_out,
        remarks=remarks,
    )


def _path(folder: Path, files: Sequence[tuple[str, int, int]], place: int) -> Path:
    return folder / files[place][0]  # not a closure: other processes call it too


def _image_column(table: Table, asked: str | None) -> str:
    if asked is not None:
        return _known(table, asked, "image")
    found = list(table.images)
    head = [cells for _, cells in islice(table.rows(table.columns), LOOK)]
    for place, name in enumerate(table.columns):
        cells = (row[place] for row in head if not isinstance(row, str))
        if any(map(names_image, cells)):
            found.append(name)
    usual = [name for name in USUAL if name in found]
    if len(found) == 1 or usual:
        return (usual or found)[0]
    if not table.columns:
        raise DataError(f"{table.name} is empty")
    what = f"{table.name}: it is not clear which column has the images"
    hint = f"name it: --set data.image=COLUMN; its columns are {', '.join(table.columns)}"
    raise OptionError(what, hint)


def _target_columns(table: Table, image: str, asked: Any) -> list[str]:
    if asked is not None:
        names = asked.split(",") if isinstance(asked, str) else asked
        return [_known(table, name, "target") for name in names]
    others = [name for name in table.columns if name not in (image, "split", *table.images)]
    if len(others) > 1:
        what = f"{table.name} has several columns that could be the labels: {', '.join(others)}"
        raise OptionError(what, f"choose one or more: --set data.target={others[0]}")
    return others


def _known(table: Table, column: str, option: str) -> str:
    if column in table.columns:
        return column
    what = f"{table.name} has no column {column!r}, which data.{option} names"
    raise OptionError(what, f"it has: {', '.join(table.columns)}")


def _file(table: Table, where: str, cell: Any) -> tuple[str, int, int]:
    if not isinstance(cell, str) or not cell:
        raise Unusable("it names no image")
    path = Path(os.path.normpath(table.folder / cell.replace("\\", "/")))
    if table.root and not path.is_relative_to(table.root):
        # Whoever wrote the table chooses what is read: a stranger's may not reach everything.
        what = f"{table.name}, {where} names {cell}, which is outside of {table.root}"
        raise DataError(what, f"if you trust this table, --set data.root={path.anchor} allows it")
    try:
        facts = path.stat()
    except (OSError, ValueError):
        raise Unusable(f"there is no file {cell}") from None
    inside = path.is_relative_to(table.folder)
    name = (path.relative_to(table.folder) if inside else path).as_posix()
    return name, facts.st_size, facts.st_mtime_ns


def _parts(
    table: Table, rows: Sequence[Row], problems: Sequence[str]
) -> tuple[list[int], dict[str, np.ndarray], list[str]]:
    """The places of the rows to use, which of those are for what, and what to say about it."""
    words = [row.split for row in rows]
    folders = [SPLITS.get(row.file[0].partition("/")[0].lower()) for row in rows]
    if not any(words) and None not in folders:
        words = folders
    present = {word for word in words if word}
    if present and "train" not in present:
        raise DataError(f"{table.name} has no rows for training, only for {min(present)}")
    unused = "val" if {"val", "test"} <= present else ""
    used = [i for i, why in enumerate(problems) if not why and words[i] != unused]
    remarks = [f"{words.count('val'):,} rows for validation are not used"] if unused else []
    if present <= {"train"}:
        return used, {}, remarks
    train = np.array([words[i] == "train" for i in used], bool)
    return used, {"train": np.flatnonzero(train), "test": np.flatnonzero(~train)}, remarks


def read_labels(
    table: Table, columns: Sequence[str], rows: Sequence[Sequence[Any]], wanted: str
) -> tuple[np.ndarray | None, list[str], list[str]]:
    """The labels, the names of classes or numbers, and what is wrong with each row, or ""."""
    problems = [""] * len(rows)
    if wanted not in ("auto", CLASS, CLASSES, NUMBERS) or (wanted == CLASS and len(columns) > 1):
        what = f"data.labels={wanted} cannot be used for {len(columns)} columns"
        raise OptionError(what, "use auto, classes or numbers; for one column also class")
    if not columns or not rows:
        return None, [], problems
    asked, typed = wanted, [_typed([row[k] for row in rows]) for k in range(len(columns))]
    rows = list(zip(*(cells for cells, _ in typed), strict=True))
    kinds, one = {kind for _, kind in typed}, len(columns) == 1
    flags = not one and all(cell in (0, 1, None) for row in rows for cell in row)
    if wanted == "auto":
        numeric = kinds <= {NUMBERS, "whole"} and not flags and (NUMBERS in kinds or not one)
        wanted = NUMBERS if numeric else CLASSES if CLASSES in kinds or not one else CLASS
    has: list[list[Any]] = []  # of each row, what it has
    for i, row in enumerate(rows):
        for column, cell in zip(columns, row, strict=True):
            if cell is None and not (wanted == CLASSES and one):
                problems[i] = "it has no label" if one else f"it has no {column}"
            elif wanted == NUMBERS and not (isinstance(cell, int | float) and abs(cell) <= LARGEST):
                problems[i] = f"its {column} is {cell!r:.60}, not a number that float32 can hold"
        if wanted == NUMBERS:
            has.append([0] * len(columns) if problems[i] else list(row))
        elif one:
            has.append(_several(row[0]) if wanted == CLASSES else [row[0]] * (not problems[i]))
        else:
            named = zip(columns, row, strict=True)
            has.append([c if flags else f"{c}={v}" for c, v in named if v or not flags])
        if wanted != NUMBERS and any(isinstance(cell, dict | list) for cell in has[i]):
            problems[i], has[i] = f"its label {row[0]!r:.60} is neither text nor a number", []
    if wanted == NUMBERS:
        return np.array(has, np.float32), list(columns), problems
    known = list(columns) if flags else list(table.classes.get(columns[0], ()) if one else ())
    index = {name: i for i, name in enumerate(known)} | {i: i for i in range(len(known))}
    if not known:
        found = {cell for row in has for cell in row}
        index = {cell: i for i, cell in enumerate(sorted(found, key=_order))}
        known = [str(cell) for cell in index]
        if asked == "auto" and len(known) > max(MANY, len(rows) / 2):
            what = f"{table.name}: {', '.join(columns)} has {len(known):,} different values"
            hint = "choose another column with data.target, or set data.labels to class or numbers"
            raise DataError(f"{what} in {len(rows):,} rows, too many for classes", hint)
    for i, row in enumerate(has):
        if unknown := [cell for cell in row if cell not in index]:
            problems[i], has[i] = f"there is no class {unknown[0]!r}", []
    if wanted == CLASS:
        return np.array([index[row[0]] if row else 0 for row in has]), known, problems
    matrix = np.zeros((len(rows), len(known)), np.uint8)
    for i, row in enumerate(has):
        matrix[i, [index[cell] for cell in row]] = 1
    return matrix, known, problems


def _typed(cells: list[Any]) -> tuple[list[Any], str]:
    """Cells as numbers if all are, None for those without a value; and what they are."""
    cells = [None if cell == "" or cell != cell else cell for cell in map(_plain, cells)]
    texts = [cell for cell in cells if isinstance(cell, str)]
    if any("|" in text for text in texts) or any(isinstance(cell, list) for cell in cells):
        return cells, CLASSES
    if all(map(NUMBER.fullmatch, texts)):
        read = int if all(map(WHOLE.fullmatch, texts)) else float
        cells = [read(cell) if isinstance(cell, str) else cell for cell in cells]
    found = {type(cell) for cell in cells if cell is not None}
    return cells, "whole" if found <= {int, bool} else NUMBERS if found <= NUMERIC else CLASS


def _plain(cell: Any) -> Any:
    """A cell without types of NumPy and pandas, and texts without blanks around them."""
    if type(cell).__name__ == "NAType":
        return None
    cell = cell.tolist() if isinstance(cell, np.ndarray | np.generic) else cell
    return cell.strip() if isinstance(cell, str) else cell


def _several(cell: Any) -> list[Any]:
    """The classes in a cell: a list, or a text such as red|round."""
    parts = cell.split("|") if isinstance(cell, str) else cell
    plain = map(_plain, parts if isinstance(parts, list | tuple) else [parts])
    return [part for part in plain if part not in (None, "")]


def _order(cell: Any) -> tuple[bool, Any]:
    return (True, cell) if isinstance(cell, int | float) else (False, str(cell))
