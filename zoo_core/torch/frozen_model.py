"""A frozen model: a backbone that is never trained, and a head that is."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

HEADS = ("linear", "mlp")
AT_ONCE = 16  # pictures; they may be large


class FrozenModel(nn.Module):
    """Pictures to features to scores. A plugin's model subclasses it, or makes one in a function.

        class MyFrozen(zoo.FrozenModel):
            def __init__(self, *, in_channels, image_size, backbone_weights, **head):
                super().__init__(MyNet(in_channels), 512, name="my_net 1", layer="last", **head)

    backbone: a module that turns pictures into `width` features, (B, width). name: which arithmetic
    that is; another number behind it makes the cache forget what an older version computed. layer,
    pooling: what the features are, in words. The weights come later, see docs/frozen.md.
    """

    def __init__(
        self,
        backbone: nn.Module,
        width: int,
        *,
        name: str,
        layer: str,
        pooling: str = "average",
        num_classes: int = 10,
        head: str = "linear",
        hidden: int = 512,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if head not in HEADS:
            raise ValueError(f"head must be {' or '.join(HEADS)}, not {head!r}")
        self.name, self.layer, self.pooling, self.width = name, layer, pooling, width
        self.backbone = backbone.requires_grad_(False).eval()
        last = nn.Linear(hidden if head == "mlp" else width, num_classes)
        first = [nn.Linear(width, hidden), nn.ReLU()] if head == "mlp" else []
        self.head = nn.Sequential(*first, nn.Dropout(dropout), last)

    def features(self, images: Tensor) -> Tensor:
        features: Tensor = self.backbone(images)
        return features

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(images))
        return scores

    def train(self, mode: bool = True) -> FrozenModel:
        """The backbone stays as it is: its batch norms have learned all they will."""
        super().train(mode)
        self.backbone.eval()
        return self


@torch.inference_mode()
def features_of(model: FrozenModel, images: Tensor) -> np.ndarray:
    """The `features` capability of every frozen model: (B, width), a few pictures at a time."""
    parameter = next(model.parameters())
    given = images.to(parameter.device, parameter.dtype)
    parts = [model.eval().features(part) for part in torch.split(given, AT_ONCE)]
    return torch.cat(parts).float().cpu().numpy()
