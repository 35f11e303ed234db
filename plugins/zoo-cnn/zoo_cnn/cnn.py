"""A plain convolutional classifier: blocks that halve the image, then a hidden layer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


def block(in_channels: int, channels: int, kernel_size: int, batch_norm: bool) -> nn.Sequential:
    """Convolution, batch norm, ReLU, and a pool that halves both sides."""
    return nn.Sequential(
        nn.Conv2d(in_channels, channels, kernel_size, padding=kernel_size // 2),
        nn.BatchNorm2d(channels) if batch_norm else nn.Identity(),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


class CNN(nn.Module):
    """One block for each number of channels; 32, 64, 128 leave 4 x 4 of a 32 x 32 image."""

    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 32,
        channels: Sequence[int] = (32, 64, 128),
        kernel_size: int = 3,
        hidden: int = 512,
        dropout: float = 0.5,
        batch_norm: bool = True,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        if not channels:
            raise ValueError("channels needs at least one number, of a block each")
        *channels, hidden = (round(scale * width) for width in (*channels, hidden))
        if min(*channels, hidden) < 1:
            raise ValueError(f"scale {scale:g} leaves a layer with nothing in it")
        side = image_size >> len(channels)
        if side < 1:
            raise ValueError(
                f"{len(channels)} blocks halve the image {len(channels)} times, "
                f"and {image_size} pixels are too few for that"
            )
        if kernel_size % 2 == 0:
            raise ValueError(
                f"kernel_size must be odd to keep the image centred, not {kernel_size}"
            )
        widths = (in_channels, *channels)
        self.features = nn.Sequential(
            *(block(a, b, kernel_size, batch_norm) for a, b in zip(widths, channels, strict=False))
        )
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(widths[-1] * side * side, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, num_classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        maps = self.features(images)  # (B, C, H, W) -> (B, 128, H / 8, W / 8)
        return self.head(maps)  # (B, num_classes)
