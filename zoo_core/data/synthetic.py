"""Coloured shapes: a small dataset that needs no network and is the same on every machine.

All arithmetic is on whole numbers and all randomness is PCG64's raw output, which never changes.
Place, size, turn and colours say nothing about the class: a network has to look at the form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from zoo_core.spec.answers import CLASS, NONE, NUMBERS, WORDS
from zoo_core.spec.answers import CLASSES as SEVERAL
from zoo_core.spec.recipe import Rule, between, check_rules, one_of

FINER = 3  # samples along each side of a pixel: soft edges
BLOCK = 100  # images drawn at once
# Which points (a, b) are inside, the centre being (0, 0); some shapes are parts of others.
SHAPES: dict[str, Callable[[Any, Any], Any]] = {
    "circle": lambda a, b: a * a + b * b < 940**2,
    "square": lambda a, b: np.maximum(abs(a), abs(b)) < 820,
    "triangle": lambda a, b: (b < 760) & (16 * abs(a) < 9 * (b + 960)),
    "plus": lambda a, b: (np.minimum(abs(a), abs(b)) < 270) & (np.maximum(abs(a), abs(b)) < 960),
    "cross": lambda a, b: SHAPES["plus"]((a + b) * 5 // 7, (a - b) * 5 // 7),
    "ring": lambda a, b: SHAPES["circle"](a, b) & (a * a + b * b > 560**2),
    "frame": lambda a, b: SHAPES["square"](a, b) & (np.maximum(abs(a), abs(b)) > 480),
    "diamond": lambda a, b: 3 * abs(a) + 2 * abs(b) < 2040,
    "moon": lambda a, b: SHAPES["circle"](a, b) & ((a - 480) ** 2 + b * b > 760**2),
    "stripes": lambda a, b: SHAPES["square"](a, b) & ((b + 820) // 328 % 2 == 0),
}
CLASSES = tuple(SHAPES)
RULES = {
    "classes": between(2, len(CLASSES)),
    "image_size": between(8, 256),
    "channels": Rule(lambda v: type(v) is int and v in (1, 3), "1 or 3"),
    "train_size": between(1, 100_000),
    "test_size": between(1, 100_000),
    "seed": between(0, 2**63),
    "labels": one_of(*WORDS),
}
NUMBERED = {"x": "pixels", "y": "pixels", "radius": "pixels"}  # of the shape


def synthetic(
    *,
    classes: int = 10,
    image_size: int = 32,
    channels: int = 3,
    train_size: int = 2000,
    test_size: int = 500,
    seed: int = 0,
    labels: str | None = CLASS,
) -> dict[str, Any]:
    """The target of the dataset entry `synthetic`.

    labels: the form (class), the form and whether it is darker than the ground (classes), where it
    is and how large (numbers), or none; the images are the same.
    """
    labels = labels or NONE  # `--set data.labels=none` is Python's None
    check_rules("synthetic", locals(), RULES)
    arrays: dict[str, Any] = {"classes": CLASSES[:classes]}
    if labels == SEVERAL:
        arrays["classes"] += ("dark",)
    if labels == NUMBERS:
        arrays["numbers"] = NUMBERED
    for part, count, stream in (("train", train_size, 0), ("test", test_size, 1)):
        bits = np.random.PCG64([seed, stream])
        # Whole blocks are drawn and then cut, so that fewer images are the first of many.
        forms = np.arange(-(-count // BLOCK) * BLOCK, dtype=np.int64) % classes
        blocks = [_draw(block, image_size, bits) for block in forms.reshape(-1, BLOCK)]
        images, places, dark = (
            np.concatenate(drawn)[:count] for drawn in zip(*blocks, strict=True)
        )
        forms = forms[:count]
        known = {
            CLASS: forms,
            SEVERAL: np.column_stack([np.eye(classes, dtype=np.uint8)[forms], dark]),
            NUMBERS: places.astype(np.float32) * np.float32(image_size / 2048),
            NONE: None,
        }
        if channels == 1:  # in the proportions of human sight
            images = ((images * np.array([77, 150, 29])).sum(-1, keepdims=True) >> 8).astype("u1")
        arrays |= {f"{part}_images": images, f"{part}_labels": known[labels]}
    return arrays


def _draw(
    labels: np.ndarray, size: int, bits: np.random.PCG64
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One shape an image: uint8 (n, size, size, 3); x, y, radius in parts of 2048 of an image
    (n, 3); whether the shape is darker than its ground (n,)."""
    count = len(labels)

    def below(bound: int, *shape: int) -> np.ndarray:
        raw = bits.random_raw((count, *shape))
        return ((raw >> np.uint64(32)) * np.uint64(bound) >> np.uint64(32)).astype(np.int64)

    # Where the shape is, in parts of 1024 of half an image; how large; how far it is turned.
    x, y = below(401) - 200, below(401) - 200
    radius = 480 + below(260)
    turns = [math.radians(degrees) for degrees in range(-15, 16)]
    table = [[round(4096 * math.cos(t)), round(4096 * math.sin(t))] for t in turns]
    cos, sin = np.array(table)[below(31)].T
    # A dark and a light colour; which of them is the ground is left to chance.
    dark, light = below(120, 3), 135 + below(121, 3)
    swap = below(2).astype(bool)[:, None]
    ink, ground = np.where(swap, dark, light), np.where(swap, light, dark)
    shade = below(2 * 40 + 1, 3) - 40  # the ground changes from top to bottom

    # A shape has coordinates a and b of its own, turned and scaled: in them its radius is 1024.
    fine = size * FINER
    line = ((2 * np.arange(fine) + 1) * 1024) // fine - 1024
    u = (line - x[:, None]).astype(np.int32)[:, None, :]
    v = (line - y[:, None]).astype(np.int32)[:, :, None]
    cos, sin = np.array([256 * cos // radius, 256 * sin // radius], np.int32)[..., None, None]
    a = (u * cos + v * sin) >> 10
    b = (v * cos - u * sin) >> 10
    inside = np.empty(a.shape, np.uint8)
    for label in np.unique(labels):
        chosen = labels == label
        inside[chosen] = SHAPES[CLASSES[label]](a[chosen], b[chosen])
    rows = reduce(np.add, [inside[:, part::FINER] for part in range(FINER)])
    cover = reduce(np.add, [rows[..., part::FINER] for part in range(FINER)])  # 0..9

    slope = (shade[:, None, :] * (2 * np.arange(size) - size)[None, :, None]) // (2 * size)
    ground = (ground[:, None, :] + slope)[:, :, None, :]  # (n, size, 1, 3)
    # In 16 bits, which hold all of it: most of the time goes into these arrays.
    ground, ink = ground.astype(np.int16), ink.astype(np.int16)[:, None, None, :]
    drawn = ground + (ink - ground) * cover[..., None].astype(np.int16) // FINER**2
    noise = bits.random_raw((count, size, size)).astype("<u8")  # of 8 bytes, 6 are used
    noise = noise.view(np.uint8).reshape(count, size, size, 8)[..., :6].astype(np.int16)
    grain = (noise[..., :3] + noise[..., 3:] - 255) >> 4
    places = np.column_stack([x + 1024, y + 1024, radius])
    return np.asarray(np.clip(drawn + grain, 0, 255), np.uint8), places, swap[:, 0]
