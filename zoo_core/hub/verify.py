"""The one place that decides whether a weight file is what it should be; every load passes here.

In this order: size and sha256 of the whole file before a byte of it is understood; then the header;
then names, shapes and dtypes against what the model needs; then whether all numbers are finite.
Any failure is one WeightsError, and nothing of the file is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from zoo_core.errors import WeightsError
from zoo_core.files import open_regular
from zoo_core.hub.digest import check_digest, check_size, digest_of
from zoo_core.tensors import Header, map_arrays, read_header

Spec = Mapping[str, tuple[tuple[int, ...], str]]  # what a trainer's tensor_spec gives
FLOATS = ("float64", "float32", "float16", "bfloat16")
KNOWN_FORMATS = {  # what people download instead of weights, by its first bytes
    b"\x80": "a pickle, which could run code when it is read",
    b"PK\x03\x04": "a zip archive, perhaps a torch checkpoint",
    b"<": "a web page",
    b"version https://git-lfs": "a pointer of Git LFS, not the file that it points to",
}


@dataclass(frozen=True)
class WeightsFile:
    """A file that has the right size, digest and header; its tensors are not checked yet."""

    path: Path
    sha256: str
    bytes: int
    header: Header
    arrays: Mapping[str, np.ndarray]

    @property
    def dtypes(self) -> set[str]:
        """Those of its floats."""
        return {place.dtype for place in self.header.places.values()} & set(FLOATS)


def open_weights(
    path: Path, *, sha256: str = "", size: int | None = None, rehash: bool = False
) -> WeightsFile:
    """Check a file as a whole and map it.

    sha256, size: what it must have; "" and None where nobody knows. rehash: read all of it even
    where nothing has changed since the last time.
    """
    try:
        with open_regular(path) as file:
            check_size(path, os.fstat(file.fileno()).st_size, size)
            found = digest_of(file, rehash)
            check_digest(path, found, sha256)
            # The same open file: nobody can put another one in its place in between.
            header = _header(path, file)
            arrays = map_arrays(file, header)
            return WeightsFile(path, found, os.fstat(file.fileno()).st_size, header, arrays)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise WeightsError(f"{path} cannot be read: {reason}") from error


def _header(path: Path, file: IO[bytes]) -> Header:
    try:
        return read_header(file)
    except ValueError as error:
        file.seek(0)
        start = file.read(32)
        known = {} if start[8:9] == b"{" else KNOWN_FORMATS
        what = next((w for magic, w in known.items() if start.lstrip().startswith(magic)), "")
        raise WeightsError(
            f"{path} is not a safetensors file: {f'it is {what}' if what else error}"
        ) from error


def check_tensors(file: WeightsFile, spec: Spec | None, dtype: str = "") -> dict[str, np.ndarray]:
    """The tensors, once they are known to fit.

    spec: names, shapes and dtypes of the model's tensors; None where the model is not installed.
    dtype: of all floats in the file, where it is known; they may be others than the model's.
    """
    places = file.header.places
    if spec is not None:
        _same_names(file, spec)
    for name, (kind, shape, _, _) in places.items():
        wanted = spec[name] if spec is not None else (shape, kind)
        if shape != tuple(wanted[0]):
            raise WeightsError(
                f"{file.path} does not fit the model: {name} has the shape {list(shape)}, "
                f"and {list(wanted[0])} is needed",
                "the plugin may have changed since; zoo plugins shows its version",
            )
        expected = (dtype or kind) if kind in FLOATS and wanted[1] in FLOATS else wanted[1]
        if kind != expected:
            raise WeightsError(f"{file.path}: {name} is {kind} instead of {expected}")
        if not _finite(file.arrays[name], kind):
            raise WeightsError(
                f"{file.path}: {name} holds numbers that are not finite"
                if kind in FLOATS
                else f"{file.path}: {name} holds values that are neither true nor false"
            )
    return {name: _plain(array, places[name].dtype) for name, array in file.arrays.items()}


def _same_names(file: WeightsFile, spec: Spec) -> None:
    missing, extra = spec.keys() - file.arrays.keys(), file.arrays.keys() - spec.keys()
    if missing or extra:
        words = [f"{_some(missing)} missing"] if missing else []
        words += [f"{_some(extra)} too much"] if extra else []
        raise WeightsError(
            f"{file.path} does not fit the model: {', and '.join(words)}",
            "the plugin may have changed since; zoo plugins shows its version",
        )


def _some(names: Iterable[str]) -> str:
    names = sorted(names)
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{rest} {'is' if len(names) == 1 else 'are'}"


def _finite(array: np.ndarray, dtype: str) -> bool:
    if dtype == "bool":
        return bool((array.view(np.uint8) <= 1).all())
    if dtype == "bfloat16":  # the exponent of NaN and infinity is all ones
        return not bool(((array & 0x7F80) == 0x7F80).any())
    return dtype not in FLOATS or bool(np.isfinite(array).all())


def _plain(array: np.ndarray, dtype: str) -> np.ndarray:
    """bfloat16 is the upper half of float32."""
    if dtype != "bfloat16":
        return array
    widened: np.ndarray = (array.astype(np.uint32) << 16).view(np.float32)
    return widened
