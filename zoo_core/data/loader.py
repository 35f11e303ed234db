"""Batches of images: gathered from memory or a store, augmented and normalised as whole arrays.

Batch k of epoch e is a function of the settings, e and k: the same after a resume, on any machine,
and whichever thread makes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from zoo_core.data.augment import Cover, CutMix, mixing, parse_augment, stages
from zoo_core.data.dataset import Split
from zoo_core.data.draws import Draws, permutation
from zoo_core.data.ops import open_ops
from zoo_core.data.originals import THREADS
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.errors import OptionError

EVALUATION_BATCH = 256
# Bytes of a batch, as floats. A smaller one is made sooner than threads have handed it over; a few
# larger ones are made ahead, as many as threads are good for and as fit into so much memory.
LARGE, AHEAD = 1 << 23, 1 << 29


@dataclass(frozen=True)
class Batch:
    """One step's images, as arrays of the backend."""

    images: Any  # float32 (B, c, h, w), normalised
    labels: Any  # int64 (B,); uint8 (B, classes) of several; float32 (B, k) of numbers; or None
    indices: np.ndarray  # int64 (B,), which images of the split
    mixed_labels: Any = None  # labels of what MixUp or CutMix mixed in
    weight: Any = None  # float32 (B,): the share of `labels`; the rest is that of `mixed_labels`
    mixed_indices: np.ndarray | None = None  # int64 (B,), which images were mixed in
    second: Any = None  # a second version of `images`, drawn apart, for a task with `pairs`

    def __len__(self) -> int:
        return len(self.indices)

    def split(self, parts: int) -> list[Batch]:
        """The same images in so many nearly equal batches, without empty ones."""
        if parts == 1:
            return [self]
        edges = [len(self) * number // parts for number in range(parts + 1)]
        cuts = [slice(start, end) for start, end in pairwise(edges) if end > start]
        given = {name: array for name, array in vars(self).items() if array is not None}
        return [replace(self, **{n: array[cut] for n, array in given.items()}) for cut in cuts]

    def targets(
        self, classes: int, smoothing: float = 0.0, weights: np.ndarray | None = None
    ) -> np.ndarray:
        """What a model should say, (B, classes): mixed as NumPy's labels are, then smoothed.

        weights: of the classes; a row then adds up to the weight of its image.
        """
        one_hot = np.eye(classes, dtype=np.float32)
        if weights is not None:
            one_hot *= weights.astype(np.float32)
        wanted = one_hot[self.labels]
        if self.mixed_labels is not None:
            share = self.weight[:, None]
            wanted = share * wanted + (1 - share) * one_hot[self.mixed_labels]
        spread = smoothing / classes * (1 if weights is None else wanted.sum(1, keepdims=True))
        return np.asarray(wanted * (1 - smoothing) + spread, np.float32)


class Loader:
    """The batches of a split, or of the images `indices` of it, epoch after epoch."""

    def __init__(
        self,
        split: Split,
        *,
        batch_size: int,
        preprocess: Preprocess,
        indices: np.ndarray | None = None,
        augment: Sequence[str] = (),
        mixup: float = 0.0,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        pairs: bool = False,  # batches have `second`
        shard: tuple[int, int] = (0, 1),  # this process, of so many
        backend: str = "torch",
        device: Any = "cpu",
        channels_last: bool = False,
    ) -> None:
        self.indices = np.arange(len(split)) if indices is None else np.asarray(indices, np.int64)
        self.labels, self.preprocess, self.mixup = split.labels, preprocess, mixup
        self.batch_size, self.drop_last = batch_size, drop_last
        self.seed, self.shuffle, self.pairs = seed, shuffle, pairs
        if not shuffle and shard[1] > min(batch_size, len(self.indices)):
            shard = (0, 1)  # too few to measure in parts: each process has all of them
        self.rank, self.world = shard
        if batch_size < 1 or not 0 <= self.rank < self.world:
            what = f"batch_size {batch_size} and shard {self.rank} of {self.world} are invalid"
            raise OptionError(what, "batches have at least 1 image; shards count from 0")
        if not len(self):
            what = f"{len(self.indices):,} images do not fill a batch of {batch_size}"
            raise OptionError(what, "choose a smaller batch_size, or more images")
        words = parse_augment(augment)
        sizes = [word.does.side for word in words if word.does.side]
        if sizes and sizes[-1] != preprocess.size:
            what = f"augment makes images of {sizes[-1]} pixels where preprocess makes"
            hint = f"set preprocess.size to {sizes[-1]}, so that training and evaluation agree"
            raise OptionError(f"{what} {preprocess.size}", hint)
        self._stages = stages(words)
        self._covers = [(w.does, w.prefix) for w in words if isinstance(w.does, Cover)]
        self._cutmix = next((w.does for w in words if isinstance(w.does, CutMix)), None)
        self._ops = open_ops(backend, device, channels_last)
        self._finish = preprocess.finisher(self._ops)
        self._images, self._rows = split.images, self.indices
        self._in_memory = isinstance(split.images, np.ndarray)
        if self._in_memory:
            # A plain reference on the CPU: the images stay bytes, and there is one copy of them.
            self._images, self._rows = self._ops.place(split.images, self.indices)
        self._order: tuple[int, np.ndarray] = (-1, self.indices)
        size = 4 * batch_size * preprocess.size**2 * preprocess.channels
        self._threads = max(1, min(THREADS, AHEAD // size)) if size > LARGE else 0
        if self._threads > 1 and not self._in_memory:
            # Each makes batches from beginning to end: with more threads they wait for each other.
            self._images = copy(split.images)
            self._images.threads = 1

    def __len__(self) -> int:
        """Batches in an epoch."""
        count = len(self.indices)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def epoch(self, epoch: int, start: int = 0) -> Generator[Batch, None, None]:
        """The batches of an epoch, from batch `start` on; threads make large ones ahead."""
        numbers = range(start, len(self))
        if not self._threads:
            yield from (self.batch(epoch, number) for number in numbers)
            return
        coming: deque[Future[Batch]] = deque()
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                for number in numbers:
                    coming.append(pool.submit(self.batch, epoch, number))
                    if len(coming) > self._threads:
                        yield coming.popleft().result()
                while coming:
                    yield coming.popleft().result()
            finally:  # also where nobody wants the rest
                for future in coming:
                    future.cancel()

    def batch(self, epoch: int, number: int) -> Batch:
        """Batch `number` of an epoch, or this shard's part of it, which may be empty."""
        if not 0 <= number < len(self):
            raise IndexError(f"there is no batch {number}: an epoch has {len(self)}")
        begin = number * self.batch_size
        size = min(self.batch_size, len(self.indices) - begin)
        start = begin + size * self.rank // self.world
        count = begin + size * (self.rank + 1) // self.world - start
        mixed = self.mixup > 0 or self._cutmix is not None
        # An image is mixed with the one after it in the epoch's order, which is random already;
        # so one more is made than asked for. An empty part is cut from a batch of one.
        positions = np.arange(start, start + max(count, 1) + mixed) % len(self.indices)
        chosen = self._epoch_order(epoch)[positions]
        images = self._version(Draws(self.seed, epoch, positions), chosen)
        second = None
        if self.pairs:  # what is drawn for the positions after the last one is used nowhere else
            further = Draws(self.seed, epoch, positions + len(self.indices))
            second = self._version(further, chosen)[:count]
        indices = self.indices[chosen]
        labels = None if self.labels is None else self.labels[indices]
        given = self._put(labels, 0, count), indices[:count]
        if not mixed:
            return Batch(images[:count], *given, second=second)
        draws, side = Draws(self.seed, epoch, positions[:-1]), self.preprocess.size
        weight, keep, boxes = mixing(draws, self.mixup, self._cutmix, side, side)
        others = self._put(labels, 1, count), self._put(weight, 0, count)
        further = self.indices[chosen][1 : count + 1]
        return Batch(self._ops.mix(images, keep, boxes)[:count], *given, *others, further, second)

    def _version(self, draws: Draws, chosen: np.ndarray) -> Any:
        """These images, augmented as `draws` decides, and normalised."""
        first, rest = self._stages
        plan = first.plan(draws, self._rows[chosen], self._images.shape[1:])
        images = self._images
        if not self._in_memory:
            images, plan = self._ops.put(images[plan.indices]), replace(plan, indices=None)
        images = self._ops.move(images, plan)
        for stage in rest:
            images = stage.run(self._ops, images, draws, self.preprocess.interpolation)
        images = self._finish(images)
        side = self.preprocess.size
        for cover, prefix in self._covers:
            covered = cover.boxes(replace(draws, prefix=prefix), side, side)
            images = self._ops.cover(images, covered)
        return images

    def _put(self, values: np.ndarray | None, start: int, count: int) -> Any:
        return None if values is None else self._ops.put(values[start : start + count])

    def _epoch_order(self, epoch: int) -> np.ndarray:
        """Places in `indices`, in the order of this epoch; kept, because sorting takes a while."""
        if self._order[0] != epoch:
            count = len(self.indices)
            order = permutation(count, self.seed, epoch) if self.shuffle else np.arange(count)
            self._order = (epoch, order)
        return self._order[1]
