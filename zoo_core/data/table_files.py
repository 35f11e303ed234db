"""Tables in text files: CSV, TSV, JSONL; a file, or metadata in folders."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from zoo_core.data.image_folder import SPLITS
from zoo_core.data.images import names_image
from zoo_core.data.originals import Originals
from zoo_core.data.tables import LOOK, Table, table_originals
from zoo_core.io.errors import DataError
from zoo_core.io.targets import describe

Rows = Iterator[tuple[str, Sequence[Any] | str]]
# A file, what comes before the names of its rows, and what all of its rows have.
Shard = tuple[Path, str, dict[str, str]]


def table_file(
    *, path: str, image: str | None, target: Any, labels: str, root: str | None
) -> Originals:
    """The target of the reader `table`."""
    place = Path(path)
    folder = place if place.is_dir() else place.parent
    limit = Path(os.path.normpath(folder / Path(root or "").expanduser()))
    files = shards(place, "metadata.csv") or shards(place, "metadata.jsonl")
    try:
        table = _table(files or [(place, "", {})], folder, limit, place.name)
        return table_originals(table, image=image, target=target, labels=labels)
    except (ValueError, OSError, csv.Error) as error:  # bytes that are not text
        raise DataError(f"{path} cannot be read as a table: {describe(error)}") from error


def shards(path: Path, ending: str) -> list[Shard]:
    """A file, or all files below a folder of this suffix or name, with their splits.

    train/0.tar and train-0.tar are for training; a split counts only if every file has one.
    """
    if not path.is_dir():
        return [(path, "", {})] if path.name.lower().endswith(ending) else []
    pattern = f"[!.]*{ending}" if ending.startswith(".") else ending
    files, found = sorted(path.rglob(pattern)), []
    for file in files:
        words = (re.split("[^a-z]", part.lower())[0] for part in file.relative_to(path).parts)
        found += [SPLITS[word] for word in words if word in SPLITS][-1:]
    known = [{"split": word} for word in found] if len(found) == len(files) else [{}] * len(files)
    named = (f"{file.relative_to(path).as_posix()} " for file in files)
    return list(zip(files, named, known, strict=True))


def _table(files: Sequence[Shard], folder: Path, root: Path, name: str) -> Table:
    def rows(columns: Sequence[str]) -> Rows:
        for file, before, own in files:
            for where, row in records(file):
                if isinstance(row, dict):
                    row = {**own, **row}
                    if before and isinstance(row.get("file_name"), str):
                        row["file_name"] = f"{file.parent}/{row['file_name']}"
                    row = [row.get(column) for column in columns]
                yield before + where, row

    columns: dict[str, None] = {}
    for file, _, own in files:
        for _, row in islice(records(file), LOOK):
            columns |= dict.fromkeys({**own, **row} if isinstance(row, dict) else ())
    if stray := next(filter(names_image, columns), ""):
        what = f"{name} begins with the image {stray}, not with the names of its columns"
        raise DataError(what, "add a first line such as image,label")
    return Table(name=name, columns=list(columns), rows=rows, folder=folder, root=root)


def records(file: Path) -> Iterator[tuple[str, Any]]:
    """The rows of a text file by the names of their columns, or what is wrong with them."""
    with file.open(encoding="utf-8-sig", newline="") as opened:
        if file.suffix.lower() == ".jsonl":
            for number, line in enumerate(opened, 1):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                if line.strip():
                    wrong = "it is not a JSON object"
                    yield f"line {number}", row if isinstance(row, dict) else wrong
            return
        first = opened.readline()
        opened.seek(0)
        comma = ";" if ";" in first and "," not in first else ","  # spreadsheets in some countries
        reader = csv.reader(opened, delimiter="\t" if file.suffix.lower() == ".tsv" else comma)
        columns = [name.strip() for name in next(reader, [])]
        if len(set(columns)) < len(columns) or not all(columns):
            raise DataError(f"{file}: its first line must name every column, each once")
        for cells in filter(None, reader):
            right = len(cells) == len(columns)
            wrong = f"it has {len(cells)} cells, but the table has {len(columns)} columns"
            row = dict(zip(columns, cells, strict=True)) if right else wrong
            yield f"line {reader.line_num}", row
