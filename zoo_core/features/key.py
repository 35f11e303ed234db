"""What decides the features of a split of pictures: all of it, and nothing else, is the key.

How quickly they were computed, in what batches, on how many threads, is no part of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

FORMAT = 1  # of the files; also raised when `Preprocess` begins to compute something else
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
    format: int = FORMAT

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
