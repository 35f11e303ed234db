"""ResNet-18 up to the average over the last map: 512 features of an image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn
from zoo_resnet.finetune import IMAGENET as RESNET18
from zoo_resnet.resnet import ResNet

import zoo

IMAGENET = replace(RESNET18, option="backbone_weights", stand_in=None)


def features(
    *,
    in_channels: int = 3,
    image_size: int = 224,
    channels: Sequence[int] = (64, 128, 256, 512),
    backbone_weights: str = "",
    **head: Any,
) -> zoo.FrozenModel:
    """Any size of image will do: the average takes it."""
    backbone = ResNet(
        in_channels=in_channels, image_size=image_size, channels=channels, stem="imagenet"
    )
    backbone.fc = nn.Identity()  # type: ignore[assignment]
    return zoo.FrozenModel(
        backbone, channels[-1], name="resnet 1", layer="layer4", pooling="average", **head
    )


def imagenet_tensors(
    config: Mapping[str, Any], say: Callable[[str], None]
) -> dict[str, np.ndarray]:
    return zoo.pretrained_tensors(IMAGENET, config["backbone_weights"], say)
