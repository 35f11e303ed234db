"""The cache of datasets: one safetensors file each, written whole, by one process at a time.

This module knows files only. What must be in them, and what happens when it is not, is decided in
datasets.py; docs/datasets.md describes the format.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from zoo_core.io import tensors
from zoo_core.io.errors import DataError
from zoo_core.io.files import atomic_write, cache_dir
from zoo_core.spec.entries import DatasetEntry

SUFFIX = ".safetensors"
DTYPES: dict[str, np.dtype[Any]] = {"U8": np.dtype(np.uint8), "I64": np.dtype(np.int64)}
KINDS = {kind.name: kind for kind in DTYPES.values()}


def cache_file(entry: DatasetEntry, options: Mapping[str, Any]) -> Path:
    """Where a dataset is kept: `name`, `plugin--name` of others, `@` and a hash with options."""
    stem = cache_stem(entry)
    if options != entry.config:
        text = json.dumps(options, sort_keys=True, default=str)
        stem += "@" + hashlib.sha256(text.encode()).hexdigest()[:12]
    return cache_dir("data") / (stem + SUFFIX)


def cache_stem(entry: DatasetEntry) -> str:
    plugin = entry.provider.plugin if entry.provider else "builtin"
    return entry.name if plugin == "builtin" else f"{plugin}--{entry.name}"


def cached_files(entry: DatasetEntry) -> list[Path]:
    """The cache files of a dataset, with whatever options."""
    stem = cache_stem(entry)
    folder = cache_dir("data")
    return sorted(p for p in folder.glob(f"{stem}*{SUFFIX}") if p.stem.split("@")[0] == stem)


def read_header(path: Path) -> dict[str, Any]:
    """What is recorded about a cached dataset, without its arrays."""
    with _opened(path) as file:
        return _header(file, path)[0]


def read_cache(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What is recorded, and the arrays. Read into memory once; a mapped file would count twice."""
    with _opened(path) as file:
        record, specs = _header(file, path)
        start = file.tell()
        arrays = {}
        for name, (dtype, shape, begin, end) in specs.items():
            arrays[name] = np.empty(shape, dtype)
            file.seek(start + begin)
            if file.readinto(arrays[name].data) != end - begin:  # type: ignore[attr-defined]
                raise DataError(f"{path} is truncated")
        return record, arrays


def write_cache(path: Path, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a safetensors file. By hand: the library would leave files of its own when killed."""
    codes = {dtype: code for code, dtype in DTYPES.items()}
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))  # keeps them aligned
    # One metadata key: the library orders several differently each time.
    header: dict[str, Any] = {"__metadata__": {"zoo": json.dumps(record, sort_keys=True)}}
    end = 0
    for name in order:
        begin, end = end, end + arrays[name].nbytes
        code, shape = codes[arrays[name].dtype], arrays[name].shape
        header[name] = {"dtype": code, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            file.write(arrays[name].data)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as file:
            yield file
    except (ValueError, TypeError, KeyError, LookupError, RecursionError, struct.error) as error:
        raise DataError(f"{path} is not a cached dataset: {error}") from error


Spec = tuple[np.dtype[Any], tuple[int, ...], int, int]


def _header(file: IO[bytes], path: Path) -> tuple[dict[str, Any], dict[str, Spec]]:
    try:
        header = tensors.read_header(file)
    except ValueError as error:
        raise DataError(f"{path} is truncated or damaged: {error}") from error
    record = json.loads(header.metadata["zoo"])
    specs = {
        name: (KINDS[place.dtype], place.shape, place.begin, place.end)
        for name, place in header.places.items()
    }
    file.seek(header.start)
    return record, specs
