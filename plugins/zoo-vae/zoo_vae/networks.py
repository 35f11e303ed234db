"""The encoder and the decoder that the autoencoders here share."""

from __future__ import annotations

from torch import Tensor, nn

CHANNELS = (64, 128, 256)
HALVINGS = len(CHANNELS)
# What the last layer gives, and with it the pixels that the model is trained on: lowest, highest.
RANGES = {"sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0)}


def side_of(image_size: int, halvings: int = HALVINGS) -> int:
    """The side of the smallest map."""
    if image_size % 2**halvings:
        raise ValueError(
            f"image_size must be a multiple of {2**halvings}, not {image_size}: the image is "
            f"halved {halvings} times"
        )
    return image_size >> halvings


def down(in_channels: int, channels: int) -> nn.Sequential:
    """Convolution, batch norm, ReLU, and a pool that halves both sides."""
    return nn.Sequential(
        nn.Conv2d(in_channels, channels, 3, padding=1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


def up(in_channels: int, channels: int) -> nn.Sequential:
    """A transposed convolution that doubles both sides, batch norm, ReLU."""
    return nn.Sequential(
        nn.ConvTranspose2d(in_channels, channels, 4, 2, 1), nn.BatchNorm2d(channels), nn.ReLU()
    )


class Encoder(nn.Sequential):
    """(B, in_channels, H, W) -> (B, 256 * H / 8 * W / 8)"""

    def __init__(self, in_channels: int) -> None:
        widths = (in_channels, *CHANNELS)
        super().__init__(
            *(down(a, b) for a, b in zip(widths, CHANNELS, strict=False)), nn.Flatten()
        )


class ToPicture(nn.Sequential):
    """The last doubling: to the channels and the range of an image."""

    def __init__(self, in_channels: int, channels: int, output: str) -> None:
        if output not in RANGES:
            raise ValueError(f"output must be one of {', '.join(RANGES)}, not {output!r}")
        super().__init__(
            nn.ConvTranspose2d(in_channels, channels, 4, 2, 1),
            nn.Sigmoid() if output == "sigmoid" else nn.Tanh(),
        )
        low, high = RANGES[output]
        self.span = high - low


class Decoder(nn.Sequential):
    """(B, code) -> (B, channels, H, W)"""

    def __init__(self, code: int, channels: int, side: int, output: str) -> None:
        a, b, c = CHANNELS
        super().__init__(
            nn.Linear(code, c * side * side),
            nn.Unflatten(1, (c, side, side)),
            up(c, b),
            up(b, a),
            ToPicture(a, channels, output),
        )

    @property
    def span(self) -> float:
        """Highest minus lowest value of a pixel."""
        last = self[-1]
        assert isinstance(last, ToPicture)
        return last.span


def one_hot(labels: Tensor, classes: int) -> Tensor:
    return nn.functional.one_hot(labels, classes).float()  # (B, classes)
