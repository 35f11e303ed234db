"""An epoch of lenet_numpy, with its convolution in Python loops instead, and in torch: the ratios.

    python benchmarks/numpy_framework.py [--images 1000] [--repeats 5]

The images are random numbers of MNIST's shape: what they show does not change the time. All
train with the published recipe (SGD 0.1, momentum 0.9, weight decay 5e-4, batch 100) on one thread,
unless OMP_NUM_THREADS says otherwise, in turns, in one process; the best epoch of each counts.

The original reported 300 s an epoch (120,000 images with the augmented ones) for "convolution in
Python loops", without saying which. So there are two: over output channels and pixels, which is
nearest to those 300 s and the one that the 8x is asked of, and over pixels alone with a matrix
product at each, the best that loops can do. All but the convolution is the same code in each.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy and torch read it

import numpy as np
from zoo_numpy import Tensor, nn, optim
from zoo_numpy.networks import LeNet
from zoo_numpy.tensor import Array, node

from zoo_core.io.process import keep_freed_memory

BATCH = 100
RECIPE: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
Epoch = Callable[[Array, Array], None]


class LoopConv2d(nn.Conv2d):
    """The convolution as it is written first: one output pixel of one channel at a time."""

    def forward(self, x: Tensor) -> Tensor:
        weight, bias, (p, _) = self.weight, self.bias, nn.pair(self.padding)
        assert bias is not None
        padded = np.pad(x.data, ((0, 0), (0, 0), (p, p), (p, p)))
        channels, _, k, _ = weight.shape
        size = padded.shape[2] - k + 1
        out = np.zeros((len(padded), channels, size, size), dtype=x.dtype)
        for o, i, j in np.ndindex(channels, size, size):
            window = padded[:, :, i : i + k, j : j + k]
            out[:, o, i, j] = (window * weight.data[o]).sum(axis=(1, 2, 3)) + bias.data[o]

        def to_x(g: Array) -> Array:
            grad = np.zeros_like(padded)
            for o, i, j in np.ndindex(channels, size, size):
                grad[:, :, i : i + k, j : j + k] += g[:, o, i, j, None, None, None] * weight.data[o]
            return grad[:, :, p : p + x.shape[2], p : p + x.shape[3]]

        def to_weight(g: Array) -> Array:
            grad = np.zeros_like(weight.data)
            for o, i, j in np.ndindex(channels, size, size):
                window = padded[:, :, i : i + k, j : j + k]
                grad[o] += (window * g[:, o, i, j, None, None, None]).sum(axis=0)
            return grad

        inputs = (x, to_x), (weight, to_weight), (bias, lambda g: g.sum(axis=(0, 2, 3)))
        return node(out, *inputs)


class PixelLoopConv2d(nn.Conv2d):
    """The best of loops: all channels of one output pixel at a time, as a small matrix product."""

    def forward(self, x: Tensor) -> Tensor:
        weight, bias, (p, _) = self.weight, self.bias, nn.pair(self.padding)
        assert bias is not None
        padded = np.pad(x.data, ((0, 0), (0, 0), (p, p), (p, p)))
        channels, _, k, _ = weight.shape
        batch, size = len(padded), padded.shape[2] - k + 1
        rows = weight.data.reshape(channels, -1)  # (O, C * K * K)
        out = np.zeros((batch, channels, size, size), dtype=x.dtype)
        for i, j in np.ndindex(size, size):
            window = padded[:, :, i : i + k, j : j + k].reshape(batch, -1)
            out[:, :, i, j] = window @ rows.T + bias.data

        def to_x(g: Array) -> Array:
            grad = np.zeros_like(padded)
            for i, j in np.ndindex(size, size):
                grad[:, :, i : i + k, j : j + k] += (g[:, :, i, j] @ rows).reshape(batch, -1, k, k)
            return grad[:, :, p : p + x.shape[2], p : p + x.shape[3]]

        def to_weight(g: Array) -> Array:
            grad = np.zeros_like(rows)
            for i, j in np.ndindex(size, size):
                window = padded[:, :, i : i + k, j : j + k].reshape(batch, -1)
                grad += g[:, :, i, j].T @ window
            return grad.reshape(weight.shape)

        inputs = (x, to_x), (weight, to_weight), (bias, lambda g: g.sum(axis=(0, 2, 3)))
        return node(out, *inputs)


def numpy_epoch(model: LeNet) -> Epoch:
    optimizer, loss = optim.SGD(model.parameters(), **RECIPE), nn.CrossEntropyLoss()

    def epoch(images: Array, labels: Array) -> None:
        for start in range(0, len(images), BATCH):
            optimizer.zero_grad()
            batch = slice(start, start + BATCH)
            loss(model(Tensor(images[batch])), labels[batch]).backward()
            optimizer.step()

    return epoch


def with_loops(model: LeNet, convolution: type[nn.Conv2d]) -> LeNet:
    """The same network with the same weights and a slow convolution."""
    slow = LeNet()
    slow.conv1, slow.conv2 = convolution(1, 6, 5, padding=2), convolution(6, 16, 5)
    slow.load_state_dict(model.state_dict())
    return slow


def torch_epoch() -> Epoch:
    import torch
    from torch import nn as tnn

    class TorchLeNet(tnn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.bn1 = tnn.Conv2d(1, 6, 5, padding=2), tnn.BatchNorm2d(6)
            self.conv2, self.bn2 = tnn.Conv2d(6, 16, 5), tnn.BatchNorm2d(16)
            self.pool = tnn.AvgPool2d(2)
            self.fc1, self.fc2 = tnn.Linear(400, 120), tnn.Linear(120, 84)
            self.fc3 = tnn.Linear(84, 10)

        forward = LeNet.forward  # one forward serves both frameworks

    model = TorchLeNet()
    optimizer, loss = torch.optim.SGD(model.parameters(), **RECIPE), tnn.CrossEntropyLoss()

    def epoch(images: Array, labels: Array) -> None:
        for start in range(0, len(images), BATCH):
            optimizer.zero_grad()
            batch = slice(start, start + BATCH)
            loss(model(torch.from_numpy(images[batch])), torch.from_numpy(labels[batch])).backward()
            optimizer.step()

    return epoch


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--images", type=int, default=1000, help="images in the timed epoch")
    parser.add_argument("--repeats", type=int, default=5, help="epochs of each, the best counts")
    options = parser.parse_args()
    keep_freed_memory()  # as in a training; of all of them, torch included
    rng = np.random.default_rng(0)
    images = rng.standard_normal((options.images, 1, 28, 28), dtype=np.float32)
    labels = rng.integers(0, 10, options.images)

    fast = LeNet(generator=rng)
    models = {
        "zoo_numpy": fast,
        "loops": with_loops(fast, LoopConv2d),
        "pixel loops": with_loops(fast, PixelLoopConv2d),
    }
    epochs = {name: numpy_epoch(model) for name, model in models.items()}
    epochs["torch"] = torch_epoch()
    best = dict.fromkeys(epochs, float("inf"))
    for epoch in epochs.values():
        epoch(images[:BATCH], labels[:BATCH])  # warm up
    for model in models.values():  # one step was the same step, or the ratios would mean nothing
        for name, value in model.state_dict().items():
            np.testing.assert_allclose(value, fast.state_dict()[name], rtol=1e-3, atol=1e-4)
    for _ in range(options.repeats):  # in turns, so that a busy moment hits all of them
        for name, epoch in epochs.items():
            start = time.perf_counter()
            epoch(images, labels)
            best[name] = min(best[name], time.perf_counter() - start)

    print(f"lenet, batch {BATCH}, {options.images} images, best of {options.repeats} epochs")
    for name, seconds in best.items():
        full = seconds / options.images * 120_000
        print(f"{name:12} {seconds:7.2f} s   {full:6.0f} s for 120,000 images")
    print(f"loops / zoo_numpy:       {best['loops'] / best['zoo_numpy']:.1f}x (8x is asked)")
    print(f"pixel loops / zoo_numpy: {best['pixel loops'] / best['zoo_numpy']:.1f}x")
    print(f"zoo_numpy / torch:       {best['zoo_numpy'] / best['torch']:.2f}x")


if __name__ == "__main__":
    main()
