"""The files of the feature cache: one array for a split, filled block by block, killed at any time.

Beside `NAME.safetensors` lies `NAME.json`, which says how far it is. A block of rows is written and
forced to the disk before it is counted there, so that what is counted is never lost and never
computed twice. Until all rows are there, the file is called `NAME.safetensors.part`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core import tensors
from zoo_core.data.arrays import Split
from zoo_core.errors import DataError, UnknownName, UsageError
from zoo_core.features.key import FeatureKey
from zoo_core.files import atomic_write, locked
from zoo_core.hub.digest import digest_of
from zoo_core.paths import cache_dir

BLOCK = 256  # rows that are committed together: some seconds of work
SUFFIX = ".safetensors"
ALIGNED = 64  # bytes, of the array in the file
CODES = {"float16": "F16", "float32": "F32", "int64": "I64"}


@dataclass
class Progress:
    """What NAME.json says."""

    key: dict[str, Any]
    rows: int  # of the whole split
    width: int
    dataset: str  # in words
    classes: tuple[str, ...]
    made_with: dict[str, Any]  # versions, device, batch: what may show in the last bits
    blocks: list[str] = field(default_factory=list)  # sha256 of each committed block
    seconds: float = 0.0  # of computing, over all resumes
    sha256: str = ""  # of the whole file, once it is complete

    @property
    def done(self) -> int:
        return min(len(self.blocks) * BLOCK, self.rows)


@dataclass(frozen=True)
class Features:
    """The features of a split: rows as they are in the file, mapped and not read."""

    path: Path
    array: np.ndarray  # (rows, width), float16 or float32
    labels: np.ndarray | None
    progress: Progress


class FeatureFile:
    """The features of one key. `load` gives them if they are complete; `writing` makes them so."""

    def __init__(self, path: Path) -> None:
        self.path = path  # NAME.safetensors
        self.part = path.with_name(path.name + ".part")
        self.settings = path.with_suffix(".json")

    @classmethod
    def of(cls, key: FeatureKey, dataset: str) -> FeatureFile:
        return cls(cache_dir("features") / (key.stem(dataset) + SUFFIX))

    # ------------------------------------------------------------ reading

    def progress(self) -> Progress | None:
        """How far it is; None where there is nothing that can be understood."""
        try:
            document = json.loads(self.settings.read_text("utf-8"))
            document["classes"] = tuple(document["classes"])
            return Progress(**document)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def load(self, *, rehash: bool = False) -> Features | None:
        """The features, every byte checked; None where they are not complete.

        An unchanged file is not hashed again, see hub/digest.py. DataError: it is damaged.
        """
        progress = self.progress()
        if progress is None or not progress.sha256:
            return None
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            try:
                found = digest_of(file, rehash)
                if found != progress.sha256:
                    raise ValueError(f"its sha256 is {found[:12]}...")
                header = tensors.read_header(file)
                arrays = tensors.map_arrays(file, header)
                if json.loads(header.metadata["zoo"]) != progress.key:
                    raise ValueError(f"{self.settings.name} belongs to other features")
            except (OSError, ValueError, KeyError) as error:
                raise DataError(f"{self.path} is damaged: {error}") from error
        return Features(self.path, arrays["features"], arrays.get("labels"), progress)

    def load_sound(self, say: Callable[[str], None]) -> Features | None:
        """The features if they are complete and sound; what is not is to be made again."""
        try:
            return self.load()
        except DataError as error:
            say(f"{error}; what is wrong in it is computed again")
            return None

    def used(self) -> None:
        """Remember when; what was not used for longest goes first."""
        with suppress(OSError):  # a cache that others share may be read-only
            os.utime(self.settings)

    # ------------------------------------------------------------ writing

    @contextmanager
    def writing(
        self, fresh: Progress, split: Split, waiting: Callable[[], None]
    ) -> Iterator[Writer | None]:
        """The one writer of these features; None if another process has just completed them."""
        with locked(self.path, waiting):
            try:
                complete = self.load()
            except DataError:
                complete = None
            if complete is not None:
                yield None
                return
            with Writer(self, fresh, split) as writer:
                yield writer

    # ------------------------------------------------------------ housekeeping

    @property
    def id(self) -> str:
        """The beginning of its key's digest, which is the end of its name."""
        return self.path.stem.rpartition("-")[2]

    @property
    def bytes(self) -> int:
        """On the disk, where a file that is not complete takes less than its size."""
        used = 0
        for path in (self.path, self.part, self.settings):
            with suppress(OSError):
                status = path.stat()
                used += min(status.st_size, 512 * getattr(status, "st_blocks", status.st_size))
        return used

    @property
    def last_used(self) -> float:
        try:
            return self.settings.stat().st_mtime
        except OSError:
            return 0.0

    def verify(self) -> str:
        """Read every byte again: "ok", or how much of it there is; DataError: it is damaged."""
        progress = self.progress()
        if progress is None:
            raise DataError(f"{self.settings} cannot be read")
        if self.part.exists() or not progress.sha256:
            return f"{progress.done:,} of {progress.rows:,} pictures"
        if self.load(rehash=True) is None:
            raise DataError(f"{self.path} is missing")
        return "ok"

    def remove(self) -> int:
        """Delete it, and say how many bytes that were."""
        with locked(self.path, self._refuse):
            used = self.bytes
            for path in (self.path, self.part, self.settings):
                path.unlink(missing_ok=True)
        return used

    def _refuse(self) -> None:
        raise UsageError(
            f"{self.path.stem} is being computed by another process", "stop that one first"
        )


class Writer:
    """Fills the file of one key; made by FeatureFile.writing, which holds the lock."""

    def __init__(self, place: FeatureFile, fresh: Progress, split: Split) -> None:
        self.place = place
        header = _header(fresh, split.labels)
        known = place.progress()
        if known is None or known.key != fresh.key:
            known = fresh
            place.part.unlink(missing_ok=True)
        self.progress = known
        known.sha256 = ""
        if not place.part.exists() and place.path.exists():
            place.path.replace(place.part)  # damaged: what is sound in it is kept
        self._start = len(header)
        self._row = fresh.width * np.dtype(fresh.key["dtype"]).itemsize
        after = b"" if split.labels is None else split.labels.astype(np.int64).tobytes()
        size = len(header) + fresh.rows * self._row + len(after)
        self._file = place.part.open("r+b" if place.part.exists() else "w+b")
        # Whatever a kill or a failing disk left of the rest, these bytes are known beforehand.
        self._file.write(header)
        self._file.truncate(size)
        self._file.seek(size - len(after))
        self._file.write(after)
        self._file.flush()
        self._sound = [self._digest(number) for number in range(len(known.blocks))]
        if known is fresh:
            self._save()  # so that it is known what the file will be, before there is a row

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def missing(self) -> list[int]:
        """Numbers of the blocks that are still to be computed."""
        count = -(-self.progress.rows // BLOCK)
        blocks = self.progress.blocks
        return [n for n in range(count) if n >= len(blocks) or self._sound[n] != blocks[n]]

    def rows(self, block: int) -> range:
        return range(block * BLOCK, min((block + 1) * BLOCK, self.progress.rows))

    def commit(self, block: int, features: np.ndarray, seconds: float) -> None:
        """Keep the rows of a block: first they are safe on the disk, then they count."""
        content = np.ascontiguousarray(features).tobytes()
        self._file.seek(self._start + block * BLOCK * self._row)
        self._file.write(content)
        self._file.flush()
        os.fsync(self._file.fileno())
        digest = hashlib.sha256(content).hexdigest()
        blocks = self.progress.blocks
        blocks[block : block + 1] = [digest]
        self._sound[block : block + 1] = [digest]
        self.progress.seconds += seconds
        self._save()

    def finish(self) -> None:
        """All rows are there: give the file its name."""
        assert not self.missing()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.seek(0)
        self.progress.sha256 = hashlib.file_digest(self._file, "sha256").hexdigest()
        self._file.close()
        self._save()
        self.place.part.replace(self.place.path)

    def _digest(self, block: int) -> str:
        rows = self.rows(block)
        self._file.seek(self._start + rows.start * self._row)
        return hashlib.sha256(self._file.read(len(rows) * self._row)).hexdigest()

    def _save(self) -> None:
        with atomic_write(self.place.settings) as temporary:
            temporary.write_text(json.dumps(asdict(self.progress)), "utf-8")


def _header(progress: Progress, labels: np.ndarray | None) -> bytes:
    """The beginning of a safetensors file; a function of the key and the pictures alone."""
    dtype = progress.key["dtype"]
    end = progress.rows * progress.width * np.dtype(dtype).itemsize
    document: dict[str, Any] = {
        "__metadata__": {"zoo": json.dumps(progress.key, sort_keys=True)},
        "features": {
            "dtype": CODES[dtype],
            "shape": [progress.rows, progress.width],
            "data_offsets": [0, end],
        },
    }
    if labels is not None:
        document["labels"] = {
            "dtype": CODES["int64"],
            "shape": [len(labels)],
            "data_offsets": [end, end + 8 * len(labels)],
        }
    text = json.dumps(document).encode()
    text += b" " * (-(len(text) + 8) % ALIGNED)
    return len(text).to_bytes(8, "little") + text


def kept() -> list[FeatureFile]:
    """All features in the cache, complete or not; those that were used last come first."""
    names = {
        path.name.partition(".")[0]
        for ending in (".json", SUFFIX, SUFFIX + ".part")
        for path in cache_dir("features").glob(f"[!.]*{ending}")
    }
    files = [FeatureFile(cache_dir("features") / (name + SUFFIX)) for name in names]
    return sorted(files, key=lambda file: (-file.last_used, file.path.name))


def find_features(reference: str) -> FeatureFile:
    """By id, by the beginning of it, or by the name of the file."""
    files = kept()
    found = [
        file
        for file in files
        if file.id.startswith(reference) or Path(reference).name in (file.path.name, file.path.stem)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{reference!r} could be {' or '.join(file.id for file in found)}")
    raise UnknownName(f"there are no features {reference!r}", "zoo features list shows them")


def beyond(size: int) -> list[FeatureFile]:
    """What has to go so that the rest takes at most so many bytes: the longest unused."""
    gone, used = [], 0
    for file in kept():
        used += file.bytes
        if used > size:
            gone.append(file)
    return gone
