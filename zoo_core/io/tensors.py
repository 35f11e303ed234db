"""Arrays as safetensors files: the one writer, the one reader, and the one table of dtypes.

The library is not used: it reads a key twice without a word, copies, and does not stream. Files
come out byte for byte as the library writes them.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from zoo_core.io.documents import strict_loads
from zoo_core.io.files import atomic_write, digest_of

if TYPE_CHECKING:  # code that needs only the table does not wait for NumPy
    import numpy as np

LARGEST_HEADER = 1 << 20
LONGEST_NAME, MOST_AXES = 500, 16  # of a tensor; the product of many sizes would take minutes
COPIED = 256 << 20  # bytes; docs/weights.md says why, and what it means that more is mapped
CHUNK = 1 << 20
# In the order of the file, so that every array is aligned: by the library's rank, then by name.
DTYPES = {
    "uint64": ("U64", 8), "int64": ("I64", 8), "float64": ("F64", 8), "float32": ("F32", 4),
    "uint32": ("U32", 4), "int32": ("I32", 4), "bfloat16": ("BF16", 2), "float16": ("F16", 2),
    "uint16": ("U16", 2), "int16": ("I16", 2), "int8": ("I8", 1), "uint8": ("U8", 1),
    "bool": ("BOOL", 1),
}  # fmt: skip
FLOATS = ("float64", "float32", "float16", "bfloat16")
_RANKS = {dtype: rank for rank, dtype in enumerate(DTYPES)}
_NAMES = {code: dtype for dtype, (code, _) in DTYPES.items()}
SHORTER = "it became shorter while it was read"


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
    """The content of a .safetensors file; `about` becomes its one metadata key, `zoo`."""
    # One key only: the library writes several in any order, so that the digest would change.
    return b"".join(_parts(arrays, about))


def write_tensors(path: Path, arrays: Mapping[str, np.ndarray], about: str = "") -> str:
    """Write such a file whole or not at all, without a second copy in memory; give its digest."""
    digest = hashlib.sha256()
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        for part in _parts(arrays, about):
            file.write(part)
            digest.update(part)
    return digest.hexdigest()


def _parts(arrays: Mapping[str, np.ndarray], about: str) -> Iterator[bytes | memoryview]:
    import numpy as np

    # The format is C order and little-endian; only what is not is copied. A scalar stays a scalar.
    plain = {
        name: np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        for name, array in arrays.items()
    }
    order = sorted(plain, key=lambda name: (_RANKS[plain[name].dtype.name], name))
    specs = {name: (plain[name].dtype.name, plain[name].shape) for name in order}
    yield header_bytes(specs, about)
    for name in order:
        yield plain[name].data


def header_bytes(
    specs: Mapping[str, tuple[str, Sequence[int]]],
    about: str = "",
    *,
    aligned: int = 8,
    separators: tuple[str, str] = (",", ":"),
) -> bytes:
    """The beginning of a file with tensors of these dtypes and shapes, one after the other."""
    document: dict[str, Any] = {"__metadata__": {"zoo": about}} if about else {}
    end = 0
    for name, (dtype, shape) in specs.items():
        code, size = DTYPES[dtype]
        begin, end = end, end + math.prod(shape) * size
        document[name] = {"dtype": code, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(document, ensure_ascii=False, separators=separators).encode()
    text += b" " * (-(len(text) + 8) % aligned)
    return len(text).to_bytes(8, "little") + text


def read(source: IO[bytes] | bytes) -> dict[str, np.ndarray]:
    """The tensors of a file, read into memory; OSError or ValueError says what is wrong with it."""
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    return read_arrays(file, read_header(file))


def read_header(file: IO[bytes]) -> Header:
    """The header of an open file; ValueError unless each byte belongs to exactly one tensor."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return _header(file.read(_length(file.read(8), size)), size)


def header_in(content: memoryview) -> Header:
    """The header of what `contents` gave."""
    size = len(content)
    return _header(bytes(content[8 : 8 + _length(bytes(content[:8]), size)]), size)


def _length(start: bytes, size: int) -> int:
    length = int.from_bytes(start, "little")
    if size < 8 or length > size - 8:
        raise ValueError(f"it has {size} bytes, fewer than its header announces")
    if length > LARGEST_HEADER:
        raise ValueError(f"its header has {length:,} bytes; {LARGEST_HEADER:,} are allowed")
    return length


def _header(text: bytes, size: int) -> Header:
    length = len(text)
    document = strict_loads(text)
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
    if len(name) > LONGEST_NAME or not isinstance(shape, list) or len(shape) > MOST_AXES:
        what = f"a name of at most {LONGEST_NAME} letters and a shape of at most {MOST_AXES} sizes"
        raise ValueError(f"tensor {name[:LONGEST_NAME]!r} needs {what}")
    if not isinstance(code, str) or code not in _NAMES:
        raise ValueError(f"tensor {name!r} has the unknown dtype {code!r}")
    if not _whole(shape) or not _whole(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name!r} has a shape or offsets that are not whole numbers")
    dtype, (begin, end) = _NAMES[code], offsets
    if end - begin != math.prod(shape) * DTYPES[dtype][1]:
        raise ValueError(f"tensor {name!r} has {end - begin} bytes, which do not fill its shape")
    return Extent(dtype, tuple(shape), begin, end)


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)


def read_arrays(file: IO[bytes], header: Header, *, mapped: bool = False) -> dict[str, np.ndarray]:
    """The tensors of an open file, in memory or mapped: pages come when they are looked at.

    They can be written to; the file never changes. bfloat16 comes as the uint16 of its bits.
    """
    import numpy as np

    if mapped:
        return arrays_in(_mapped(file), header)
    arrays = {}
    for name, (dtype, shape, begin, end) in header.places.items():
        arrays[name] = np.empty(shape, _kept_as(dtype))
        file.seek(header.start + begin)
        if file.readinto(arrays[name].data) != end - begin:  # type: ignore[attr-defined]
            raise ValueError(SHORTER)
    return arrays


def arrays_in(content: memoryview, header: Header) -> dict[str, np.ndarray]:
    """The tensors of what `contents` gave, in its memory where they are aligned there."""
    import numpy as np

    arrays = {}
    for name, (dtype, shape, begin, _) in header.places.items():
        place = header.start + begin
        flat = np.frombuffer(content, _kept_as(dtype), math.prod(shape), place)
        arrays[name] = (flat if flat.flags.aligned else flat.copy()).reshape(shape)
    return arrays


def contents(file: IO[bytes]) -> tuple[memoryview, str]:
    """All bytes of an open file and their sha256: what is hashed is what the caller gets.

    A file of up to COPIED bytes is read once, into memory: whatever happens to it later changes
    nothing here. A larger one is mapped.
    """
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    size = os.fstat(file.fileno()).st_size
    if size > COPIED:
        return _mapped(file), digest_of(file)
    content, digest = np.empty(size, np.uint8).data, hashlib.sha256()
    parts = [content[begin : begin + CHUNK] for begin in range(0, size, CHUNK)]
    with ThreadPoolExecutor(1) as other:
        # It hashes a part while this thread reads the next one; few bytes are not worth its start.
        few = size <= 8 * CHUNK
        for part in parts:
            if file.readinto(part) != len(part):  # type: ignore[attr-defined]
                raise OSError(0, SHORTER)
            digest.update(part) if few else other.submit(digest.update, part)
    return content, digest.hexdigest()


def _mapped(file: IO[bytes]) -> memoryview:
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


def _kept_as(dtype: str) -> str:
    return "uint16" if dtype == "bfloat16" else dtype
