"""Changes to the pixels of a batch, in NumPy; torch_pixels.py has them for tensors on a device.

Images are (B, h, w, c), values 0 to 255. Tables, matrices and factors are small NumPy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import zoo

BLOCK = 100_000  # values to work on at a time: as floats they fit into a core's cache


def on_pixels(ops: zoo.Ops, images: Any, act: Callable[[Pixels, Any], Any]) -> Any:
    """What `act(pixels, images)` makes of the images, with the Pixels for where they are."""
    if ops.xp is np:
        return act(Pixels(), images)
    if images.device.type == "cpu":
        # The same memory: torch would share small steps between threads that wait for one another.
        return ops.put(act(Pixels(), images.numpy()))
    from zoo_augment.torch_pixels import TorchPixels

    return act(TorchPixels(ops.put), images)


class Pixels:
    xp: Any = np  # the framework: what both have is written once

    def put(self, array: np.ndarray) -> Any:
        """A small array, beside the images."""
        return array

    def get(self, values: Any) -> np.ndarray:
        """A small array of this framework, in NumPy."""
        return np.asarray(values)

    def lookup(self, images: Any, tables: np.ndarray) -> Any:
        """Replace each value by what a table has for it: uint8 (B, c, 256)."""
        result = self.xp.empty_like(images, dtype=self.xp.uint8)
        for part in self._parts(images):
            table = self.put(tables[part].reshape(-1))
            result[part] = table.take(self._places(images[part])).reshape(images[part].shape)
        return result

    def histogram(self, images: Any) -> np.ndarray:
        """How often each value occurs in each channel: a NumPy array, int64 (B, c, 256)."""
        found = np.zeros((images.shape[0], images.shape[3], 256), np.int64)
        for part in self._parts(images):
            places = self._places(images[part]).reshape(-1)
            counts = self.xp.bincount(places, minlength=found[part].size)
            found[part] = self.get(counts).reshape(found[part].shape)
        return found

    def means(self, images: Any) -> np.ndarray:
        """The mean of each channel: a NumPy array, float64 (B, c)."""
        count, height, width, channels = images.shape
        rows = images.reshape(count, height, -1).sum(1).reshape(count, width, channels)
        return self.get(rows.sum(1)) / float(height * width)

    def colour(self, images: Any, matrices: np.ndarray) -> Any:
        """Multiply each pixel by a matrix, float32 (B, c, c + 1), whose last column is added."""
        m = self.put(matrices)[..., None, None]  # (B, c, c + 1, 1, 1)

        def change(planes: Any, part: slice) -> Any:
            result = m[part, :, 0] * planes[:, :1]
            for channel in range(1, planes.shape[1]):
                result += m[part, :, channel] * planes[:, channel : channel + 1]
            result += m[part, :, -1]
            return result

        return self._on_planes(images, change)

    def sharpen(self, images: Any, factors: np.ndarray) -> Any:
        """0 smooths each pixel with its eight neighbours, 1 changes nothing, more sharpens."""
        factor = self.put(factors)[:, None, None, None]

        def change(planes: Any, part: slice) -> Any:
            rows = planes[:, :, :-2] + planes[:, :, 1:-1] + planes[:, :, 2:]
            inner = planes[:, :, 1:-1, 1:-1]
            smooth = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * inner
            smooth *= 1 / 13
            planes[:, :, 1:-1, 1:-1] = smooth + factor[part] * (inner - smooth)
            return planes

        return self._on_planes(images, change)

    def nearest(self, images: Any, matrices: np.ndarray) -> Any:
        """Move whole pixels along an affine map, each from the nearest one; black outside.

        Matrices go from pixels of the result to pixels of the image: float32 (B, 2, 3).
        """
        count, height, width, channels = images.shape
        x, y = self._sources(images, matrices)
        column, row = (np.floor(v + np.float32(0.5)).astype(np.int32) for v in (x, y))
        # Below 0 is far above as an unsigned number: one comparison for both ends.
        inside = (column.view(np.uint32) < width) & (row.view(np.uint32) < height)
        first = (np.arange(count) * height * width)[:, None, None]
        source = np.where(inside, row * width + column + first, count * height * width)
        pixels = np.zeros(count * height * width + 1, f"V{channels * images.itemsize}")
        pixels[:-1].view(images.dtype)[:] = images.reshape(-1)  # and one that is black
        return pixels.take(source).view(images.dtype).reshape(images.shape)

    def _sources(self, images: Any, matrices: np.ndarray) -> list[Any]:
        """Where each pixel of the results comes from: x and y, (B, h, w)."""
        y = self.put(np.arange(images.shape[1], dtype=np.float32)[:, None])
        x = self.put(np.arange(images.shape[2], dtype=np.float32))
        m = self.put(matrices)[..., None, None]  # (B, 2, 3, 1, 1)
        return [m[:, i, 0] * x + m[:, i, 1] * y + m[:, i, 2] for i in (0, 1)]

    def _places(self, images: Any) -> Any:
        """Where each value stands in a table of (B, c, 256): int64 (B, h, w * c)."""
        count, height, width, channels = images.shape
        # As long as a row of the image, not as a pixel: the inner loop is then long enough.
        first = np.tile(np.arange(count * channels).reshape(count, 1, channels) * 256, width)
        if images.dtype != self.xp.uint8:
            images = self.xp.asarray(self.xp.round(images.clip(0, 255)), dtype=self.xp.uint8)
        return images.reshape(count, height, -1) + self.put(first)

    def _on_planes(self, images: Any, change: Callable[[Any, slice], Any]) -> Any:
        """What becomes of float32 planes (b, c, h, w) of the images, rounded where those are bytes.

        In parts: what is as large as a batch of floats comes from the system anew each time.
        """
        source = images.transpose(0, 3, 1, 2)
        result = np.empty(source.shape, images.dtype)
        for part in self._parts(images):
            planes = change(np.ascontiguousarray(source[part]).astype(np.float32), part)
            np.clip(planes, 0, 255, out=planes)
            result[part] = np.rint(planes, out=planes) if images.dtype == np.uint8 else planes
        return result.transpose(0, 2, 3, 1)

    def _parts(self, images: Any) -> list[slice]:
        step = max(1, BLOCK // math.prod(images.shape[1:]))
        return [slice(start, start + step) for start in range(0, len(images), step)]
