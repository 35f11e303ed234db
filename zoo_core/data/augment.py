"""The words of `Recipe.augment`: what each means, what it draws for each image, and how words run.

Everything here is small NumPy arrays, decided by `Draws`; the pixels are moved by `Ops`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from zoo_core.data.draws import Draws
from zoo_core.data.ops import MovePlan, Ops
from zoo_core.io.errors import OptionError, did_you_mean

WORDS: dict[str, type[Augmentation]] = {}
PIXELS = (1, 1 << 14)


@dataclass(frozen=True)
class Augmentation:
    """One word. The first field of each is what stands after the colon, all have their limits."""

    name: ClassVar[str]
    example: ClassVar[str]

    def __init_subclass__(cls, example: str) -> None:
        cls.name, cls.example = example.partition(":")[0], example
        WORDS[cls.name] = cls

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            low, high = spec.metadata["limits"]
            ends = value if isinstance(value, tuple) else (value, value)
            if not low <= ends[0] <= ends[1] <= high:
                rule = f"the {spec.name} of {self.name} must be from {low:g} to {high:g}"
                raise OptionError(f"augment: {rule}", f"write it like {self.example}")

    def run(self, ops: Ops, images: Any, draws: Draws, interpolation: str) -> Any:
        """Do it to the pixels of a batch, (B, h, w, c), where the word stands for one pass."""
        raise NotImplementedError


def limited(low: float, high: float, default: Any = MISSING) -> Any:
    return field(default=default, metadata={"limits": (low, high)})


@dataclass(frozen=True)
class Flip(Augmentation, example="flip"):
    """Mirror left and right, one image in two."""


@dataclass(frozen=True)
class Crop(Augmentation, example="crop:4"):
    """Pad with black pixels, then cut the old size out anywhere."""

    pixels: int = limited(*PIXELS)
    reflect: ClassVar[bool] = False


@dataclass(frozen=True)
class Shift(Crop, example="shift:3"):
    """Shift by up to so many pixels; the mirrored image fills the gap."""

    reflect: ClassVar[bool] = True


@dataclass(frozen=True)
class Affine(Augmentation, example="affine:rotate=10,shift=3,scale=0.1"):
    """Rotate by degrees, shift by pixels, grow or shrink by a share, each up to; black outside."""

    rotate: float = limited(0, 180, 0.0)
    shift: float = limited(0, PIXELS[1], 0.0)
    scale: float = limited(0, 0.99, 0.0)

    def matrices(self, draws: Draws, height: int, width: int) -> np.ndarray:
        """From pixels of the result to pixels of the image."""
        angle = np.radians(draws.uniform("affine.rotate", -self.rotate, self.rotate))
        factor = draws.uniform("affine.scale", 1 - self.scale, 1 + self.scale)
        cosine, sine = np.cos(angle) / factor, np.sin(angle) / factor
        x, y = (width - 1) / 2, (height - 1) / 2  # the centre, which moves by the shift alone
        from_x = x + draws.uniform("affine.x", -self.shift, self.shift)
        from_y = y + draws.uniform("affine.y", -self.shift, self.shift)
        rows = (
            (cosine, sine, x - cosine * from_x - sine * from_y),
            (-sine, cosine, y + sine * from_x - cosine * from_y),
        )
        return np.array(rows, np.float32).transpose(2, 0, 1)  # (B, 2, 3)

    def run(self, ops: Ops, images: Any, draws: Draws, interpolation: str) -> Any:
        size = images.shape[1:3]
        return ops.warp(images, self.matrices(draws, *size), size, clamp=False)


@dataclass(frozen=True)
class ResizedCrop(Augmentation, example="resized_crop:224,scale=0.08-1"):
    """Cut a random part out, of a share of the area and 3:4 to 4:3, and bring it to a size."""

    size: int = limited(*PIXELS)
    scale: tuple[float, float] = limited(0.001, 1, (0.08, 1.0))

    def boxes(self, draws: Draws, height: int, width: int) -> np.ndarray:
        """Left, top, width, height of the parts, inside the image."""
        area = draws.uniform("resized_crop.area", *self.scale) * height * width
        ratio = np.exp(draws.uniform("resized_crop.ratio", math.log(3 / 4), math.log(4 / 3)))
        w = np.minimum(np.sqrt(area * ratio), width)
        h = np.minimum(np.sqrt(area / ratio), height)
        left = draws.uniform("resized_crop.x") * (width - w)
        top = draws.uniform("resized_crop.y") * (height - h)
        return np.stack((left, top, w, h), axis=1)  # (B, 4)

    def matrices(self, draws: Draws, height: int, width: int) -> np.ndarray:
        """From pixels of the result to pixels of the image."""
        left, top, w, h = self.boxes(draws, height, width).T
        x_step, y_step, zero = w / self.size, h / self.size, np.zeros_like(w)
        # The centre of a pixel is half a pixel from its edge, in both sizes.
        rows = ((x_step, zero, left + x_step / 2 - 0.5), (zero, y_step, top + y_step / 2 - 0.5))
        return np.array(rows, np.float32).transpose(2, 0, 1)  # (B, 2, 3)

    def run(self, ops: Ops, images: Any, draws: Draws, interpolation: str) -> Any:
        matrices = self.matrices(draws, *images.shape[1:3])
        return ops.warp(images, matrices, (self.size, self.size), clamp=True)


@dataclass(frozen=True)
class Resize(Augmentation, example="resize:224"):
    """Bring the whole image to a size."""

    size: int = limited(*PIXELS)

    def run(self, ops: Ops, images: Any, draws: Draws, interpolation: str) -> Any:
        return ops.resize(images, (self.size, self.size), interpolation)


@dataclass(frozen=True)
class Cutout(Augmentation, example="cutout:8"):
    """Cover a square, cut off at the image's edge, with the mean colour."""

    size: int = limited(*PIXELS)

    def boxes(self, draws: Draws, height: int, width: int) -> np.ndarray:
        side = np.full(len(draws.positions), self.size)
        return _boxes(draws, "cutout", side, side, height, width)


@dataclass(frozen=True)
class CutMix(Augmentation, example="cutmix:1.0"):
    """Paste a box of the next image in; its share of the area comes from Beta(alpha, alpha)."""

    alpha: float = limited(0.01, 100)

    def boxes(self, draws: Draws, height: int, width: int) -> np.ndarray:
        side = np.sqrt(1 - draws.beta("cutmix", self.alpha))
        tall, wide = (np.rint(side * whole).astype(np.int64) for whole in (height, width))
        return _boxes(draws, "cutmix", tall, wide, height, width)


def _boxes(
    draws: Draws, purpose: str, tall: np.ndarray, wide: np.ndarray, height: int, width: int
) -> np.ndarray:
    """Top, bottom, left, right, in whole pixels."""
    top = draws.integers(f"{purpose}.y", 0, height - 1) - tall // 2  # the centre is anywhere
    left = draws.integers(f"{purpose}.x", 0, width - 1) - wide // 2
    edges = np.stack((top, top + tall, left, left + wide), axis=1)  # (B, 4)
    return edges.clip(0, np.array((height, height, width, width)))


def parse_augment(words: Sequence[str]) -> tuple[Augmentation, ...]:
    """`("flip", "crop:4")` as objects, checked."""
    parsed = tuple(_parse(word) for word in words)
    names = [one.name for one in parsed]
    for name in names:
        # A word's draws are named by the word: twice the same would be drawn the same.
        if names.count(name) > 1:
            raise OptionError(f"augment has {name!r} twice", "use each word once")
    return parsed


def _parse(word: str) -> Augmentation:
    name, _, rest = word.partition(":")
    if name not in WORDS:
        hint = did_you_mean(name.lower(), WORDS, f"there are {', '.join(WORDS)}", most=2)
        raise OptionError(f"there is no augmentation {name!r}", hint)
    hint = f"write it like {WORDS[name].example}"
    options = {spec.name: spec for spec in fields(WORDS[name])}
    given: dict[str, Any] = {}
    for number, part in enumerate(rest.split(",") if rest else ()):
        key, equals, text = part.partition("=")
        if not equals and number == 0 and options:
            key, text = next(iter(options)), part
        if key not in options or key in given:
            raise OptionError(f"augment {word!r} cannot have {part!r}", hint)
        try:
            given[key] = READ[str(options[key].type)](text)
        except ValueError:
            raise OptionError(f"augment {word!r}: {text!r} is not valid for {key}", hint) from None
    for key, spec in options.items():
        if spec.default is MISSING and key not in given:
            raise OptionError(f"augment {word!r} does not say its {key}", hint)
    return WORDS[name](**given)


def _range(text: str) -> tuple[float, float]:
    low, _, high = text.partition("-")
    return float(low), float(high)


READ: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "tuple[float, float]": _range}


@dataclass(frozen=True)
class Move:
    """A flip and a crop or shift that stand side by side: one pass over the pixels does both."""

    flip: bool = False
    slide: Crop | None = None

    def plan(self, draws: Draws, indices: np.ndarray, shape: tuple[int, int, int]) -> MovePlan:
        if not self.flip and self.slide is None:
            return MovePlan(indices)
        height, width, channels = shape
        pad = self.slide.pixels if self.slide else 0
        if pad >= min(height, width):
            images = f"{width} x {height} images"
            raise OptionError(f"augment: {pad} pixels to move by are too many for {images}")
        # Images to be mirrored are taken first, so that they lie together. Each result is cut out
        # by where it starts in any case, and that brings everything back to its place.
        flips, places = 0, np.arange(len(indices))
        if self.flip:
            flip = draws.coins("flip")
            flips = int(np.count_nonzero(flip))
            order = np.argsort(~flip, kind="stable")
            indices = indices[order]
            places[order] = np.arange(len(indices))
        starts = places * ((height + 2 * pad) * (width + 2 * pad))
        if self.slide:
            starts += draws.integers(f"{self.slide.name}.y", 0, 2 * pad) * (width + 2 * pad)
            starts += draws.integers(f"{self.slide.name}.x", 0, 2 * pad)
        reflect = self.slide is not None and self.slide.reflect
        return MovePlan(indices, flips, pad, reflect, starts * channels)

    def run(self, ops: Ops, images: Any, draws: Draws, interpolation: str) -> Any:
        return ops.move(images, self.plan(draws, np.arange(len(images)), images.shape[1:]))


def stages(words: Sequence[Augmentation]) -> tuple[Move, list[Move | Augmentation]]:
    """What moves pixels, as written: the first move, which also takes the images, and the rest."""
    result: list[Move | Augmentation] = [Move()]
    for word in words:
        last = result[-1]
        if isinstance(word, Flip | Crop):
            flip, slide = isinstance(word, Flip), word if isinstance(word, Crop) else None
            # Mirroring before or after a shift makes no difference to what can come out.
            if isinstance(last, Move) and not (last.flip if flip else last.slide):
                result[-1] = Move(last.flip or flip, last.slide or slide)
            else:
                result.append(Move(flip, slide))
        elif not isinstance(word, Cutout | CutMix):  # these come after the normalisation
            result.append(word)
    first, *rest = result
    assert isinstance(first, Move)
    return first, rest


def mixing(
    draws: Draws, mixup: float, cutmix: CutMix | None, height: int, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """MixUp, CutMix, or a coin's choice: weights of labels, shares kept outside boxes, boxes."""
    ones = np.ones(len(draws.positions))
    keep = draws.beta("mixup", mixup) if mixup else ones
    if cutmix is None:
        keep = keep.astype(np.float32)
        return keep, keep, None
    boxes = cutmix.boxes(draws, height, width)
    if mixup:
        coins = draws.coins("mixup or cutmix")
        keep = np.where(coins, keep, ones)
        boxes[coins] = 0
    area = (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])
    weight = keep * (1 - area / (height * width))
    return weight.astype(np.float32), keep.astype(np.float32), boxes
