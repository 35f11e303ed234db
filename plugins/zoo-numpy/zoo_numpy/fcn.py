"""fcn_numpy: linear layers with ReLU between them, 784-128-64-10 for MNIST."""

import math
from collections.abc import Sequence
from itertools import pairwise

from numpy.random import Generator, default_rng

from zoo_numpy import nn
from zoo_numpy.nn import Pair, pair
from zoo_numpy.tensor import Tensor


class FCN(nn.Module):
    def __init__(
        self,
        *,
        in_channels: int = 1,
        image_size: Pair = 28,
        hidden: Sequence[int] = (128, 64),
        num_classes: int = 10,
        generator: Generator | None = None,
    ) -> None:
        rng = generator or default_rng()
        widths = [in_channels * math.prod(pair(image_size)), *hidden, num_classes]
        if min(widths) < 1:
            raise ValueError(f"an FCN of widths {widths} is impossible: each must be at least 1")
        layers: list[nn.Module] = [nn.Flatten()]
        for inputs, outputs in pairwise(widths):
            layers += [nn.Linear(inputs, outputs, generator=rng), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])  # no ReLU after the logits

    def forward(self, x: Tensor) -> Tensor:
        return self.layers.forward(x)  # (B, C, H, W) to (B, num_classes)
