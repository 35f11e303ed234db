"""The feature cache: what a frozen backbone says of the images of a split, kept in block stores.

Each is an ordinary safetensors file of one array and the labels. All that decides the features is
in their key; batches and threads are not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.dataset import Split
from zoo_core.io import tensors
from zoo_core.io.blocks import BlockStore, Layout, Progress, kept_stores
from zoo_core.io.documents import document_digest, strict_loads
from zoo_core.io.errors import DataError
from zoo_core.io.files import cache_dir

KEY_FORMAT = 1  # of the files; also raised when `Preprocess` begins to compute something else
FEATURE_DTYPES = ("float16", "float32")
SUFFIX = ".safetensors"
ALIGNED = 64  # bytes, of the array in the file


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
    view: str  # "plain", or what was done to the images first: "flip"
    format: int = KEY_FORMAT

    @property
    def digest(self) -> str:
        return document_digest(asdict(self))

    def layout(self, split: Split, width: int, **about: Any) -> Layout:
        """The file of these features; about: the dataset's name, its classes, how they are made."""
        key, rows, labels = asdict(self), len(split), split.labels
        specs: dict[str, tuple[str, Sequence[int]]] = {"features": (self.dtype, (rows, width))}
        if labels is not None:
            specs["labels"] = (str(labels.dtype), labels.shape)
        text = json.dumps(key, sort_keys=True)
        return Layout(
            key=key,
            rows=rows,
            row_bytes=width * np.dtype(self.dtype).itemsize,
            # Spaces as in version 0.1, whose unfinished files are completed.
            before=tensors.header_bytes(specs, text, aligned=ALIGNED, separators=(", ", ": ")),
            after=b"" if labels is None else labels.tobytes(),
            about={"width": width, **about},
        )


def digest_of_tensors(tensors: Mapping[str, np.ndarray]) -> str:
    """The sha256 of names, shapes, dtypes and numbers: the same from whatever file they came."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        array = np.asarray(tensors[name], order="C")
        found.update(json.dumps([name, str(array.dtype), array.shape]).encode())
        found.update(array.data)
    return found.hexdigest()


@dataclass(frozen=True)
class Features:
    """The features of a split: rows as they are in the file, mapped and not read."""

    path: Path
    array: np.ndarray  # (rows, width), float16 or float32
    labels: np.ndarray | None
    progress: Progress


class FeatureFile(BlockStore):
    """The features of one key."""

    @classmethod
    def of(cls, key: FeatureKey, dataset: str) -> FeatureFile:
        """Its name is words for people, then the digest, which counts."""
        words = (dataset, key.split, key.view, key.backbone)
        plain = "-".join(re.sub(r"[^a-z0-9]+", "_", word.lower()).strip("_") for word in words)
        return cls(cache_dir("features") / f"{plain[:80]}-{key.digest[:16]}{SUFFIX}")

    @property
    def id(self) -> str:
        """The beginning of its key's digest, which is the end of its name."""
        return self.path.stem.rpartition("-")[2]

    def load(self) -> Features | None:
        """The features, every byte checked; None: not complete; DataError: damaged."""
        file, progress = self.open(), self.progress()
        if file is None or progress is None:
            return None
        with file:
            try:
                header = tensors.read_header(file)
                if strict_loads(header.metadata["zoo"].encode()) != progress.key:
                    raise ValueError(f"{self.record.name} belongs to other features")
                arrays = tensors.read_arrays(file, header, mapped=True)
                return Features(self.path, arrays["features"], arrays.get("labels"), progress)
            except (ValueError, KeyError) as error:
                raise DataError(f"{self.path} is damaged: {error}") from error

    def load_sound(self, say: Callable[[str], None] = lambda line: None) -> Features | None:
        """The features if they are complete and sound; the rest has to be computed."""
        try:
            return self.load()
        except DataError as error:
            say(f"{error}; computing the damaged blocks again")
            return None


def kept_features() -> list[FeatureFile]:
    """All features in the cache, complete or not; those that were used last come first."""
    return [FeatureFile(store.path) for store in kept_stores(cache_dir("features"), SUFFIX)]
