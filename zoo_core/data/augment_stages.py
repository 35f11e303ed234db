"""Running augmentation words: which share a pass over the pixels, and what is mixed with what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo_core.data.augment import Affine, Augmentation, Crop, CutMix, Flip, Resize, ResizedCrop
from zoo_core.data.augment_ops import MovePlan, Ops
from zoo_core.data.draws import Draws
from zoo_core.errors import OptionError


@dataclass(frozen=True)
class Move:
    """A flip and a crop or shift that stand side by side: one pass over the pixels does both."""

    flip: bool = False
    slide: Crop | None = None

    def plan(self, draws: Draws, indices: np.ndarray, shape: tuple[int, int, int]) -> MovePlan:
        if not self.flip and self.slide is None:
            return MovePlan(indices)
        height, width, channels = shape
        pad = self.slide.pixels if self.slide else 0
        if pad >= min(height, width):
            raise OptionError(
                f"augment: {pad} pixels to move by are too many for {width} x {height} pictures"
            )
        # Pictures to be mirrored are taken first, so that they lie together. Each result is cut out
        # by where it starts in any case, and that brings everything back to its place.
        flips, places = 0, np.arange(len(indices))
        if self.flip:
            flip = draws.coins("flip")
            flips = int(np.count_nonzero(flip))
            order = np.argsort(~flip, kind="stable")
            indices = indices[order]
            places[order] = np.arange(len(indices))
        starts = places * ((height + 2 * pad) * (width + 2 * pad))
        if self.slide:
            starts += draws.integers(f"{self.slide.name}.y", 0, 2 * pad) * (width + 2 * pad)
            starts += draws.integers(f"{self.slide.name}.x", 0, 2 * pad)
        reflect = self.slide is not None and self.slide.reflect
        return MovePlan(indices, flips, pad, reflect, starts * channels)


Stage = Move | Affine | ResizedCrop | Resize


def stages(words: Sequence[Augmentation]) -> tuple[Stage, ...]:
    """The words that move pixels, as written; the first stage also takes the pictures."""
    result: list[Stage] = [Move()]
    for word in words:
        last = result[-1]
        # Mirroring before or after a shift makes no difference to what can come out.
        if isinstance(word, Flip):
            if isinstance(last, Move) and not last.flip:
                result[-1] = Move(True, last.slide)
            else:
                result.append(Move(flip=True))
        elif isinstance(word, Crop):
            if isinstance(last, Move) and last.slide is None:
                result[-1] = Move(last.flip, word)
            else:
                result.append(Move(slide=word))
        elif isinstance(word, Affine | ResizedCrop | Resize):
            result.append(word)
    return tuple(result)


def run_stages(
    ops: Ops,
    images: Any,
    indices: np.ndarray,
    draws: Draws,
    todo: Sequence[Stage],
    interpolation: str,
) -> Any:
    """The pictures `indices` out of `images`, taken through all stages."""
    for stage in todo:
        height, width, channels = images.shape[1:]
        if isinstance(stage, Move):
            images = ops.move(images, stage.plan(draws, indices, (height, width, channels)))
            indices = np.arange(len(indices))  # a second Move finds them in order
        elif isinstance(stage, Resize):
            images = ops.resize(images, (stage.size, stage.size), interpolation)
        else:
            clamp = isinstance(stage, ResizedCrop)
            size = (stage.size, stage.size) if isinstance(stage, ResizedCrop) else (height, width)
            images = ops.warp(images, stage.matrices(draws, height, width), size, clamp)
    return images


@dataclass(frozen=True)
class Mixing:
    """How much of each picture stays: nothing of what is in its box, a share of the rest."""

    weight: np.ndarray  # float32 (B,), what is left of the picture, and so of its label
    keep: np.ndarray  # float32 (B,), the share outside the box
    boxes: np.ndarray | None  # int64 (B, 4): top, bottom, left, right


def mixing(draws: Draws, mixup: float, cutmix: CutMix | None, height: int, width: int) -> Mixing:
    """MixUp, CutMix, or for each picture one of the two, by a coin."""
    ones = np.ones(len(draws.positions))
    keep = draws.beta("mixup", mixup) if mixup else ones
    if cutmix is None:
        keep = keep.astype(np.float32)
        return Mixing(keep, keep, None)
    boxes = cutmix.boxes(draws, height, width)
    if mixup:
        coins = draws.coins("mixup or cutmix")
        keep = np.where(coins, keep, ones)
        boxes[coins] = 0
    area = (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])
    weight = keep * (1 - area / (height * width))
    return Mixing(weight.astype(np.float32), keep.astype(np.float32), boxes)
