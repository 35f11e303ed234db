"""Arrays as safetensors bytes: the one way in which the zoo writes them and reads them back.

The library is used to write. It is not used to read what others wrote: it accepts a key twice, says
nothing of numbers that are not finite, and copies. The format is small enough to be read strictly.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

import numpy as np
import safetensors.numpy

from zoo_core.io.documents import strict_loads

LARGEST_HEADER = 1 << 20
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


class Extent(NamedTuple):
    """What a header says about one tensor; bytes are counted from the first one after it."""

    dtype: str  # as numpy and torch call it
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    metadata: Mapping[str, str]
    places: Mapping[str, Extent]
    start: int  # of the tensors, in the file


def to_bytes(arrays: Mapping[str, np.ndarray], about: str = "") -> bytes:
    """The content of a .safetensors file. `about` becomes its one metadata key, `zoo`.

    One key only: the library writes several in any order, and the same weights would then have
    another digest at every save.
    """
    # The format is C order; a copy is made only of what is not. A scalar stays a scalar.
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return safetensors.numpy.save(plain, {"zoo": about} if about else None)


def read_header(file: IO[bytes]) -> Header:
    """The header of an open file; ValueError says what is wrong with it.

    Every byte after the header must belong to exactly one tensor: nothing is hidden in a gap, read
    twice, or missing at the end.
    """
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise ValueError(f"it has {size} bytes, fewer than its header announces")
    if length > LARGEST_HEADER:
        raise ValueError(f"its header has {length:,} bytes; {LARGEST_HEADER:,} are allowed")
    document = strict_loads(file.read(length))
    if not isinstance(document, dict):
        raise ValueError("its header is not a JSON object")
    metadata = document.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError("its metadata is not text")
    places = {name: _extent(name, record) for name, record in document.items()}
    end = 0
    for name, place in sorted(places.items(), key=lambda item: item[1][2:]):
        if place.begin != end:
            raise ValueError(f"tensor {name!r} does not begin where the one before it ends")
        end = place.end
    if size - 8 - length != end:
        raise ValueError(f"it has {size - 8 - length:,} bytes of tensors instead of {end:,}")
    return Header(metadata, places, 8 + length)


def _extent(name: str, record: Any) -> Extent:
    if not isinstance(record, dict) or set(record) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"tensor {name!r} needs dtype, shape and data_offsets, nothing else")
    code, shape, offsets = record["dtype"], record["shape"], record["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise ValueError(f"tensor {name!r} has the unknown dtype {code!r}")
    if not _whole(shape) or not _whole(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name!r} has a shape or offsets that are no whole numbers")
    begin, end = offsets
    if end - begin != math.prod(shape) * item_size(DTYPES[code]):
        raise ValueError(f"tensor {name!r} has {end - begin} bytes, which do not fill its shape")
    return Extent(DTYPES[code], tuple(shape), begin, end)


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)


def item_size(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def map_arrays(file: IO[bytes], header: Header) -> dict[str, np.ndarray]:
    """The tensors of an open file without reading it: pages come when they are looked at.

    They can be written to, and the file never changes. NumPy has no bfloat16: such a tensor comes
    as the uint16 of its bits.
    """
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    arrays = {}
    for name, (dtype, shape, begin, end) in header.places.items():
        kind = np.dtype("uint16" if dtype == "bfloat16" else dtype)
        count = (end - begin) // kind.itemsize
        array = np.frombuffer(mapped, kind, count, header.start + begin).reshape(shape)
        arrays[name] = array if array.flags.aligned else array.copy()
    return arrays
