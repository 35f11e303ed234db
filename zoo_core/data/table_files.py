"""Tables in files: CSV, TSV, JSONL, Parquet; a file, a folder of Parquet files, or metadata."""

from __future__ import annotations

import csv
import json
import os
import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, islice
from pathlib import Path
from threading import Lock
from typing import Any

from zoo_core.data.image_folder import SPLITS
from zoo_core.data.images import SUFFIXES
from zoo_core.data.originals import Originals
from zoo_core.data.tables import LOOK, Table, table_originals
from zoo_core.io.errors import DataError
from zoo_core.io.targets import describe, missing_dependency

KEPT = 2  # row groups of Parquet files in memory
Rows = Iterator[tuple[str, Sequence[Any] | str]]
# A file, what comes before the names of its rows, and what all of its rows have.
Shard = tuple[Path, str, dict[str, str]]


def table_file(
    *, path: str, image: str | None, target: Any, labels: str, root: str | None
) -> Originals:
    """The target of the reader `table`."""
    place = Path(path)
    folder = place if place.is_dir() else place.parent
    found = shards(place, ".parquet")
    try:
        if found:
            table = _parquet_table(found, folder, place.name)
        else:
            found = shards(place, "metadata.csv") or shards(place, "metadata.jsonl")
            table = _text_table(found or [(place, "", {})], folder, place.name)
        limit = Path(os.path.normpath(folder / Path(root or "").expanduser()))
        table = replace(table, root=limit)
        return table_originals(table, image=image, target=target, labels=labels)
    except (ValueError, OSError, csv.Error) as error:  # bytes that are not text, a damaged file
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


def _text_table(files: Sequence[Shard], folder: Path, name: str) -> Table:
    def rows(columns: Sequence[str]) -> Rows:
        for file, before, own in files:
            for where, row in _records(file):
                if isinstance(row, dict):
                    row = {**own, **row}
                    if before and isinstance(row.get("file_name"), str):
                        row["file_name"] = f"{file.parent}/{row['file_name']}"
                    row = [row.get(column) for column in columns]
                yield before + where, row

    columns: dict[str, None] = {}
    for file, _, own in files:
        for _, row in islice(_records(file), LOOK):
            columns |= dict.fromkeys({**own, **row} if isinstance(row, dict) else ())
    if stray := next((name for name in columns if name.lower().endswith(SUFFIXES)), ""):
        what = f"{name} begins with the image {stray}, not with the names of its columns"
        raise DataError(what, "add a first line such as image,label")
    return Table(name=name, columns=list(columns), rows=rows, folder=folder)


def _records(file: Path) -> Iterator[tuple[str, Any]]:
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


def _parquet_table(files: Sequence[Shard], folder: Path, name: str) -> Table:
    try:
        from pyarrow import parquet, types
    except ModuleNotFoundError as error:
        raise missing_dependency("pyarrow", "reading Parquet files") from error
    opened = [parquet.ParquetFile(file) for file, _, _ in files]
    schema = opened[0].schema_arrow
    for (file, _, _), other in zip(files, opened, strict=True):
        if other.schema_arrow.names != schema.names:
            what = f"{file} has other columns than {files[0][0]}"
            raise DataError(what, "name one file, or a folder whose files have the same columns")
    images = []
    for column in schema:
        kind = column.type
        hub = types.is_struct(kind) and kind.get_field_index("bytes") >= 0
        if hub or types.is_binary(kind) or types.is_large_binary(kind):
            images.append(column.name)
    groups = [(file, number) for file in opened for number in range(file.num_row_groups)]
    counts = (file.metadata.row_group(number).num_rows for file, number in groups)
    starts, lock = [0, *accumulate(counts)], Lock()

    @lru_cache(KEPT)
    def group(column: str, number: int) -> Any:
        file, inside = groups[number]
        return file.read_row_group(inside, columns=[column]).column(column)

    def read(column: str, row: int) -> bytes:
        number = bisect(starts, row) - 1
        with lock:  # a file has one position
            cells = group(column, number)
        cell = cells[row - starts[number]].as_py()
        data = cell["bytes"] if isinstance(cell, dict) else cell
        if data is None:
            raise DataError(f"row {row + 1} of {name} has no image")
        return bytes(data)

    def rows(columns: Sequence[str]) -> Rows:
        plain = [name for name in columns if name in schema.names and name not in images]
        for (_, before, own), file in zip(files, opened, strict=True):
            count = 0
            for batch in file.iter_batches(columns=plain):
                cells = {column: batch.column(column).to_pylist() for column in plain}
                none = [None] * batch.num_rows
                for row in zip(*(cells.get(column, none) for column in columns), strict=True):
                    count += 1
                    filled = [own.get(c, v) for c, v in zip(columns, row, strict=True)]
                    yield f"{before}row {count}", filled

    facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file, _, _ in files]
    return Table(
        name=name, columns=list(dict.fromkeys([*schema.names, *files[0][2]])), rows=rows,
        folder=folder, images=images, read=read, key=facts,
        classes=_class_names(schema.metadata or {}),
    )  # fmt: skip


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Names of classes that the Hub's library writes into a Parquet file, by column."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        inner = {name: one.get("feature", one) for name, one in features.items()}
        return {name: list(map(str, one["names"])) for name, one in inner.items() if "names" in one}
    except (KeyError, TypeError, AttributeError, ValueError):
        return {}
