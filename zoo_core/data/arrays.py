"""A dataset in memory: whole arrays of bytes, no files, no framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, repr=False)
class Split:
    """The pictures of one split and, unless they are for generation only, their labels."""

    images: np.ndarray  # uint8 (n, height, width, channels)
    labels: np.ndarray | None  # int64 (n,), indices into Dataset.classes

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:  # not the pixels
        labelled = "with" if self.labels is not None else "without"
        return f"Split({' x '.join(map(str, self.images.shape))}, {labelled} labels)"


@dataclass(frozen=True)
class Dataset:
    """Everything that training needs to know about some pictures."""

    name: str
    train: Split
    test: Split | None
    classes: tuple[str, ...]  # () where there are no labels
    mean: tuple[float, ...]  # one for each channel, of pixels in [0, 1]
    std: tuple[float, ...]
    digest: str  # sha256 of all that decides the arrays: names a dataset for caches and run.json

    @property
    def channels(self) -> int:
        return int(self.train.images.shape[3])

    @property
    def image_size(self) -> int:
        return int(self.train.images.shape[1])
