"""Tables in files: CSV, TSV, JSONL, Parquet; a file, a folder of Parquet files, or metadata."""

from __future__ import annotations

import csv
import json
import os
import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
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


def table_file(
    *, path: str, image: str | None, target: Any, labels: str, root: str | None
) -> Originals:
    """The target of the reader `table`."""
    place = Path(path)
    folder = place if place.is_dir() else place.parent
    files = shards(place, ".parquet") or _metadata(place)
    try:
        if files and files[0].suffix.lower() != ".parquet":
            table = _text_table(files, folder)
        else:
            table = _parquet_table(files, folder)
        limit = Path(os.path.normpath(folder / Path(root or ".").expanduser()))
        object.__setattr__(table, "root", limit)
        return table_originals(table, image=image, target=target, labels=labels)
    except (ValueError, OSError, csv.Error) as error:  # bytes that are not text, a damaged file
        raise DataError(f"{path} cannot be read as a table: {describe(error)}") from error


def shards(path: Path, suffix: str) -> list[Path]:
    """A file, or the files with this suffix below a folder, in the order of their names."""
    if path.is_dir():
        return sorted(path.rglob(f"*{suffix}"))
    return [path] if path.name.lower().endswith(suffix) else []


def splits_of(files: Sequence[Path], folder: Path) -> list[str]:
    """The split that each file belongs to, as train/0.tar or test-0.tar do; [] if some do not."""
    found = []
    for file in files:
        words = (re.match("[a-z]*", part.lower()) for part in file.relative_to(folder).parts)
        found += [SPLITS[w[0]] for w in words if w and w[0] in SPLITS][-1:]
    return found if len(found) == len(files) else []


def _metadata(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = [*path.glob("metadata.*"), *path.glob("*/metadata.*")]
    return sorted(file for file in files if file.suffix in (".csv", ".jsonl"))


# ---------------------------------------------------------------- text


def _text_table(files: Sequence[Path], folder: Path) -> Table:
    parts = splits_of(files, folder) if len(files) > 1 else []

    def rows(columns: Sequence[str]) -> Rows:
        for number, file in enumerate(files):
            own = {"split": parts[number]} if parts else {}
            below = file.parent.relative_to(folder).as_posix()
            for where, row in _records(file):
                if isinstance(row, str):
                    yield where, row
                    continue
                row = {**own, **row}
                if below != "." and isinstance(name := row.get("file_name"), str):
                    row["file_name"] = f"{below}/{name}"
                named = where if len(files) == 1 else f"{file.relative_to(folder)} {where}"
                yield named, [row.get(column) for column in columns]

    columns = dict.fromkeys(["split"] if parts else [])
    for file in files:
        for _, row in islice(_records(file), LOOK):
            columns |= dict.fromkeys({} if isinstance(row, str) else row)
    if stray := next((name for name in columns if name.lower().endswith(SUFFIXES)), ""):
        what = f"{files[0]} begins with the image {stray}, not with the names of its columns"
        raise DataError(what, "add a first line such as image,label")
    name = files[0].name if len(files) == 1 else folder.name
    return Table(name=name, columns=list(columns), rows=rows, folder=folder)


def _records(file: Path) -> Iterator[tuple[str, Mapping[str, Any] | str]]:
    """The rows of a text file by the names of their columns, or what is wrong with them."""
    with file.open(encoding="utf-8-sig", newline="") as opened:
        if file.suffix.lower() == ".jsonl":
            for number, line in enumerate(opened, 1):
                try:
                    row = json.loads(line) if line.strip() else {}
                except ValueError:
                    row = None
                if row != {}:
                    yield f"line {number}", row if isinstance(row, dict) else "it is not an object"
            return
        first = opened.readline()
        opened.seek(0)
        excel = ";" in first and "," not in first  # where a comma stands in numbers
        tab = file.suffix.lower() == ".tsv"
        reader = csv.reader(opened, delimiter="\t" if tab else ";" if excel else ",")
        columns = [name.strip() for name in next(reader, [])]
        if len(set(columns)) < len(columns) or not all(columns):
            raise DataError(f"{file}: its first line must name every column, each once")
        for row in filter(None, reader):
            cells: Any = dict(zip(columns, row, strict=False))
            if len(row) != len(columns):
                cells = f"it has {len(row)} cells, and there are {len(columns)} columns"
            yield f"line {reader.line_num}", cells


# ---------------------------------------------------------------- Parquet


def _parquet_table(files: Sequence[Path], folder: Path) -> Table:
    try:
        from pyarrow import parquet, types
    except ModuleNotFoundError as error:
        raise missing_dependency("pyarrow", "reading Parquet files") from error
    opened = [parquet.ParquetFile(file) for file in files]
    schema = opened[0].schema_arrow
    for file, other in zip(files, opened, strict=True):
        if other.schema_arrow.names != schema.names:
            what = f"{file} has other columns than {files[0]}"
            raise DataError(what, "name one of the files, or a folder with those that belong")
    parts = [] if "split" in schema.names or len(files) == 1 else splits_of(files, folder)
    images = []
    for column in schema:
        kind = column.type
        blob = types.is_struct(kind) and kind.get_field_index("bytes") >= 0
        if blob or types.is_binary(kind) or types.is_large_binary(kind):
            images.append(column.name)
    groups = [(file, g) for file in opened for g in range(file.num_row_groups)]
    counts = (file.metadata.row_group(g).num_rows for file, g in groups)
    starts, lock = [0, *accumulate(counts)], Lock()

    @lru_cache(KEPT)
    def group(column: str, number: int) -> Any:
        file, inside = groups[number]
        return file.read_row_group(inside, columns=[column]).column(column)

    def read(column: str, row: int) -> Path | bytes:
        number = bisect(starts, row) - 1
        with lock:  # a file has one position
            cell = group(column, number)[row - starts[number]].as_py()
        data = cell["bytes"] if isinstance(cell, dict) else cell
        if data is None:
            raise DataError(f"row {row + 1} has no image")
        return bytes(data)

    def rows(columns: Sequence[str]) -> Rows:
        plain = [name for name in columns if name not in (*images, *(["split"] * bool(parts)))]
        for number, file in enumerate(opened):
            own = {"split": parts[number]} if parts else {}
            before = f"{files[number].relative_to(folder)} " if len(files) > 1 else ""
            count = 0
            for batch in file.iter_batches(columns=plain):
                found = {name: batch.column(name).to_pylist() for name in plain}
                for i in range(batch.num_rows):
                    count += 1
                    cells = {**own, **{name: found[name][i] for name in plain}}
                    yield f"{before}row {count}", [cells.get(name) for name in columns]

    facts = [(str(file.relative_to(folder)), *_facts(file)) for file in files]
    return Table(
        name=files[0].name if len(files) == 1 else folder.name,
        columns=[*schema.names, *(["split"] if parts else [])],
        rows=rows, folder=folder, images=images, read=read, key=facts,
        classes=_class_names(schema.metadata or {}),
    )  # fmt: skip


def _facts(file: Path) -> tuple[int, int]:
    facts = file.stat()
    return facts.st_size, facts.st_mtime_ns


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Names of classes that the Hub's library writes into a Parquet file, by column."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        inner = {name: one.get("feature", one) for name, one in features.items()}
        return {name: list(map(str, one["names"])) for name, one in inner.items() if "names" in one}
    except (KeyError, TypeError, AttributeError, ValueError):
        return {}
