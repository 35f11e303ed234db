"""Reads the files in which the classic datasets are handed around, from folders and archives.

Members of archives are read, never unpacked, and nothing is read beyond its known size. What is
wrong with a file is one sentence that names the file; whether the arrays are the right ones is for
the digests to say.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import os
import pickle
import shutil
import struct
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from zoo_core.data.sources import Arrays
from zoo_core.io.errors import DataError, SourceUnavailable

ARCHIVES = (".tgz", ".tar.gz", ".tar", ".deb")
LARGEST_ARCHIVE = 400_000_000  # unpacked; the largest that we know has 185 MB
MOST_FILES = 100_000  # looked at in one folder tree

Reader = Callable[[int], bytes]


class NotThere(DataError):
    """A folder or an archive does not hold all files of the dataset."""


@dataclass(frozen=True)
class Layout:
    """Files that together hold a dataset: their names, the bytes in each, how to decode them."""

    name: str
    files: Mapping[str, int]
    decode: Callable[[Mapping[str, bytes]], Arrays]


def read_dataset(path: Path, layouts: Sequence[Layout], prefer: Sequence[str] = ()) -> Arrays:
    """Decode the first complete layout in a folder, below it, or in an archive.

    prefer: names of folders that win where several hold the same file names.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist")
    if path.is_file() and not path.name.endswith(ARCHIVES):
        raise DataError(
            f"{path} is neither a folder nor an archive",
            f"name the folder of the files, or one of: {' '.join(f'*{a}' for a in ARCHIVES)}",
        )
    missing = []
    with listed(path) as readers:
        folders: dict[str, dict[str, str]] = {}
        for name in readers:
            folder, _, base = name.rpartition("/")
            plain = base.removesuffix(".gz").replace(".idx", "-idx")
            folders.setdefault(folder, {})[plain] = name
        order = sorted(folders, key=lambda f: (not set(prefer) & {*f.split("/")}, f.count("/"), f))
        for folder in order:
            for layout in layouts:
                lacking = [name for name in layout.files if name not in folders[folder]]
                if not lacking:
                    return layout.decode(
                        {
                            plain: read_one(readers[name], name, layout.files[plain])
                            for plain, name in folders[folder].items()
                            if plain in layout.files
                        }
                    )
                if len(lacking) < len(layout.files):
                    missing.append(f"{folder or path} has no {lacking[0]}")
    if path.is_dir():
        for archive in sorted(p for p in path.iterdir() if p.name.endswith(ARCHIVES)):
            try:
                return read_dataset(archive, layouts, prefer)
            except NotThere:
                continue
    names = "; or ".join(f"{layout.name}: {', '.join(layout.files)}" for layout in layouts)
    raise NotThere(
        missing[0] if missing else f"{path} holds none of the files of this dataset",
        f"needed, in one folder or archive: {names}",
    )


# ---------------------------------------------------------------- folders and archives


@contextmanager
def listed(path: Path) -> Iterator[dict[str, Reader]]:
    """The files below a folder or in an archive: name with `/` -> reader of at most n bytes."""
    if path.is_dir():
        yield dict(_walk(path))
        return
    try:
        with tarfile.open(fileobj=io.BytesIO(_unpacked(path)), mode="r:") as tar:
            yield dict(_members(tar))
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is not a complete archive: {error}") from error


def _unpacked(path: Path) -> bytes:
    """The tar file in an archive, if it is not larger than any that we know."""
    if path.name.endswith(".deb"):
        program = shutil.which("dpkg-deb")
        if program is None:
            raise SourceUnavailable(f"{path.name} needs dpkg-deb, which is not installed")
        command = [program, "--fsys-tarfile", str(path.absolute())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
            assert client.stdout is not None
            content = client.stdout.read(LARGEST_ARCHIVE + 1)
            client.stdout.close()
        if client.returncode and len(content) <= LARGEST_ARCHIVE:
            raise DataError(f"{path} is not a complete Debian package")
    else:
        with path.open("rb") if path.suffix == ".tar" else gzip.open(path) as file:
            content = file.read(LARGEST_ARCHIVE + 1)
    if len(content) > LARGEST_ARCHIVE:
        raise DataError(f"{path} unpacks to more than {LARGEST_ARCHIVE // 1_000_000} MB")
    return content


def _walk(root: Path) -> Iterator[tuple[str, Reader]]:
    def read(path: Path, limit: int) -> bytes:
        with path.open("rb") as file:
            return file.read(limit)

    count = 0
    for folder, below, names in os.walk(root):
        below.sort()
        for name in sorted(names):
            count += 1
            if count > MOST_FILES:
                raise DataError(
                    f"{root} holds more than {MOST_FILES} files", "name a folder further down"
                )
            path = Path(folder, name)
            yield path.relative_to(root).as_posix(), partial(read, path)


def _members(tar: tarfile.TarFile) -> Iterator[tuple[str, Reader]]:
    def read(member: tarfile.TarInfo, limit: int) -> bytes:
        file = tar.extractfile(member)
        assert file is not None  # it is a regular file
        return file.read(limit)

    for member in tar:
        if member.isreg():
            yield str(PurePosixPath(member.name)), partial(read, member)


def read_one(reader: Reader, name: str, size: int) -> bytes:
    """The bytes of one file, unpacked if it is gzip, if there are no more than `size`."""
    try:
        if name.endswith(".gz"):
            packed = reader(size + 65536)  # what is compressed badly still fits
            data = gzip.GzipFile(fileobj=io.BytesIO(packed)).read(size + 1)
        else:
            data = reader(size + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name} is truncated or damaged: {error}") from error
    if len(data) > size:
        raise DataError(f"{name} is larger than the {size} bytes that it should have")
    return data


# ---------------------------------------------------------------- decoders


def idx_layout(train: int, test: int, side: int) -> Layout:
    """The four idx files of MNIST and of those that imitate it."""
    files = {}
    for part, count in (("train", train), ("t10k", test)):
        files[f"{part}-images-idx3-ubyte"] = 16 + count * side * side
        files[f"{part}-labels-idx1-ubyte"] = 8 + count

    def decode(files: Mapping[str, bytes]) -> Arrays:
        arrays = {}
        for part, split in (("train", "train"), ("t10k", "test")):
            for what, code in (("images", "idx3"), ("labels", "idx1")):
                name = f"{part}-{what}-{code}-ubyte"
                arrays[f"{split}_{what}"] = read_idx(files[name], name)
        return arrays

    return Layout("idx files, gzip or not", files, decode)


def read_idx(data: bytes, name: str) -> np.ndarray:
    """An idx file of bytes: two zeros, type 8, number of dimensions, the dimensions, the values."""
    dimensions = {"idx3": 3, "idx1": 1}[name.rpartition("-ubyte")[0].rpartition("-")[2]]
    if data[:4] != bytes([0, 0, 8, dimensions]):
        raise DataError(f"{name} is no idx file: it starts with {data[:4].hex(' ') or 'nothing'}")
    start = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", data[4:start].ljust(4 * dimensions, b"\xff"))
    if len(data) - start != math.prod(shape):
        raise DataError(f"{name} is truncated: it has {len(data)} bytes for a shape of {shape}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


CIFAR_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


def cifar_layouts(pictures: int, md5: Mapping[str, str]) -> tuple[Layout, ...]:
    """CIFAR-10 as the binary version, as PNG sheets, and as the python version.

    pictures: in each batch. md5: of the python version's files; a pickle is opened only after it.
    """
    row = 3 * 32 * 32
    binary = {f"{name}.bin": pictures * (row + 1) for name in CIFAR_BATCHES}
    # PNG and pickle add a little to the pixels; 2 MB is room enough for either.
    sheets = {f"{name}.png": pictures * row + (2 << 20) for name in CIFAR_BATCHES}
    names = {"train_lables.json": 100 * pictures, "test_lables.json": 100 * pictures}
    python = dict.fromkeys(CIFAR_BATCHES, pictures * row + (2 << 20))
    return (
        Layout("binary version", binary, partial(_cifar_binary, pictures)),
        Layout("PNG sheets", {**sheets, **names}, partial(_cifar_sheets, pictures)),
        Layout("python version", python, partial(_cifar_python, md5)),
    )


def _cifar(images: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> Arrays:
    return {
        "train_images": np.concatenate(images[:-1]),
        "train_labels": np.concatenate(labels[:-1]),
        "test_images": images[-1],
        "test_labels": labels[-1],
    }


def _planes(rows: np.ndarray) -> np.ndarray:
    """(n, 3072), all red pixels first, as (n, 32, 32, 3)."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _cifar_binary(pictures: int, files: Mapping[str, bytes]) -> Arrays:
    rows = []
    for batch in CIFAR_BATCHES:
        data = files[f"{batch}.bin"]
        if len(data) != pictures * 3073:
            raise DataError(
                f"{batch}.bin is truncated: it has {len(data)} bytes, not {pictures * 3073}"
            )
        rows.append(np.frombuffer(data, np.uint8).reshape(pictures, 3073))
    return _cifar([_planes(r[:, 1:]) for r in rows], [r[:, 0] for r in rows])


def _cifar_sheets(pictures: int, files: Mapping[str, bytes]) -> Arrays:
    """Each row of a sheet is one picture: 1024 pixels."""

    def decode(batch: str) -> np.ndarray:
        try:
            with Image.open(io.BytesIO(files[f"{batch}.png"]), formats=["PNG"]) as sheet:
                if sheet.size != (1024, pictures) or sheet.mode not in ("RGB", "RGBA"):
                    raise DataError(
                        f"{batch}.png is {sheet.width} x {sheet.height} {sheet.mode}, "
                        f"not 1024 x {pictures} RGB"
                    )
                return np.asarray(sheet.convert("RGB")).reshape(pictures, 32, 32, 3)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise DataError(f"{batch}.png is truncated or damaged: {error}") from error

    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        images = list(pool.map(decode, CIFAR_BATCHES))
    labels = []
    for name in ("train_lables.json", "test_lables.json"):
        try:
            labels.append(np.array(json.loads(files[name]), np.int64))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise DataError(f"{name} is not a list of numbers: {error}") from error
    return _cifar(images, labels)


def _cifar_python(md5: Mapping[str, str], files: Mapping[str, bytes]) -> Arrays:
    images, labels = [], []
    for batch in CIFAR_BATCHES:
        digest = hashlib.md5(files[batch], usedforsecurity=False).hexdigest()
        if digest != md5[batch]:
            raise DataError(f"{batch} has the MD5 {digest}, not {md5[batch]}")
        content = _ArraysOnly(io.BytesIO(files[batch]), encoding="bytes").load()
        images.append(_planes(content[b"data"]))
        labels.append(np.array(content[b"labels"], np.int64))
    return _cifar(images, labels)


class _ArraysOnly(pickle.Unpickler):
    """Admits numpy arrays besides what pickle has itself: bytes, str, int, list, dict."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return np.empty(0).__reduce__()[0]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise DataError(f"a python batch asks for {module}.{name}, which is refused")
