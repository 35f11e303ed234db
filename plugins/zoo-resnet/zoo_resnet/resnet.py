"""A residual network of basic blocks: stem, stages that halve the image, average, head.

The parts have the names that torchvision and timm give them, so that their weights fit.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, added to the input. Where the shape changes, a shortcut changes it."""

    def __init__(self, in_channels: int, channels: int, stride: int, shortcut: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or in_channels != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(
                    in_channels, channels, shortcut, stride, padding=shortcut // 2,
                    bias=shortcut > 1,
                ),
                nn.BatchNorm2d(channels),
            )  # fmt: skip

    def forward(self, maps: Tensor) -> Tensor:
        change = self.relu(self.bn1(self.conv1(maps)))
        change = self.bn2(self.conv2(change))
        return self.relu(change + self.downsample(maps))


class ResNet(nn.Module):
    """`depths` blocks of `channels` channels in each stage; (2, 2, 2, 2) is ResNet-18."""

    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 32,
        channels: Sequence[int] = (64, 128, 256, 512),
        depths: Sequence[int] = (2, 2, 2, 2),
        stem: str = "small",
        shortcut: int = 1,
    ) -> None:
        super().__init__()
        if len(channels) != len(depths) or not channels:
            raise ValueError(f"channels {channels} and depths {depths} must be of the same length")
        if shortcut % 2 == 0:
            raise ValueError(f"shortcut must be an odd kernel size, not {shortcut}")
        # Padding keeps at least one pixel whatever image_size is, and the average takes any size.
        self.conv1, self.maxpool = make_stem(stem, in_channels, channels[0])
        self.bn1 = nn.BatchNorm2d(channels[0])
        self.relu = nn.ReLU(inplace=True)
        self.stages = len(channels)
        before = channels[0]
        for number, (width, depth) in enumerate(zip(channels, depths, strict=True), 1):
            strides = [1 if number == 1 else 2] + [1] * (depth - 1)
            blocks = []
            for stride in strides:
                blocks.append(BasicBlock(before, width, stride, shortcut))
                before = width
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
        self.fc = nn.Linear(before, num_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d) and not layer.weight.is_meta:  # a sketch has no values
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        maps = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for number in range(1, self.stages + 1):
            maps = self.get_submodule(f"layer{number}")(maps)
        return self.fc(maps.mean((2, 3)))  # (B, C, H, W) -> (B, num_classes)


def make_stem(kind: str, in_channels: int, channels: int) -> tuple[nn.Conv2d, nn.Module]:
    """The first convolution and the pool after it."""
    if kind == "small":  # keeps every pixel
        return nn.Conv2d(in_channels, channels, 3, padding=1, bias=False), nn.Identity()
    if kind == "pooled":  # looks at neighbours, and keeps the size
        return nn.Conv2d(in_channels, channels, 3, padding=1), nn.MaxPool2d(3, 1, padding=1)
    if kind == "imagenet":  # a quarter of the size
        stem = nn.Conv2d(in_channels, channels, 7, stride=2, padding=3, bias=False)
        return stem, nn.MaxPool2d(3, 2, padding=1)
    raise ValueError(f"stem must be small, pooled or imagenet, not {kind!r}")
