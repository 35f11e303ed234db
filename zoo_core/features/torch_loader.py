"""Batches of features, with the interface of the loader of pictures; see data/loader.py."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from zoo_core.data.draws import Draws, permutation
from zoo_core.data.loader import Batch


class FeatureLoader:
    """The rows `indices` of a split, epoch after epoch, each time from one of its views."""

    def __init__(
        self,
        views: Sequence[np.ndarray],  # (n, width) each, of the same pictures
        labels: np.ndarray,
        *,
        batch_size: int,
        indices: np.ndarray | None = None,
        seed: int = 0,
        shuffle: bool = True,
        device: Any = "cpu",
        **_: Any,  # what only pictures need: backend, channels_last, shard
    ) -> None:
        self.indices = np.arange(len(labels)) if indices is None else np.asarray(indices, np.int64)
        self.batch_size = batch_size
        self._views = [torch.from_numpy(view) for view in views]
        self._labels = labels
        self._seed, self._shuffle, self._device = seed, shuffle, device
        self._order: tuple[int, np.ndarray] = (-1, self.indices)

    def __len__(self) -> int:
        return math.ceil(len(self.indices) / self.batch_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        for number in range(start, len(self)):
            yield self.batch(epoch, number)

    def batch(self, epoch: int, number: int) -> Batch:
        """A function of the settings, the epoch and the number; nothing is remembered."""
        first = number * self.batch_size
        positions = np.arange(first, min(first + self.batch_size, len(self.indices)))
        rows = self.indices[self._epoch_order(epoch)[positions]]
        features = self._rows(0, rows)
        if len(self._views) > 1:
            view = Draws(self._seed, epoch, positions).bits("view") % len(self._views)
            for other in range(1, len(self._views)):
                here = np.flatnonzero(view == other)
                features[torch.from_numpy(here)] = self._rows(other, rows[here])
        labels = torch.from_numpy(self._labels[rows])
        return Batch(features.to(self._device), labels.to(self._device), rows)

    def _rows(self, view: int, rows: np.ndarray) -> torch.Tensor:
        return self._views[view].index_select(0, torch.from_numpy(rows)).float()

    def _epoch_order(self, epoch: int) -> np.ndarray:
        if self._order[0] != epoch:
            count = len(self.indices)
            order = permutation(count, self._seed, epoch) if self._shuffle else np.arange(count)
            self._order = (epoch, order)
        return self._order[1]
