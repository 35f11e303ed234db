"""The activations that an option can name."""

from __future__ import annotations

from torch import nn

ACTIVATIONS = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU}


def make_activation(name: str) -> nn.Module:
    if name not in ACTIVATIONS:
        raise ValueError(f"activation must be {' or '.join(ACTIVATIONS)}, not {name!r}")
    return ACTIVATIONS[name]()


def side_after(image_size: int, *steps: tuple[int, int]) -> int:
    """The side that is left of an image after (pixels that a convolution cuts off, pool) steps."""
    side = image_size
    for cut, pool in steps:
        side = (side - cut) // pool
    if side < 1:
        raise ValueError(f"{image_size} pixels are too few for the convolutions and pools")
    return side
