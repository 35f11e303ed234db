"""The words of `Recipe.augment`: what each means and what it draws for each picture.

Everything here is small NumPy arrays, decided by `Draws`; augment_stages runs the words, and the
pixels are moved by augment_numpy or augment_torch.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

import numpy as np

from zoo_core.data.draws import Draws
from zoo_core.errors import OptionError

# Each class is one word; its first field is what stands after the colon.


@dataclass(frozen=True)
class Flip:
    """Mirror left and right, one picture in two."""

    name: ClassVar[str] = "flip"
    example: ClassVar[str] = "flip"


@dataclass(frozen=True)
class Crop:
    """Pad with black pixels, then cut the old size out anywhere."""

    pixels: int
    name: ClassVar[str] = "crop"
    example: ClassVar[str] = "crop:4"
    reflect: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _need(self.pixels >= 1, self, "pads by at least 1 pixel")


@dataclass(frozen=True)
class Shift(Crop):
    """Shift by up to so many pixels; the mirrored picture fills the gap."""

    name: ClassVar[str] = "shift"
    example: ClassVar[str] = "shift:3"
    reflect: ClassVar[bool] = True


@dataclass(frozen=True)
class Affine:
    """Rotate by degrees, shift by pixels, grow or shrink by a share, each up to; black outside."""

    rotate: float = 0.0
    shift: float = 0.0
    scale: float = 0.0
    name: ClassVar[str] = "affine"
    example: ClassVar[str] = "affine:rotate=10,shift=3,scale=0.1"

    def __post_init__(self) -> None:
        _need(0 <= self.rotate <= 180, self, "rotates by 0 to 180 degrees")
        _need(0 <= self.shift < math.inf, self, "shifts by 0 pixels or more")
        _need(0 <= self.scale < 1, self, "scales by a share from 0 to below 1")

    def matrices(self, draws: Draws, height: int, width: int) -> np.ndarray:
        """From pixels of the result to pixels of the picture."""
        angle = np.radians(draws.uniform("affine.rotate", -self.rotate, self.rotate))
        factor = draws.uniform("affine.scale", 1 - self.scale, 1 + self.scale)
        cosine, sine = np.cos(angle) / factor, np.sin(angle) / factor
        x, y = (width - 1) / 2, (height - 1) / 2  # the centre stays, up to the shift
        from_x = x + draws.uniform("affine.x", -self.shift, self.shift)
        from_y = y + draws.uniform("affine.y", -self.shift, self.shift)
        rows = (
            (cosine, sine, x - cosine * from_x - sine * from_y),
            (-sine, cosine, y + sine * from_x - cosine * from_y),
        )
        return np.array(rows, np.float32).transpose(2, 0, 1)  # (B, 2, 3)


@dataclass(frozen=True)
class ResizedCrop:
    """Cut a random part out, of a share of the area and 3:4 to 4:3, and bring it to a size."""

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    name: ClassVar[str] = "resized_crop"
    example: ClassVar[str] = "resized_crop:224,scale=0.08-1"

    def __post_init__(self) -> None:
        _need(self.size >= 1, self, "needs a size of at least 1 pixel")
        _need(0 < self.scale[0] <= self.scale[1] <= 1, self, "takes a scale like 0.08-1")

    def boxes(self, draws: Draws, height: int, width: int) -> np.ndarray:
        """Left, top, width, height of the parts, inside the picture."""
        area = draws.uniform("resized_crop.area", *self.scale) * height * width
        ratio = np.exp(draws.uniform("resized_crop.ratio", math.log(3 / 4), math.log(4 / 3)))
        w = np.minimum(np.sqrt(area * ratio), width)
        h = np.minimum(np.sqrt(area / ratio), height)
        left = draws.uniform("resized_crop.x") * (width - w)
        top = draws.uniform("resized_crop.y") * (height - h)
        return np.stack((left, top, w, h), axis=1)  # (B, 4)

    def matrices(self, draws: Draws, height: int, width: int) -> np.ndarray:
        left, top, w, h = self.boxes(draws, height, width).T / self.size
        zero = np.zeros_like(w)
        # The centre of a pixel is half a pixel from its edge, in both sizes.
        rows = (
            (w, zero, left * self.size + w / 2 - 0.5),
            (zero, h, top * self.size + h / 2 - 0.5),
        )
        return np.array(rows, np.float32).transpose(2, 0, 1)  # (B, 2, 3)


@dataclass(frozen=True)
class Resize:
    """Bring the whole picture to a size."""

    size: int
    name: ClassVar[str] = "resize"
    example: ClassVar[str] = "resize:224"

    def __post_init__(self) -> None:
        _need(self.size >= 1, self, "needs a size of at least 1 pixel")


@dataclass(frozen=True)
class Cutout:
    """Cover a square, cut off at the picture's edge, with the mean colour."""

    size: int
    name: ClassVar[str] = "cutout"
    example: ClassVar[str] = "cutout:8"

    def __post_init__(self) -> None:
        _need(self.size >= 1, self, "covers at least 1 pixel")

    def boxes(self, draws: Draws, height: int, width: int) -> np.ndarray:
        """Top, bottom, left, right, in whole pixels."""
        side = np.full(len(draws.positions), self.size)
        return _boxes(draws, "cutout", side, side, height, width)


@dataclass(frozen=True)
class CutMix:
    """Paste a box of the next picture in; its share of the area comes from Beta(alpha, alpha)."""

    alpha: float
    name: ClassVar[str] = "cutmix"
    example: ClassVar[str] = "cutmix:1.0"

    def __post_init__(self) -> None:
        _need(0 < self.alpha < math.inf, self, "needs an alpha above 0")

    def boxes(self, draws: Draws, height: int, width: int) -> np.ndarray:
        """Top, bottom, left, right, in whole pixels."""
        side = np.sqrt(1 - draws.beta("cutmix", self.alpha))
        tall, wide = (np.rint(side * whole).astype(np.int64) for whole in (height, width))
        return _boxes(draws, "cutmix", tall, wide, height, width)


Augmentation = Flip | Crop | Shift | Affine | ResizedCrop | Resize | Cutout | CutMix
KINDS: tuple[type[Augmentation], ...] = (
    Flip,
    Crop,
    Shift,
    Affine,
    ResizedCrop,
    Resize,
    Cutout,
    CutMix,
)
WORDS = {kind.name: kind for kind in KINDS}


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
        close = difflib.get_close_matches(name.lower(), WORDS, n=2, cutoff=0.6)
        raise OptionError(
            f"there is no augmentation {name!r}",
            f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(WORDS)}",
        )
    options = {spec.name: spec for spec in fields(WORDS[name])}
    given: dict[str, Any] = {}
    for number, part in enumerate(rest.split(",") if rest else ()):
        key, equals, text = part.partition("=")
        if not equals and number == 0 and options:
            key, text = next(iter(options)), part
        if key not in options or key in given:
            raise _wrong(word, f"cannot have {part!r}")
        try:
            given[key] = READ[str(options[key].type)](text)
        except ValueError:
            raise _wrong(word, f"has {text!r} where {key} should be a number") from None
    missing = [key for key, spec in options.items() if spec.default is MISSING and key not in given]
    if missing:
        raise _wrong(word, f"does not say its {missing[0]}")
    return WORDS[name](**given)


def _range(text: str) -> tuple[float, float]:
    low, _, high = text.partition("-")
    return float(low), float(high)


READ: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "tuple[float, float]": _range}


def _wrong(word: str, problem: str) -> OptionError:
    name = word.partition(":")[0]
    return OptionError(f"augment {word!r} {problem}", f"write it like {WORDS[name].example}")


def _need(ok: bool, one: Any, rule: str) -> None:
    if not ok:
        raise OptionError(f"augment: {one.name} {rule}", f"write it like {one.example}")


def _boxes(
    draws: Draws, purpose: str, tall: np.ndarray, wide: np.ndarray, height: int, width: int
) -> np.ndarray:
    top = draws.integers(f"{purpose}.y", 0, height - 1) - tall // 2  # the centre is anywhere
    left = draws.integers(f"{purpose}.x", 0, width - 1) - wide // 2
    edges = np.stack((top, top + tall, left, left + wide), axis=1)  # (B, 4)
    return edges.clip(0, np.array((height, height, width, width)))
