"""ResNet-18 that starts from ImageNet weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import zoo
from zoo_resnet.resnet import ResNet

IMAGENET = zoo.Pretrained(
    name="resnet18, ImageNet (torchvision's IMAGENET1K_V1)",
    url="https://download.pytorch.org/models/resnet18-f37072fd.pth",
    sha256="f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec",
)


def resnet18(*, weights: str = "", **options: Any) -> ResNet:
    """The network alone. `weights` says where training starts, and building needs no file."""
    return ResNet(**options)


def imagenet_tensors(
    config: Mapping[str, Any], say: Callable[[str], None]
) -> dict[str, np.ndarray]:
    """What training starts from. The head is new, and so is a stem of another size."""
    tensors = zoo.pretrained_tensors(IMAGENET, config["weights"], say)
    return {name: array for name, array in tensors.items() if not name.startswith("fc.")}
