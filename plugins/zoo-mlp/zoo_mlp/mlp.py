"""A multi-layer perceptron: the image as one long vector, through a few linear layers."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class MLP(nn.Module):
    """3072-512-256-10 with ReLU between, for a 32 x 32 colour image."""

    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 32,
        hidden: Sequence[int] = (512, 256),
        dropout: float = 0.0,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        hidden = [round(scale * width) for width in hidden]
        if any(width < 1 for width in hidden):
            raise ValueError(f"hidden layers have at least 1 unit, not {min(hidden)}")
        layers: list[nn.Module] = [nn.Flatten()]
        width = in_channels * image_size * image_size
        for next_width in hidden:
            layers += [nn.Linear(width, next_width), nn.ReLU()]
            if dropout:
                layers.append(nn.Dropout(dropout))
            width = next_width
        layers.append(nn.Linear(width, num_classes))
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)  # (B, C, H, W) -> (B, num_classes)
