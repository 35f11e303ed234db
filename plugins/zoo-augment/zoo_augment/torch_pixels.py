"""Changes to the pixels of a batch of tensors, on the device of the model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from zoo_augment.pixels import Pixels


class TorchPixels(Pixels):
    xp = torch

    def __init__(self, put: Callable[[np.ndarray], Tensor]) -> None:
        self._put = put

    def put(self, array: np.ndarray) -> Tensor:
        return self._put(array)

    def get(self, values: Tensor) -> np.ndarray:
        return values.cpu().numpy()

    def nearest(self, images: Tensor, matrices: np.ndarray) -> Tensor:
        count, height, width, channels = images.shape
        x, y = self._sources(images, matrices)
        column, row = (x + 0.5).floor_().long(), (y + 0.5).floor_().long()
        outside = (column < 0) | (column >= width) | (row < 0) | (row >= height)
        source = row * width + column + self.put(np.arange(count) * height * width)[:, None, None]
        pixels = images.reshape(-1, channels)[source.masked_fill_(outside, 0)]
        return pixels.masked_fill_(outside[..., None], 0)

    def _on_planes(self, images: Tensor, change: Callable[[Tensor, slice], Tensor]) -> Tensor:
        form = torch.contiguous_format
        source = images.permute(0, 3, 1, 2).to(torch.float32, copy=True, memory_format=form)
        planes = change(source, slice(None)).clamp_(0, 255)
        planes = planes.round_().byte() if images.dtype == torch.uint8 else planes
        return planes.permute(0, 2, 3, 1)

    def _parts(self, images: Tensor) -> list[slice]:
        return [slice(None)]
