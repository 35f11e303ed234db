"""What the loader does to whole batches of images, in NumPy; zoo_core.torch.ops has it in torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo_core.io.errors import OptionError
from zoo_core.io.targets import resolve

LUMA = (0.299, 0.587, 0.114)  # of red, green and blue in grey: ITU-R 601, as in Pillow
BLOCK = 100_000  # values to work on at a time: as floats they fit into a core's cache


@dataclass(frozen=True)
class MovePlan:
    """Which images to take, how many of them to mirror, how to pad, and what to cut out then."""

    indices: np.ndarray | None  # int64 (B,), those that are mirrored first; None: all, as they are
    flips: int = 0  # how many are mirrored
    pad: int = 0  # pixels added on all sides
    reflect: bool = False  # fill them with the mirrored image; otherwise they are black
    starts: np.ndarray | None = None  # int64 (B,), where each result starts in the padded images


def open_ops(backend: str, device: Any = "cpu", channels_last: bool = False) -> Ops:
    """The Ops of a backend; only "torch" imports torch."""
    if backend == "numpy":
        return Ops(channels_last)
    if backend != "torch":
        raise OptionError(f"backend must be torch or numpy, not {backend!r}")
    ops: Ops = resolve("zoo_core.torch.ops:open_torch_ops", "the loader")(device, channels_last)
    return ops


class Ops:
    """What is done to whole batches, in NumPy. Images are (B, h, w, c), values 0 to 255.

    An augmentation may use `xp`, `put`, `warp` and `resize`; the rest is for the loader.
    """

    xp: Any = np  # numpy or torch: what both have can be written once

    def __init__(self, channels_last: bool = False) -> None:
        self.channels_last = channels_last

    def place(self, images: np.ndarray, indices: np.ndarray) -> tuple[Any, np.ndarray]:
        """The images where this framework can reach them, and where `indices` are in there."""
        return images, indices

    def put(self, array: np.ndarray) -> Any:
        """A small array, brought beside the images."""
        return array

    def move(self, images: Any, plan: MovePlan) -> Any:
        """Take images out of many, mirror some, shift each by whole pixels."""
        batch = images if plan.indices is None else images.take(plan.indices, axis=0)
        if plan.flips:
            # With whole pixels as items this is twice as quick as with three values each.
            pixels = batch.view(f"V{batch.shape[3] * batch.itemsize}")
            pixels[: plan.flips] = pixels[: plan.flips, :, ::-1]
        if plan.starts is None:
            return batch
        count, height, width, channels = batch.shape
        pad = plan.pad
        if pad:
            inner, size = batch, (count, height + 2 * pad, width + 2 * pad, channels)
            batch = np.zeros(size, batch.dtype)
            batch[:, pad:-pad, pad:-pad] = inner
            if plan.reflect:
                batch[:, :, :pad] = batch[:, :, 2 * pad : pad : -1]
                batch[:, :, -pad:] = batch[:, :, -pad - 2 : -2 * pad - 2 : -1]
                batch[:, :pad] = batch[:, 2 * pad : pad : -1]
                batch[:, -pad:] = batch[:, -pad - 2 : -2 * pad - 2 : -1]
        # Every place where an image could start has a window, all in the same memory; taking
        # windows copies whole rows, which are items here, and no pixel is looked at.
        item = batch.itemsize
        row, pitch = width * channels, (width + 2 * pad) * channels
        windows: np.ndarray = np.ndarray(
            (batch.size - (height - 1) * pitch - row + 1, height),
            f"V{row * item}",
            batch,
            strides=(item, pitch * item),
        )
        return windows[plan.starts].view(batch.dtype).reshape(count, height, width, channels)

    def zoom(self, images: Any, boxes: np.ndarray, flips: np.ndarray, size: int) -> Any:
        """Bring a box of each image (left, top, width, height) to a size, and mirror some.

        Bilinear, smoothed where that is smaller. Bytes stay bytes, and are computed in whole
        numbers, exactly as torch does that on the CPU: the same everywhere.
        """
        planes, whole = [], images.dtype == self.xp.uint8
        for image, box, flip in zip(images, boxes.tolist(), flips, strict=True):
            left, top, width, height = box
            part = self.xp.moveaxis(image[top : top + height, left : left + width], 2, 0)
            for axis, side in ((2, width), (1, height)):
                weights, bits = zoom_weights(side, size, whole)
                # As floats, for the sake of speed; they hold all of the whole numbers exactly.
                part = self.xp.asarray(part, dtype=getattr(self.xp, weights.dtype.name))
                own = self.put(weights)
                part = part @ own.T if axis == 2 else own @ part
                if whole:
                    part = self.xp.floor(part * 2.0**-bits + 0.5).clip(0, 255)
            part = self.xp.asarray(part, dtype=images.dtype)
            planes.append(self.xp.flip(part, (2,)) if flip else part)
        return self.xp.moveaxis(self.xp.stack(planes), 1, 3)

    def warp(self, images: Any, matrices: np.ndarray) -> Any:
        """Sample each image along an affine map, bilinearly; black outside.

        Matrices go from pixels of the result to pixels of the image: float32 (B, 2, 3).
        """
        count, height, width, channels = images.shape
        size = (height, width)
        x, y = self._sources(matrices, size)
        left, top = np.floor(x), np.floor(y)
        pixels = images.reshape(-1, channels)
        first = (np.arange(count) * height * width)[:, None, None]
        result = np.zeros((count, *size, channels), np.float32)
        for row, y_weight in ((top, 1 - (y - top)), (top + 1, y - top)):
            for column, x_weight in ((left, 1 - (x - left)), (left + 1, x - left)):
                inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
                source = first + np.where(inside, row * width + column, 0).astype(np.int64)
                weight = np.where(inside, y_weight * x_weight, np.float32(0))
                result += pixels[source] * weight[..., None]
        return result

    def _sources(self, matrices: np.ndarray, size: tuple[int, int]) -> list[Any]:
        """Where each pixel of the results comes from: x and y, (B, H, W)."""
        y = self.put(np.arange(size[0], dtype=np.float32)[:, None])
        x = self.put(np.arange(size[1], dtype=np.float32))
        m = self.put(matrices)[..., None, None]  # (B, 2, 3, 1, 1)
        return [m[:, i, 0] * x + m[:, i, 1] * y + m[:, i, 2] for i in (0, 1)]

    def resize(self, images: Any, size: tuple[int, int], interpolation: str) -> Any:
        """All images in another size, smoothed where that is smaller."""
        _, height, width, _ = images.shape
        planes = images.transpose(0, 3, 1, 2).astype(np.float32, order="C")  # (B, c, h, w)
        # One product for each image and channel, so that a batch of any size rounds the same.
        planes = planes @ resize_weights(width, size[1], interpolation).T
        planes = resize_weights(height, size[0], interpolation) @ planes
        return planes.clip(0, 255).transpose(0, 2, 3, 1)

    def recolour(self, images: Any, channels: int) -> Any:
        """Grey images from coloured ones, or the other way round."""
        if channels == 3:
            return np.broadcast_to(images, (*images.shape[:3], 3))
        weighted = images * np.array(LUMA, np.float32)
        return (weighted[..., 0] + weighted[..., 1] + weighted[..., 2])[..., None]

    def normaliser(self, scale: np.ndarray, bias: np.ndarray, size: int) -> Callable[[Any], Any]:
        """images * scale + bias by channel, as float32 (B, c, h, w). The rest works on these."""
        # One number for each value of an image: the inner loop is then as long as the image.
        spread = np.tile if self.channels_last else np.repeat
        scale, bias = spread(scale, size * size), spread(bias, size * size)
        block = max(1, BLOCK // len(scale))

        def normalise(images: np.ndarray) -> np.ndarray:
            source = images if self.channels_last else images.transpose(0, 3, 1, 2)
            planes = np.empty(source.shape, np.float32)
            for start in range(0, len(planes), block):
                part = planes[start : start + block]
                # Bytes are brought into order before they become floats, while they are small.
                part[...] = np.ascontiguousarray(source[start : start + block])
                flat = part.reshape(-1, len(scale))
                # Two steps on purpose: fused, the last bit could depend on the place in the batch.
                flat *= scale
                flat += bias
            return planes.transpose(0, 3, 1, 2) if self.channels_last else planes

        return normalise

    def cover(self, images: Any, boxes: np.ndarray) -> Any:
        """Set a box of each image to 0, in place."""
        np.copyto(images, np.float32(0), where=self._inside(boxes, images))
        return images

    def mix(self, images: Any, keep: np.ndarray, boxes: np.ndarray | None) -> Any:
        """All images but the last, each with what it does not keep from the one after it."""
        first, second = images[:-1], images[1:]
        share = keep[:, None, None, None]
        if boxes is not None:
            share = np.where(self._inside(boxes, first), np.float32(0), share)
        return first * share + second * (1 - share)

    def _inside(self, boxes: np.ndarray, images: Any) -> Any:
        height, width = images.shape[2:]
        top, bottom, left, right = boxes.T[:, :, None]
        y, x = np.arange(height), np.arange(width)
        rows, columns = (y >= top) & (y < bottom), (x >= left) & (x < right)
        return rows[:, None, :, None] & columns[:, None, None, :]  # (B, 1, h, w)


@functools.lru_cache(maxsize=64)
def zoom_weights(source: int, target: int, whole: bool) -> tuple[np.ndarray, int]:
    """Bilinear weights, and in units of 2 to the minus what: whole numbers of at most 15 bits."""
    weights, bits = _weights(source, target, "bilinear"), 0
    if not whole:
        return weights.astype(np.float32), 0
    while bits < 22 and int(weights.max() * 2 ** (bits + 1) + 0.5) < 1 << 15:
        bits += 1
    exact = np.float32 if 256 << bits <= 1 << 24 else np.float64  # of all sums of bytes
    return np.floor(weights * 2**bits + 0.5).astype(exact), bits


@functools.lru_cache(maxsize=16)
def resize_weights(source: int, target: int, interpolation: str) -> np.ndarray:
    """How much of each source pixel each target pixel is: float32 (target, source)."""
    return _weights(source, target, interpolation).astype(np.float32)


def _weights(source: int, target: int, interpolation: str) -> np.ndarray:
    """How much of each source pixel each target pixel is, with a filter as wide as the step."""
    step = source / target
    centres = (np.arange(target)[:, None] + 0.5) * step
    distance = np.abs(np.arange(source) + 0.5 - centres) / max(step, 1.0)
    if interpolation == "bicubic":  # Keys' kernel with a = -1/2, as Pillow and torch have it
        near = (1.5 * distance - 2.5) * distance**2 + 1
        far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
        weights = np.where(distance < 1, near, np.where(distance < 2, far, 0))
    else:
        weights = np.maximum(1 - distance, 0)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights  # (target, source)
