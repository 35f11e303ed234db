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
    # The same body at 16 bits, with a head for two classes, in a package without a licence: read
    # where that is installed, never fetched or shipped. The statistics of bn1 are those of other
    # pixels, and training replaces them; a frozen network could not use them.
    stand_in=zoo.Pretrained(
        name="the body of resnet18, ImageNet, at 16 bits (fire-detector 1.0.3)",
        package="fire_detector",
        inside="models/fire_resnet18_fp16.pth",
        release="fire-detector==1.0.3",
        sha256="787d8fd29567b07e7a5bedb4259affff710ae200cdeb63748eb9fbc8a3ec5c00",
    ),
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
