"""The networks: fcn_numpy, linear layers with ReLU between them, and lenet_numpy, LeNet-5."""

import math
from collections.abc import Sequence
from itertools import pairwise

from zoo_numpy import nn
from zoo_numpy.nn import Pair, Rng, pair
from zoo_numpy.tensor import Tensor


class FCN(nn.Module):
    def __init__(
        self,
        *,
        in_channels: int = 1,
        image_size: Pair = 28,
        hidden: Sequence[int] = (128, 64),
        num_classes: int = 10,
        generator: Rng = None,
    ) -> None:
        widths = [in_channels * math.prod(pair(image_size)), *hidden, num_classes]
        if min(widths) < 1:
            raise ValueError(f"an FCN of widths {widths} is impossible: each must be at least 1")
        layers: list[nn.Module] = [nn.Flatten()]
        for inputs, outputs in pairwise(widths):
            layers += [nn.Linear(inputs, outputs, generator=generator), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])  # no ReLU after the logits

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # (B, C, H, W) to (B, num_classes)


class LeNet(nn.Module):
    """Two convolutions with batch norm and average pooling, then three linear layers."""

    def __init__(
        self,
        *,
        in_channels: int = 1,
        image_size: Pair = 28,
        num_classes: int = 10,
        batch_norm: bool = True,
        generator: Rng = None,
    ) -> None:
        height, width = pair(image_size)
        if min(height, width) < 12 or min(in_channels, num_classes) < 1:
            asked = f"{in_channels} channels of {height}x{width} and {num_classes} classes"
            raise ValueError(f"LeNet needs a channel, 12x12 pixels and a class, not {asked}")
        # The first convolution keeps the size, the second takes 4 away, each pooling halves it.
        features = 16 * ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)
        self.conv1 = nn.Conv2d(in_channels, 6, 5, padding=2, generator=generator)
        self.bn1 = nn.BatchNorm2d(6) if batch_norm else nn.Sequential()  # which changes nothing
        self.conv2 = nn.Conv2d(6, 16, 5, generator=generator)
        self.bn2 = nn.BatchNorm2d(16) if batch_norm else nn.Sequential()
        self.pool = nn.AvgPool2d(2)
        self.fc1 = nn.Linear(features, 120, generator=generator)
        self.fc2 = nn.Linear(120, 84, generator=generator)
        self.fc3 = nn.Linear(84, num_classes, generator=generator)

    def forward(self, x: Tensor) -> Tensor:  # (B, C, 28, 28)
        x = self.pool(self.bn1(self.conv1(x)).relu())  # (B, 6, 14, 14)
        x = self.pool(self.bn2(self.conv2(x)).relu())  # (B, 16, 5, 5)
        x = self.fc1(x.flatten(1)).relu()  # (B, 120)
        x = self.fc2(x).relu()  # (B, 84)
        return self.fc3(x)  # (B, num_classes)
