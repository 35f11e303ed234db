"""The words: colour jitter, and policies that choose among many changes.

A change that maps values to values is a table for each image, one that mixes channels a matrix, one
that moves pixels an affine map: all images that call for one of these are done together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

import zoo
from zoo_augment.pixels import Pixels, on_pixels

CHANGES = (
    "identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "saturation",
    "sharpness", "brightness", "posterize", "solarize", "contrast", "autocontrast", "equalize",
)  # fmt: skip
MOVES, TABLES = CHANGES[1:6], CHANGES[8:]  # each sort stands together
COUNTED = CHANGES[11:]  # these depend on the values of the image
LEVELS = 30  # the strongest level: of 31, as in both papers
VALUES = np.arange(256)
LUMA = (0.299, 0.587, 0.114)  # of red, green and blue in grey: ITU-R 601, as in Pillow


class Word(zoo.Augmentation):
    """An augmentation that changes pixels in the same way in NumPy and in torch."""

    word: ClassVar[str]

    def run(self, ops: zoo.Ops, images: Any, draws: zoo.Draws) -> Any:
        # Drawn by the word alone: recipes from before these words had a plugin of their own make
        # the same images.
        own = replace(draws, prefix=f"{self.word}.")
        return on_pixels(ops, images, lambda pixels, images: self.change(pixels, images, own))

    def change(self, pixels: Pixels, images: Any, draws: zoo.Draws) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Jitter(Word):
    """Change brightness, contrast and saturation by a share up to the strength, turn the hue."""

    word = "jitter"
    strength: float = field(metadata={"limits": (0, 1)})
    # Of the circle of colours, each way.
    hue: float = field(default=0.0, metadata={"limits": (0, 0.5)})

    def change(self, pixels: Pixels, images: Any, draws: zoo.Draws) -> Any:
        low, high = 1 - self.strength, 1 + self.strength
        bright, contrast, colour = (
            draws.uniform(name, low, high) for name in ("brightness", "contrast", "saturation")
        )
        turn = 2 * np.pi * draws.uniform("hue", -self.hue, self.hue)
        matrices = _matrices(pixels.means(images), bright, contrast, colour, turn)
        return pixels.colour(images, matrices)


def _matrices(means: np.ndarray, *changes: np.ndarray | float) -> np.ndarray:
    """Brightness, contrast, saturation and a turn of the hue as one matrix: (B, c, c + 1)."""
    count, channels = means.shape
    luma, linear = _luma(channels), np.eye(channels)
    bright, contrast, colour, turn = (np.broadcast_to(v, count)[:, None, None] for v in changes)
    if channels == 3:
        linear = colour * linear + (1 - colour) * luma
        # A rotation about the grey axis: a third of a turn brings red to green to blue.
        across = np.array(((0, -1, 1), (1, 0, -1), (-1, 1, 0)))
        cosine, sine = np.cos(turn), np.sin(turn)
        linear = (cosine * np.eye(3) + (1 - cosine) / 3 + sine / np.sqrt(3) * across) @ linear
    # What contrast adds is grey, which saturation and hue leave as it is.
    grey = (means * luma).sum(axis=1)[:, None, None]
    added = np.broadcast_to((1 - contrast) * bright * grey, (count, channels, 1))
    return np.concatenate((bright * contrast * linear, added), axis=2).astype(np.float32)


def _luma(channels: int) -> np.ndarray:
    return np.array(LUMA if channels == 3 else (1 / channels,) * channels)


@dataclass(frozen=True)
class Reach:
    """How far each change goes at the strongest level."""

    shear: float
    move: float  # pixels, or a share of the side if below 1
    rotate: float  # degrees
    factor: float  # how far from 1, of brightness, contrast, saturation and sharpness
    bits: int  # that posterize takes away

    def apply(
        self, pixels: Pixels, images: Any, change: np.ndarray, level: np.ndarray, minus: np.ndarray
    ) -> Any:
        """Change each image: which of CHANGES, by what share of the reach, in which direction."""
        signed = np.where(minus, -level, level)
        factor = 1 + self.factor * signed
        _, height, width, channels = images.shape

        def act(names: tuple[str, ...], done: Callable[[Any, np.ndarray], Any]) -> None:
            first, last = CHANGES.index(names[0]), CHANGES.index(names[-1])
            rows = np.flatnonzero((change >= first) & (change <= last))
            if len(rows):
                places = pixels.put(rows)
                images[places] = done(images[places], rows)

        def looked_up(some: Any, rows: np.ndarray) -> Any:
            tables = np.empty((len(rows), channels, 256), np.uint8)
            counts = np.zeros(tables.shape, np.int64)
            # Counts are exact, so that tables are the same in both frameworks.
            if len(counted := np.flatnonzero(change[rows] >= CHANGES.index(COUNTED[0]))):
                counts[counted] = pixels.histogram(some[pixels.put(counted)])
            for number in np.unique(change[rows]):
                these = np.flatnonzero(change[rows] == number)
                how = level[rows[these], None, None], factor[rows[these], None, None]
                made = self._tables(CHANGES[number], counts[these], *how)
                tables[these] = np.rint(made.clip(0, 255))
            return pixels.lookup(some, tables)

        def saturated(some: Any, rows: np.ndarray) -> Any:
            return pixels.colour(
                some, _matrices(np.zeros((len(rows), channels)), 1, 1, factor[rows], 0)
            )

        moves = self._moves(change, signed, height, width)
        act(MOVES, lambda some, rows: pixels.nearest(some, moves[rows]))
        act(TABLES, looked_up)
        act(("saturation",), saturated)
        act(
            ("sharpness",), lambda some, rows: pixels.sharpen(some, factor[rows].astype(np.float32))
        )
        return images

    def _moves(self, change: np.ndarray, signed: np.ndarray, height: int, width: int) -> np.ndarray:
        """From pixels of the result to pixels of the image: (B, 2, 3)."""

        def part(name: str) -> np.ndarray:
            return np.where(change == CHANGES.index(name), signed, 0.0)

        angle = np.radians(self.rotate * part("rotate"))
        cosine, sine = np.cos(angle), np.sin(angle)
        right, down = sine + self.shear * part("shear_x"), self.shear * part("shear_y") - sine
        x, y = (width - 1) / 2, (height - 1) / 2  # the centre, which only a translation moves
        by_x, by_y = (self.move if self.move >= 1 else self.move * side for side in (width, height))
        from_x = x - np.trunc(by_x * part("translate_x"))  # by whole pixels
        from_y = y - np.trunc(by_y * part("translate_y"))
        rows = (
            (cosine, right, from_x - cosine * x - right * y),
            (down, cosine, from_y - down * x - cosine * y),
        )
        return np.array(rows, np.float32).transpose(2, 0, 1)

    def _tables(self, name: str, counts: np.ndarray, level: np.ndarray, factor: np.ndarray) -> Any:
        """What each value becomes, for all channels (B, 1, 256) or for each (B, c, 256)."""
        if name == "brightness":
            return VALUES * factor
        if name == "posterize":
            step = 2 ** np.rint(level * self.bits).astype(np.int64)
            return VALUES & -step  # the upper bits
        if name == "solarize":
            return np.where(255 * (1 - level) <= VALUES, 255 - VALUES, VALUES)
        if name == "contrast":
            means = (counts @ VALUES) / counts.sum(axis=2)
            grey = np.rint(means @ _luma(counts.shape[1]))[:, None, None]
            return grey + factor * (VALUES - grey)
        high = 255 - (counts[..., ::-1] > 0).argmax(axis=2)[..., None]  # the largest value
        if name == "autocontrast":
            low = (counts > 0).argmax(axis=2)[..., None]
            return np.where(high > low, (VALUES - low) * (255 / (high - low).clip(1)), VALUES)
        # Equalize, as Pillow does it.
        step = (counts.sum(axis=2)[..., None] - np.take_along_axis(counts, high, axis=2)) // 255
        below = counts.cumsum(axis=2) - counts
        return np.where(step > 0, np.floor((step // 2 + below) / step.clip(1)), VALUES)


WIDE = Reach(shear=0.99, move=32, rotate=135, factor=0.99, bits=6)
USUAL = Reach(shear=0.3, move=150 / 331, rotate=30, factor=0.9, bits=4)


@dataclass(frozen=True)
class Trivial(Word):
    """One change for each image, of any level: TrivialAugment with its wide reach."""

    word = "trivial"

    def change(self, pixels: Pixels, images: Any, draws: zoo.Draws) -> Any:
        change = draws.integers("change", 0, len(CHANGES) - 1)
        level = draws.integers("level", 0, LEVELS) / LEVELS
        return WIDE.apply(pixels, images, change, level, draws.coins("minus"))


@dataclass(frozen=True)
class Rand(Word):
    """So many changes for each image, one after the other, all of one level: RandAugment."""

    word = "rand"
    changes: int = field(default=2, metadata={"limits": (1, len(CHANGES))})
    magnitude: int = field(default=9, metadata={"limits": (0, LEVELS)})

    def change(self, pixels: Pixels, images: Any, draws: zoo.Draws) -> Any:
        level = np.full(len(draws.positions), self.magnitude / LEVELS)
        for number in range(self.changes):
            change = draws.integers(f"{number}.change", 0, len(CHANGES) - 1)
            images = USUAL.apply(pixels, images, change, level, draws.coins(f"{number}.minus"))
        return images
