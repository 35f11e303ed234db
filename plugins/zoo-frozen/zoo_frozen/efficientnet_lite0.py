"""EfficientNet-Lite0 up to the average over the last map: 1,280 features of an image.

The parts have the names that timm gives them, and pad as TensorFlow does, so that weights that were
trained there fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

import zoo

EPS = 1e-3
# Of each stage: kernel, stride, expansion, channels, blocks.
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
STEM, WIDTH = 32, 1280


class SameConv2d(nn.Conv2d):
    """A convolution whose result has 1 / stride of the size, rounded up; what is odd goes right."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1
    ) -> None:
        # Without a stride both sides are padded alike, and the convolution does it by itself.
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        if self.stride != (1, 1):
            (kernel, _), (stride, _) = self.kernel_size, self.stride
            edges: list[int] = []
            for size in (maps.shape[3], maps.shape[2]):
                lack = max(0, (-(-size // stride) - 1) * stride + kernel - size)
                edges += [lack // 2, lack - lack // 2]
            maps = F.pad(maps, edges)
        return super().forward(maps)


class Block(nn.Module):
    """Widen, look at neighbours, narrow; added to the input where the shape allows it."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.added = stride == 1 and inputs == outputs
        self.act = nn.ReLU6(inplace=True)
        self.widens = expansion > 1
        if self.widens:
            self.conv_pw = nn.Conv2d(inputs, inner, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(inner, EPS)
            self.conv_dw = SameConv2d(inner, inner, kernel, stride, groups=inner)
            self.bn2 = nn.BatchNorm2d(inner, EPS)
            self.conv_pwl = nn.Conv2d(inner, outputs, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(outputs, EPS)
        else:
            self.conv_dw = SameConv2d(inner, inner, kernel, stride, groups=inner)
            self.bn1 = nn.BatchNorm2d(inner, EPS)
            self.conv_pw = nn.Conv2d(inner, outputs, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs, EPS)

    def forward(self, maps: Tensor) -> Tensor:
        if self.widens:
            change = self.act(self.bn1(self.conv_pw(maps)))
            change = self.act(self.bn2(self.conv_dw(change)))
            change = self.bn3(self.conv_pwl(change))
        else:
            change = self.act(self.bn1(self.conv_dw(maps)))
            change = self.bn2(self.conv_pw(change))
        return maps + change if self.added else change


class EfficientNetLite0(nn.Module):
    """Images (B, 3, h, w) to features (B, 1280)."""

    def __init__(self, *, in_channels: int = 3) -> None:
        super().__init__()
        self.conv_stem = SameConv2d(in_channels, STEM, 3, 2)
        self.bn1 = nn.BatchNorm2d(STEM, EPS)
        self.act = nn.ReLU6(inplace=True)
        self.blocks = nn.Sequential()
        before = STEM
        for kernel, stride, expansion, channels, count in STAGES:
            stage = nn.Sequential()
            for number in range(count):
                first = number == 0
                stage.append(Block(before, channels, kernel, stride if first else 1, expansion))
                before = channels
            self.blocks.append(stage)
        self.conv_head = nn.Conv2d(before, WIDTH, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(WIDTH, EPS)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.blocks(self.act(self.bn1(self.conv_stem(images))))
        maps = self.act(self.bn2(self.conv_head(maps)))  # (B, 1280, h / 32, w / 32)
        return maps.mean((2, 3))


# ---------------------------------------------------------------- the model of the zoo

IMAGENET = zoo.Pretrained(
    name="EfficientNet-Lite0, ImageNet",
    package="zoo_efficientnet_lite0_weights",
    inside="efficientnet_lite0.safetensors",
    sha256="641a988bb298218421fbb803aa7e0368488e9b100f087f67296d3df14a3be604",
    option="backbone_weights",
)


def finetune(
    *, in_channels: int = 3, image_size: int = 224, backbone_weights: str = "", **head: Any
) -> zoo.FrozenModel:
    """Any size of image will do: the average takes it."""
    backbone = EfficientNetLite0(in_channels=in_channels)
    return zoo.FrozenModel(
        backbone, WIDTH, name="efficientnet_lite0 1", layer="conv_head", pooling="average", **head
    )


def imagenet_tensors(
    config: Mapping[str, Any], say: Callable[[str], None]
) -> dict[str, np.ndarray]:
    return zoo.pretrained_tensors(IMAGENET, config["backbone_weights"], say)
