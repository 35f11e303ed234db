"""Batches of images in torch, on the device of the model; the draws come over as small arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from zoo_core.data.ops import LUMA, MovePlan, Ops


def open_torch_ops(device: torch.device | str, channels_last: bool) -> TorchOps:
    kind = CpuOps if torch.device(device).type == "cpu" else TorchOps
    return kind(device, channels_last)


class TorchOps(Ops):
    xp = torch

    def __init__(self, device: torch.device | str, channels_last: bool = False) -> None:
        super().__init__(channels_last)
        self.device = torch.device(device)

    def place(self, images: np.ndarray, indices: np.ndarray) -> tuple[Tensor, np.ndarray]:
        # Only what is asked for is copied: training and validation together are not twice the data.
        return torch.from_numpy(images[indices]).to(self.device), np.arange(len(indices))

    def put(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array)
        if self.device.type == "cuda":
            tensor = tensor.pin_memory()  # so that the copy does not wait for the device
        return tensor.to(self.device, non_blocking=True)

    def move(self, images: Tensor, plan: MovePlan) -> Tensor:
        batch = images
        if plan.indices is not None:
            batch = images.index_select(0, self.put(plan.indices))
        if plan.flips:
            batch[: plan.flips] = batch[: plan.flips].flip(2)
        if plan.starts is None:
            return batch
        count, height, width, channels = batch.shape
        pad, row = plan.pad, width * channels
        pitch = row + 2 * pad * channels
        padded = batch.view(count, height, row)
        if pad:
            padded = F.pad(padded, (pad * channels, pad * channels, pad, pad))
            if plan.reflect:  # F.pad does not do that to bytes
                inner = padded.view(count, height + 2 * pad, -1, channels)
                inner[:, :, :pad] = inner[:, :, pad + 1 : 2 * pad + 1].flip(2)
                inner[:, :, -pad:] = inner[:, :, -2 * pad - 1 : -pad - 1].flip(2)
                inner[:, :pad] = inner[:, pad + 1 : 2 * pad + 1].flip(1)
                inner[:, -pad:] = inner[:, -2 * pad - 1 : -pad - 1].flip(1)
        # Every place where an image could start has a window, all in the same memory; selecting
        # windows copies whole rows, 40 times quicker than an index for each pixel.
        last = padded.numel() - (height - 1) * pitch - row
        windows = padded.as_strided((last + 1, height, row), (1, pitch, 1))
        return windows.index_select(0, self.put(plan.starts)).view(batch.shape)

    def warp(self, images: Tensor, matrices: np.ndarray) -> Tensor:
        height, width = images.shape[1:3]
        # Written out: affine_grid multiplies matrices, which may round by the size of the batch.
        from_x, from_y = self._sources(matrices, (height, width))
        # grid_sample counts from -1 to 1, edge to edge.
        grid = torch.stack(
            ((from_x * 2 + 1) / width - 1, (from_y * 2 + 1) / height - 1), dim=-1
        )  # (B, H, W, 2)
        planes = F.grid_sample(self._planes(images), grid, align_corners=False)
        return planes.permute(0, 2, 3, 1)

    def resize(self, images: Tensor, size: tuple[int, int], interpolation: str) -> Tensor:
        planes = F.interpolate(self._planes(images), size, mode=interpolation, antialias=True)
        return planes.clamp_(0, 255).permute(0, 2, 3, 1)

    def recolour(self, images: Tensor, channels: int) -> Tensor:
        if channels == 3:
            return images.expand(-1, -1, -1, 3)
        weighted = images * self.put(np.array(LUMA, np.float32))
        grey = weighted[..., 0] + weighted[..., 1] + weighted[..., 2]
        return grey[..., None]

    def normaliser(
        self, scale: np.ndarray, bias: np.ndarray, size: int
    ) -> Callable[[Tensor], Tensor]:
        scales, biases = self.put(scale)[:, None, None], self.put(bias)[:, None, None]
        form = torch.channels_last if self.channels_last else torch.contiguous_format

        def normalise(images: Tensor) -> Tensor:
            planes = images.permute(0, 3, 1, 2)
            if images.dtype == torch.uint8:  # brought into order while they are small
                planes = planes.contiguous(memory_format=form).float()
            # What was resized has its colours apart: there, arithmetic is three times as fast.
            return (planes * scales).add_(biases).contiguous(memory_format=form)

        return normalise

    def cover(self, images: Tensor, boxes: np.ndarray) -> Tensor:
        return images.masked_fill_(self._inside(boxes, images), 0)

    def mix(self, images: Tensor, keep: np.ndarray, boxes: np.ndarray | None) -> Tensor:
        first, second = images[:-1], images[1:]
        share = self.put(keep)[:, None, None, None]
        if boxes is not None:
            share = share.masked_fill(self._inside(boxes, first), 0)
        return first * share + second * (1 - share)

    def _planes(self, images: Tensor) -> Tensor:
        """float32 (B, c, h, w), contiguous."""
        return images.permute(0, 3, 1, 2).contiguous().float()

    def _inside(self, boxes: np.ndarray, images: Tensor) -> Tensor:
        y = torch.arange(images.shape[2], device=self.device)
        x = torch.arange(images.shape[3], device=self.device)
        top, bottom, left, right = self.put(boxes).T[:, :, None]
        rows, columns = (y >= top) & (y < bottom), (x >= left) & (x < right)
        inside: Tensor = rows[:, None, :, None] & columns[:, None, None, :]
        return inside  # (B, 1, h, w)


def in_numpy(name: str) -> Callable[..., Tensor]:
    act = getattr(Ops, name)
    return lambda self, images, *given: torch.from_numpy(act(self.numpy, images.numpy(), *given))


class CpuOps(TorchOps):
    """On the CPU tensors and arrays are the same memory, and NumPy does what is mere copying.

    torch would share each of these small steps between threads that wait for one another: no gain
    on a quiet machine that is worth being ten times slower on a busy one.
    """

    def __init__(self, device: torch.device | str, channels_last: bool = False) -> None:
        super().__init__(device, channels_last)
        self.numpy = Ops(channels_last)

    def place(self, images: np.ndarray, indices: np.ndarray) -> tuple[Tensor, np.ndarray]:
        with warnings.catch_warnings():
            # The array may be a read-only map of a file; nothing here writes to it.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(images), indices

    def put(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array)

    def normaliser(
        self, scale: np.ndarray, bias: np.ndarray, size: int
    ) -> Callable[[Tensor], Tensor]:
        of_bytes = self.numpy.normaliser(scale, bias, size)
        of_floats = super().normaliser(scale, bias, size)

        return lambda images: (
            torch.from_numpy(of_bytes(images.numpy()))
            if images.dtype == torch.uint8
            else of_floats(images)
        )

    def zoom(self, images: Tensor, boxes: np.ndarray, flips: np.ndarray, size: int) -> Tensor:
        if images.dtype != torch.uint8:
            zoomed: Tensor = super().zoom(images, boxes, flips, size)
            return zoomed
        planes = torch.empty(len(images), images.shape[3], size, size, dtype=torch.uint8)
        for image, made, box, flip in zip(images, planes, boxes.tolist(), flips, strict=True):
            left, top, width, height = box
            part = image[top : top + height, left : left + width].permute(2, 0, 1)[None]
            part = F.interpolate(part, (size, size), mode="bilinear", antialias=True)[0]
            made.copy_(part.flip(2) if flip else part)
        return planes.permute(0, 2, 3, 1)

    move, cover, mix = in_numpy("move"), in_numpy("cover"), in_numpy("mix")
