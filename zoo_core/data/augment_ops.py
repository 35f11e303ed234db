"""What a framework must be able to do to a batch of pictures, so that the loader can use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from zoo_core.errors import OptionError
from zoo_core.targets import resolve

LUMA = (0.299, 0.587, 0.114)  # of red, green and blue in grey: ITU-R 601, as in Pillow


@dataclass(frozen=True)
class MovePlan:
    """Which pictures to take, how many of them to mirror, how to pad, and what to cut out then."""

    indices: np.ndarray  # int64 (B,), those that are mirrored first
    flips: int = 0  # how many are mirrored
    pad: int = 0  # pixels added on all sides
    reflect: bool = False  # fill them with the mirrored picture; otherwise they are black
    starts: np.ndarray | None = None  # int64 (B,), where each result starts in the padded pictures


class Ops(Protocol):
    """What one framework does to whole batches. Pictures are (B, h, w, c), values 0 to 255."""

    def place(self, images: np.ndarray, indices: np.ndarray) -> tuple[Any, np.ndarray]:
        """The pictures where this framework can reach them, and where `indices` are in there."""

    def put(self, array: np.ndarray) -> Any:
        """A small array, beside the pictures."""

    def move(self, images: Any, plan: MovePlan) -> Any:
        """Take pictures out of many, mirror some, shift each by whole pixels."""

    def warp(self, images: Any, matrices: np.ndarray, size: tuple[int, int], clamp: bool) -> Any:
        """Sample each picture along an affine map, bilinearly; black, or clamped, outside."""

    def resize(self, images: Any, size: tuple[int, int], interpolation: str) -> Any:
        """All pictures in another size, smoothed where that is smaller."""

    def recolour(self, images: Any, channels: int) -> Any:
        """Grey pictures from coloured ones, or the other way round."""

    def normaliser(self, scale: np.ndarray, bias: np.ndarray, size: int) -> Callable[[Any], Any]:
        """images * scale + bias by channel, as float32 (B, c, h, w). The rest works on these."""

    def cover(self, images: Any, boxes: np.ndarray) -> Any:
        """Set a box of each picture to 0."""

    def mix(self, images: Any, keep: np.ndarray, boxes: np.ndarray | None) -> Any:
        """All pictures but the last, each with what it does not keep from the one after it."""


def open_ops(backend: str, device: Any = "cpu", channels_last: bool = False) -> Ops:
    """The Ops of a backend; only "torch" imports torch."""
    if backend == "numpy":
        from zoo_core.data.augment_numpy import NumpyOps

        return NumpyOps(channels_last)
    if backend == "torch":
        open_torch = resolve("zoo_core.data.augment_torch:open_torch_ops", "the torch loader")
        ops: Ops = open_torch(device, channels_last)
        return ops
    raise OptionError(f"backend must be torch or numpy, not {backend!r}")
