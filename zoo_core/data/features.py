"""What decides the features of a split of pictures: all of it, and nothing else, is the key.

How quickly they were computed, in what batches, on how many threads, is no part of it.

The files of the feature cache: one array for a split, filled block by block, killed at any time.

Beside `NAME.safetensors` lies `NAME.json`, which says how far it is. A block of rows is written and
forced to the disk before it is counted there, so that what is counted is never lost and never
computed twice. Until all rows are there, the file is called `NAME.safetensors.part`.

Features and labels as one file that other programs read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.dataset import Split
from zoo_core.io import tensors
from zoo_core.io.errors import DataError, UnknownName, UsageError, ZooError
from zoo_core.io.files import atomic_write, cache_dir, digest_of, locked
from zoo_core.io.tensors import to_bytes

KEY_FORMAT = 1  # of the files; also raised when `Preprocess` begins to compute something else
DTYPES = ("float16", "float32")


@dataclass(frozen=True, kw_only=True)
class FeatureKey:
    """Two passes with equal keys give the same features, up to the rounding of a machine."""

    backbone: str  # which arithmetic, in words: "efficientnet_lite0 1", "timm 1.0.30 resnet50"
    structure: str  # sha256 of its layers as text, in case the words forget something
    weights: str  # digest of its tensors, see `digest_of_tensors`
    layer: str  # whose output is kept
    pooling: str  # how a map becomes a row
    preprocess: Mapping[str, Any]  # Preprocess.to_dict(): resolution, resizing, normalisation
    precision: str  # of the computation
    dtype: str  # of what is kept: float16 or float32
    dataset: str  # Dataset.digest
    split: str  # train or test
    view: str  # "plain", or what was done to the pictures first: "flip"
    format: int = KEY_FORMAT

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def stem(self, dataset: str) -> str:
        """A file's name without its ending: words for people, then the digest, which counts."""
        words = (dataset, self.split, self.view, self.backbone)
        plain = "-".join(re.sub(r"[^a-z0-9]+", "_", word.lower()).strip("_") for word in words)
        return f"{plain[:80]}-{self.digest[:16]}"


def digest_of_tensors(tensors: Mapping[str, np.ndarray]) -> str:
    """The sha256 of names, shapes, dtypes and numbers: the same from whatever file they came."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        array = np.asarray(tensors[name], order="C")
        found.update(json.dumps([name, str(array.dtype), array.shape]).encode())
        found.update(array.data)
    return found.hexdigest()


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

    def load(self) -> Features | None:
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
                found = digest_of(file)
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
        if self.load() is None:
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
        header = _feature_header(fresh, split.labels)
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


def _feature_header(progress: Progress, labels: np.ndarray | None) -> bytes:
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


def export_features(files: Sequence[FeatureFile], path: Path) -> dict[str, tuple[int, ...]]:
    """Write them as float32, and give the shapes by name."""
    arrays: dict[str, np.ndarray] = {}
    classes: set[tuple[str, ...]] = set()
    for file in files:
        features = file.load()
        if features is None:
            raise UsageError(
                f"{file.path.stem} is not complete yet", "zoo features compute goes on with it"
            )
        key = features.progress.key
        name = key["split"] if key["view"] == "plain" else f"{key['split']}_{key['view']}"
        if f"{name}_features" in arrays:
            raise UsageError(
                f"two of these are both {name} features", "write them to a file of their own"
            )
        arrays[f"{name}_features"] = features.array.astype(np.float32)
        if features.labels is not None:
            arrays[f"{name}_labels"] = features.labels
        classes.add(features.progress.classes)
    if len(classes) > 1:
        raise UsageError("these are features of datasets with other classes")
    names = list(classes.pop())
    try:
        with atomic_write(path) as temporary:
            if path.suffix == ".npz":
                named: dict[str, Any] = {"classes": np.array(names, dtype=np.str_), **arrays}
                with temporary.open("wb") as stream:
                    np.savez(stream, **named)
            else:
                temporary.write_bytes(to_bytes(arrays, json.dumps({"classes": names})))
    except OSError as error:
        raise ZooError(f"{path} could not be written: {error.strerror or error}") from error
    return {name: array.shape for name, array in arrays.items()}
