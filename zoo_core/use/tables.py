"""Tables of predictions: rows as JSON lines, or flat as CSV and Parquet; parts put together."""

from __future__ import annotations

import csv
import glob
import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from zoo_core.io.console import typed
from zoo_core.io.errors import UsageError
from zoo_core.io.files import atomic_write
from zoo_core.io.targets import missing_dependency

FORMATS = (".parquet", ".csv", ".jsonl")
TOGETHER = 8192  # rows in memory
PART = re.compile(r"\.part-(\d+)-of-(\d+)")


def flat(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as cells: class, probability, class_2, ...; numbers by their names."""
    cells: dict[str, Any] = {}
    for key, value in answer.items():
        if key == "classes":
            for number, one in enumerate(value, 1):
                end = f"_{number}" if number > 1 else ""
                cells |= {f"class{end}": one["name"], f"probability{end}": one["probability"]}
        elif key == "numbers":
            cells |= {one["name"]: one["value"] for one in value}
        elif key == "chosen":
            cells[key] = "; ".join(value)
        else:
            cells[key] = json.dumps(value)
    return cells


def write_table(
    path: Path, rows: Iterator[dict[str, Any]], like: Mapping[str, Any], width: int
) -> None:
    """Write rows of `image` and an answer or an `error`; like: the cells of an answer.

    width: numbers of an embedding; 0: there are none.
    """
    embedded = ["embedding"] if width else []
    columns = ["image", *like, *embedded, "error"]
    with atomic_write(path) as temporary:
        if path.suffix == ".jsonl":
            with temporary.open("w", encoding="utf-8") as file:
                for row in rows:
                    file.write(json.dumps(row) + "\n")
        elif path.suffix == ".csv":
            with temporary.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, columns, restval="")
                writer.writeheader()
                writer.writerows(map(_cells, rows))
        else:
            _write_parquet(temporary, map(_cells, rows), columns, like)


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: row[key] for key in ("image", "error", "embedding") if key in row}
    return plain | flat({key: value for key, value in row.items() if key not in plain})


def _write_parquet(
    path: Path, rows: Iterator[dict[str, Any]], columns: list[str], like: Mapping[str, Any]
) -> None:
    pyarrow, parquet = _pyarrow()
    kinds = {name: pyarrow.string() for name in columns}
    kinds |= {name: pyarrow.float32() for name, value in like.items() if isinstance(value, float)}
    if "embedding" in kinds:
        kinds["embedding"] = pyarrow.list_(pyarrow.float32())
    schema = pyarrow.schema(list(kinds.items()))
    with parquet.ParquetWriter(path, schema) as writer:
        while some := list(islice(rows, TOGETHER)):
            writer.write_table(pyarrow.Table.from_pylist(some, schema))


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise missing_dependency("pyarrow", "writing Parquet files") from error
    return pyarrow, parquet


def check_format(path: Path) -> None:
    """Refuse what cannot be written, before anything is computed."""
    if path.suffix not in FORMATS:
        raise UsageError(f"{path} must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if path.suffix == ".parquet":
        _pyarrow()


def part_name(path: Path, number: int, parts: int) -> Path:
    """The table of one of several parts."""
    width = len(str(parts))
    return path.with_stem(f"{path.stem}.part-{number:0{width}}-of-{parts}")


def join_tables(path: Path) -> tuple[int, int]:
    """Put the parts of a table together, in order; how many rows it has, and how many broken."""
    beside = [*path.parent.glob(f"{glob.escape(path.stem)}.part-*-of-*{path.suffix}")]
    counts = {int(found[2]) for one in beside if (found := PART.search(one.stem))}
    if len(counts) != 1:
        what = f"the parts of {path} come from {len(counts)} values of N" if counts else ""
        hint = f"zoo predict MODEL IMAGES --out {path} --part 1/16 makes one"
        raise UsageError(what or f"there are no parts of {path}", hint)
    (parts,) = counts
    files = [part_name(path, number, parts) for number in range(1, parts + 1)]
    if missing := [file.name for file in files if not file.exists()]:
        what = f"{len(missing)} of {parts} parts of {path} are missing: {', '.join(missing[:3])}"
        raise UsageError(what, "compute them first, each with --part")
    if path.exists():
        raise UsageError(f"{path} already exists", f"delete it first: {typed('rm', path)}")
    with atomic_write(path) as temporary:
        if path.suffix == ".parquet":
            return _join_parquet(files, temporary)
        return _join_lines(files, temporary, path.suffix == ".csv")


def _refuse_other(one: Path, columns: list[str], other: Path, others: list[str]) -> None:
    if columns != others:
        what = f"{other.name} has other columns than {one.name}: it was made with other options"
        raise UsageError(what, "make all parts with the same options")


def _join_parquet(files: list[Path], temporary: Path) -> tuple[int, int]:
    _, parquet = _pyarrow()
    rows = broken = 0
    schema = parquet.read_schema(files[0])
    with parquet.ParquetWriter(temporary, schema) as writer:
        for file in files:
            _refuse_other(files[0], schema.names, file, parquet.read_schema(file).names)
            for batch in parquet.ParquetFile(file).iter_batches(TOGETHER):
                writer.write_batch(batch)
                rows += batch.num_rows
                broken += batch.num_rows - batch.column("error").null_count
    return rows, broken


def _join_lines(files: list[Path], temporary: Path, titled: bool) -> tuple[int, int]:
    rows = broken = 0
    titles: list[str] = []
    with temporary.open("w", encoding="utf-8", newline="") as joined:
        for number, file in enumerate(files):
            with file.open(encoding="utf-8", newline="") as opened:
                if titled:
                    reader, writer = csv.reader(opened), csv.writer(joined)
                    first = next(reader, [])
                    if not number:
                        titles = first
                        writer.writerow(first)
                    _refuse_other(files[0], titles, file, first)
                    for cells in reader:
                        writer.writerow(cells)
                        rows, broken = rows + 1, broken + bool(cells[-1])
                    continue
                for line in opened:
                    joined.write(line)
                    rows, broken = rows + 1, broken + ("error" in json.loads(line))
    return rows, broken
