"""The convolutions that generators and discriminators here share."""

from __future__ import annotations

from itertools import pairwise

from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

SMALLEST = 4  # pixels of the first map of a generator and the last one of a discriminator


def widths_of(image_size: int, width: int) -> tuple[int, ...]:
    """Channels of the maps of a discriminator, twice as many whenever the sides are halved."""
    halvings = (image_size // SMALLEST).bit_length() - 1
    if halvings < 1 or SMALLEST << halvings != image_size:
        raise ValueError(f"image_size must be 8, 16, 32, 64 or so, not {image_size}")
    return tuple(width << number for number in range(halvings))


class Generator(nn.Sequential):
    """(B, code) -> (B, channels, H, W), from -1 to 1"""

    def __init__(self, code: int, channels: int, image_size: int, width: int) -> None:
        widths = widths_of(image_size, width)[::-1]
        first = widths[0]
        layers: list[nn.Module] = [
            nn.Linear(code, first * SMALLEST**2, bias=False),
            nn.Unflatten(1, (first, SMALLEST, SMALLEST)),
            nn.BatchNorm2d(first),
            nn.ReLU(),
        ]
        for before, after in pairwise(widths):
            layers += [
                nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(),
            ]
        super().__init__(*layers, nn.ConvTranspose2d(widths[-1], channels, 4, 2, 1), nn.Tanh())
        start(self)


class Trunk(nn.Sequential):
    """What a discriminator sees in an image: (B, channels, H, W) -> (B, features)

    There is no batch norm: it would tell images and samples apart by their batch.
    """

    def __init__(self, channels: int, image_size: int, width: int, spectral: bool) -> None:
        widths = (channels, *widths_of(image_size, width))
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 4, 2, 1), nn.LeakyReLU(0.2)]
        super().__init__(*layers, nn.Flatten())
        self.features = widths[-1] * SMALLEST**2
        start(self)
        if spectral:
            limit(self)


def start(layers: nn.Module) -> None:
    """Weights as DC-GAN starts them: small enough that neither side is ahead."""
    for layer in layers.modules():
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            nn.init.normal_(layer.weight, 0.0, 0.02)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.weight, 1.0, 0.02)


def limit(layers: nn.Module) -> None:
    """Spectral norm: no layer stretches any direction, so that gradients keep their size."""
    for layer in layers.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            spectral_norm(layer)
