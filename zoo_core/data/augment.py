"""The words of `Recipe.augment`: what each means, what it draws for each image, and how words run.

Everything here is small NumPy arrays, decided by `Draws`; the pixels are moved by `Ops`. Words are
entries of plugins; these are the zoo's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from inspect import formatannotation
from typing import Any, ClassVar

import numpy as np

from zoo_core.data.draws import Draws
from zoo_core.data.ops import MovePlan, Ops
from zoo_core.io.errors import OptionError, PluginError, ZooError
from zoo_core.io.targets import describe, resolve
from zoo_core.spec.discovery import BUILTIN
from zoo_core.spec.entries import AugmentationEntry
from zoo_core.spec.registry import origin, plugin_of, qualified_name, registry

PIXELS = (1, 1 << 14)
DTYPES = ("uint8", "float32")


@dataclass(frozen=True)
class Augmentation:
    """One word of a recipe, a frozen dataclass. Its fields are what may stand after the colon."""

    resizes: ClassVar[bool] = False  # True: it has a field `size`, and gives images of that size

    @property
    def side(self) -> int:
        """Of the images that it gives, in pixels; 0: as large as those that it is given."""
        return self.size if self.resizes else 0  # type: ignore[attr-defined]

    @property
    def stored(self) -> int:
        """Pixels that a side of stored images should have for it; 0: it does not matter."""
        return self.side

    def run(self, ops: Ops, images: Any, draws: Draws) -> Any:
        """The changed images of a batch.

        images: an array of NumPy or torch, (B, h, w, c), uint8 or float32, values 0 to 255; you may
        write into it. Give back an array of the same sort and shape. `draws` decides what happens
        to each image, `ops` does it to the pixels of all of them.
        """
        raise NotImplementedError


def limited(low: float, high: float, default: Any = MISSING) -> Any:
    return field(default=default, metadata={"limits": (low, high)})


@dataclass(frozen=True)
class Flip(Augmentation):
    """Mirror left and right, one image in two."""


@dataclass(frozen=True)
class Crop(Augmentation):
    """Pad with black pixels, then cut the old size out anywhere."""

    pixels: int = limited(*PIXELS)
    reflect: ClassVar[bool] = False


@dataclass(frozen=True)
class Shift(Crop):
    """Shift by up to so many pixels; the mirrored image fills the gap."""

    reflect: ClassVar[bool] = True


@dataclass(frozen=True)
class Affine(Augmentation):
    """Rotate by degrees, shift by pixels, grow or shrink by a share, each up to; black outside."""

    rotate: float = limited(0, 180, 0.0)
    shift: float = limited(0, PIXELS[1], 0.0)
    scale: float = limited(0, 0.99, 0.0)

    def matrices(self, draws: Draws, height: int, width: int) -> np.ndarray:
        """From pixels of the result to pixels of the image."""
        angle = np.radians(draws.uniform("rotate", -self.rotate, self.rotate))
        factor = draws.uniform("scale", 1 - self.scale, 1 + self.scale)
        cosine, sine = np.cos(angle) / factor, np.sin(angle) / factor
        x, y = (width - 1) / 2, (height - 1) / 2  # the centre, which moves by the shift alone
        from_x = x + draws.uniform("x", -self.shift, self.shift)
        from_y = y + draws.uniform("y", -self.shift, self.shift)
        rows = (
            (cosine, sine, x - cosine * from_x - sine * from_y),
            (-sine, cosine, y + sine * from_x - cosine * from_y),
        )
        return np.array(rows, np.float32).transpose(2, 0, 1)  # (B, 2, 3)

    def run(self, ops: Ops, images: Any, draws: Draws) -> Any:
        return ops.warp(images, self.matrices(draws, *images.shape[1:3]))


@dataclass(frozen=True)
class ResizedCrop(Augmentation):
    """Cut a random part out, of a share of the area and 3:4 to 4:3, and bring it to a size.

    It is a stage of its own, `Zoom`, which also mirrors.
    """

    resizes = True
    size: int = limited(0, PIXELS[1], 0)  # 0: that of the image
    scale: tuple[float, float] = limited(0.001, 1, (0.08, 1.0))

    @property
    def stored(self) -> int:
        return round(self.size * 8 / 7)  # 256 for 224, as is usual: parts are enlarged less

    def boxes(self, draws: Draws, height: int, width: int) -> np.ndarray:
        """Left, top, width, height of the parts, inside the image, in whole pixels."""
        area = draws.uniform("area", *self.scale) * height * width
        ratio = np.exp(draws.uniform("ratio", math.log(3 / 4), math.log(4 / 3)))
        w = np.rint(np.sqrt(area * ratio)).clip(1, width)
        h = np.rint(np.sqrt(area / ratio)).clip(1, height)
        left = np.rint(draws.uniform("x") * (width - w))
        top = np.rint(draws.uniform("y") * (height - h))
        return np.stack((left, top, w, h), axis=1).astype(np.int64)  # (B, 4)


@dataclass(frozen=True)
class Resize(Augmentation):
    """Bring the whole image to a size, with the interpolation of `preprocess`."""

    resizes = True
    size: int = limited(*PIXELS)


class Cover(Augmentation):
    """A word that covers a box of each image with the mean colour, after the normalisation."""

    def boxes(self, draws: Draws, height: int, width: int) -> np.ndarray:
        """Top, bottom, left, right, in whole pixels; int64 (B, 4)."""
        raise NotImplementedError


@dataclass(frozen=True)
class Cutout(Cover):
    """Cover a square, cut off at the image's edge, with the mean colour."""

    size: int = limited(*PIXELS)

    def boxes(self, draws: Draws, height: int, width: int) -> np.ndarray:
        side = np.full(len(draws.positions), self.size)
        return _boxes(draws, "", side, side, height, width)


@dataclass(frozen=True)
class Erase(Cover):
    """Cover a box inside some of the images: so many, and so large a share of the area."""

    probability: float = limited(0, 1)
    scale: tuple[float, float] = limited(0.001, 1, (0.02, 0.33))

    def boxes(self, draws: Draws, height: int, width: int) -> np.ndarray:
        area = draws.uniform("area", *self.scale) * height * width
        ratio = np.exp(draws.uniform("ratio", math.log(0.3), math.log(3.3)))
        tall = np.rint(np.sqrt(area / ratio)).clip(1, height).astype(np.int64)
        wide = np.rint(np.sqrt(area * ratio)).clip(1, width).astype(np.int64)
        top = (draws.uniform("y") * (height - tall + 1)).astype(np.int64)
        left = (draws.uniform("x") * (width - wide + 1)).astype(np.int64)
        chosen = draws.uniform("probability") < self.probability
        return np.stack((top, top + tall, left, left + wide), axis=1) * chosen[:, None]


@dataclass(frozen=True)
class CutMix(Augmentation):
    """Paste a box of the next image in; its share of the area comes from Beta(alpha, alpha)."""

    alpha: float = limited(0.01, 100)

    def boxes(self, draws: Draws, height: int, width: int) -> np.ndarray:
        side = np.sqrt(1 - draws.beta("cutmix", self.alpha))
        tall, wide = (np.rint(side * whole).astype(np.int64) for whole in (height, width))
        return _boxes(draws, "cutmix.", tall, wide, height, width)


def _boxes(
    draws: Draws, prefix: str, tall: np.ndarray, wide: np.ndarray, height: int, width: int
) -> np.ndarray:
    """Top, bottom, left, right, in whole pixels."""
    top = draws.integers(f"{prefix}y", 0, height - 1) - tall // 2  # the centre is anywhere
    left = draws.integers(f"{prefix}x", 0, width - 1) - wide // 2
    edges = np.stack((top, top + tall, left, left + wide), axis=1)  # (B, 4)
    return edges.clip(0, np.array((height, height, width, width)))


@dataclass(frozen=True)
class Word:
    """An augmentation as a recipe names it: whose it is, and what it does."""

    entry: AugmentationEntry
    does: Augmentation

    @property
    def prefix(self) -> str:
        """Of what it draws: the same however it is written, and another for each plugin."""
        own = plugin_of(self.entry) == BUILTIN
        return f"{self.entry.name if own else qualified_name(self.entry)}."

    def run(self, ops: Ops, images: Any, draws: Draws, interpolation: str) -> Any:
        """Do it to the pixels of a batch, (B, h, w, c), where the word stands for one pass."""
        if isinstance(self.does, Resize):
            return ops.resize(images, (self.does.size, self.does.size), interpolation)
        whose = f"augmentation {self.entry.name!r} of {origin(self.entry)}"
        count, *size, channels = images.shape
        if self.does.side:
            size = [self.does.side] * 2
        wanted = (type(images), (count, *size, channels))
        try:
            result = self.does.run(ops, images, replace(draws, prefix=self.prefix))
        except ZooError:
            raise
        except Exception as error:
            hint = "run the command again with --debug for the traceback"
            raise PluginError(f"{whose} raised {describe(error)}", hint) from error
        dtype = str(getattr(result, "dtype", "")).removeprefix("torch.")
        given = (type(result), tuple(getattr(result, "shape", ())))
        if given != wanted or dtype not in DTYPES:
            kind = f"{given[0].__module__}.{given[0].__name__}"
            what = f"a {kind} with the dtype {dtype or 'of no array'} and the shape {given[1]}"
            hint = f"it must give a {wanted[0].__module__}.{wanted[0].__name__}, uint8 or float32, "
            raise PluginError(f"{whose} gave {what}", f"{hint}with the shape {wanted[1]}")
        return result


def parse_augment(words: Sequence[str]) -> tuple[Word, ...]:
    """`("flip", "crop:4")` as objects, checked."""
    parsed = tuple(_parse(word) for word in words)
    entries = [one.entry for one in parsed]
    for entry in entries:
        # A word's draws are named by the word: twice the same would be drawn the same.
        if entries.count(entry) > 1:
            raise OptionError(f"augment has {entry.name!r} twice", "use each word once")
    return parsed


def _parse(word: str) -> Word:
    name, _, rest = word.partition(":")
    catalog, ours = registry().augmentations, f"{BUILTIN}/{name}"
    # A plugin with a word of that name must not end every recipe that has ours.
    entry = catalog.get(ours if ours in catalog else name)
    whose = f"augmentation {entry.name!r} of {origin(entry)}"
    kind = resolve(entry.target, whose)
    if not (isinstance(kind, type) and issubclass(kind, Augmentation)):
        raise PluginError(f"{whose}: {entry.target} is not a subclass of zoo.Augmentation")
    hint = f"write it like {entry.example}"
    options = {spec.name: spec for spec in fields(kind)}
    given: dict[str, Any] = {}
    for number, part in enumerate(rest.split(",") if rest else ()):
        key, equals, text = part.partition("=")
        if not equals and number < len(options):
            key, text = list(options)[number], part
        if key not in options or key in given:
            raise OptionError(f"augment {word!r} cannot have {part!r}", hint)
        given[key] = _read(word, options[key], text, hint)
    for key, spec in options.items():
        if spec.default is MISSING and key not in given:
            raise OptionError(f"augment {word!r} does not say its {key}", hint)
    return Word(entry, kind(**given))


def _read(word: str, spec: Field[Any], text: str, hint: str) -> Any:
    """What stands in a word for one field, as the field's type and within its limits."""
    try:
        value = READ[formatannotation(spec.type).strip("'")](text)
    except KeyError:
        what = f"augment {word!r}: the type of its field {spec.name} must be one of"
        raise PluginError(f"{what} {', '.join(READ)}") from None
    except ValueError:
        what = f"augment {word!r}: {text!r} is not valid for {spec.name}"
        raise OptionError(what, hint) from None
    low, high = spec.metadata.get("limits", (-math.inf, math.inf))
    ends = value if isinstance(value, tuple) else (value, value)
    if not low <= ends[0] <= ends[1] <= high:
        name = word.partition(":")[0]
        rule = f"the {spec.name} of {name} must be from {low:g} to {high:g}"
        raise OptionError(f"augment: {rule}", hint)
    return value


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
            name = "shift" if self.slide.reflect else "crop"
            starts += draws.integers(f"{name}.y", 0, 2 * pad) * (width + 2 * pad)
            starts += draws.integers(f"{name}.x", 0, 2 * pad)
        reflect = self.slide is not None and self.slide.reflect
        return MovePlan(indices, flips, pad, reflect, starts * channels)

    def run(self, ops: Ops, images: Any, draws: Draws, interpolation: str) -> Any:
        return ops.move(images, self.plan(draws, np.arange(len(images)), images.shape[1:]))


@dataclass(frozen=True)
class Zoom:
    """A random part at a size, and a flip that stands beside it."""

    word: Word
    flip: bool = False

    def run(self, ops: Ops, images: Any, draws: Draws, interpolation: str) -> Any:
        does, own = self.word.does, replace(draws, prefix=self.word.prefix)
        assert isinstance(does, ResizedCrop)
        flips = draws.coins("flip") if self.flip else np.zeros(len(images), bool)
        boxes, size = does.boxes(own, *images.shape[1:3]), does.size or images.shape[1]
        return ops.zoom(images, boxes, flips, size)


def stages(words: Sequence[Word]) -> tuple[Move, list[Move | Zoom | Word]]:
    """What changes pixels, in order: the first move, which also takes the images, and the rest."""
    result: list[Move | Zoom | Word] = [Move()]
    for word in words:
        last, does = result[-1], word.does
        if isinstance(does, ResizedCrop):
            if last == Move(flip=True):
                result[-1] = Move()
            result.append(Zoom(word, flip=last == Move(flip=True)))
        elif isinstance(does, Flip) and isinstance(last, Zoom):
            result[-1] = Zoom(last.word, flip=True)
        elif isinstance(does, Flip | Crop):
            flip, slide = isinstance(does, Flip), does if isinstance(does, Crop) else None
            # Mirroring before or after a shift makes no difference to what can come out.
            if isinstance(last, Move) and not (last.flip if flip else last.slide):
                result[-1] = Move(last.flip or flip, last.slide or slide)
            else:
                result.append(Move(flip, slide))
        elif not isinstance(does, Cover | CutMix):  # these come after the normalisation
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
