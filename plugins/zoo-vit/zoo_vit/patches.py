"""From an image to a row of tokens."""

from __future__ import annotations

from math import isqrt

from torch import Tensor

MOST = 16_384  # every token looks at all: attention to more would take gigabytes


def patches_of(image_size: int, patch_size: int) -> int:
    """How many patches an image has; a ValueError where the patches do not fill it."""
    if patch_size < 1:
        raise ValueError(f"patch_size must be at least 1, not {patch_size}")
    if image_size % patch_size:
        raise ValueError(
            f"patches of {patch_size} pixels do not fill an image of {image_size}; "
            f"try {closest_divisor(image_size, patch_size)}"
        )
    patches = (image_size // patch_size) ** 2
    if patches > MOST:
        raise ValueError(
            f"patches of {patch_size} pixels cut an image of {image_size} into {patches:,}; "
            f"at most {MOST:,} are allowed"
        )
    return patches


def closest_divisor(image_size: int, patch_size: int) -> int:
    small = [size for size in range(1, isqrt(image_size) + 1) if image_size % size == 0]
    divisors = [*small, *(image_size // size for size in reversed(small))]
    return min(divisors, key=lambda size: abs(size - patch_size))


def cut(images: Tensor, patch_size: int) -> Tensor:
    """Row by row: (B, C, H, W) -> (B, patches, C * patch_size * patch_size).

    A linear layer on these is the convolution with stride `patch_size` of the papers.
    """
    b, c, h, w = images.shape
    rows = images.reshape(b, c, h // patch_size, patch_size, w // patch_size, patch_size)
    return rows.permute(0, 2, 4, 1, 3, 5).reshape(b, -1, c * patch_size * patch_size)
