"""A Parquet file, or a folder of them, as a table of images."""

from __future__ import annotations

import json
import os
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any

from pyarrow import parquet, types

import zoo
from zoo import kit

KEPT = 2  # row groups in memory


def parquet_files(
    *, path: str, image: str | None, target: Any, labels: str, root: str | None
) -> zoo.Originals:
    """The target of the reader `parquet`."""
    place = Path(path)
    folder = place if place.is_dir() else place.parent
    limit = Path(os.path.normpath(folder / Path(root or "").expanduser()))
    try:
        table = _table(place, folder, limit)
        return kit.table_originals(table, image=image, target=target, labels=labels)
    except (ValueError, OSError) as error:  # a damaged file
        raise zoo.DataError(f"{path} cannot be read as a table: {kit.describe(error)}") from error


def _table(place: Path, folder: Path, root: Path) -> kit.Table:
    files, name = kit.shards(place, ".parquet"), place.name
    opened = [parquet.ParquetFile(file) for file, _, _ in files]
    schema = opened[0].schema_arrow
    for (file, _, _), other in zip(files, opened, strict=True):
        if other.schema_arrow.names != schema.names:
            what = f"{file} has other columns than {files[0][0]}"
            hint = "name one file, or a folder whose files have the same columns"
            raise zoo.DataError(what, hint)
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
            raise zoo.DataError(f"row {row + 1} of {name} has no image")
        return bytes(data)

    def rows(columns: Sequence[str]) -> Iterator[tuple[str, Sequence[Any]]]:
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
    return kit.Table(
        name=name, columns=list(dict.fromkeys([*schema.names, *files[0][2]])), rows=rows,
        folder=folder, root=root, images=images, read=read, key=facts,
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
