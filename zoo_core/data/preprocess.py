"""What happens to every image before a model sees it; this travels in run.json and with weights.

The loader and `preprocess(image)` share `finisher`: one image gives the same bits as a batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from zoo_core.data.dataset import Dataset
from zoo_core.data.images import FITS, Form, fit_image, read_image
from zoo_core.data.ops import LUMA, Ops, open_ops
from zoo_core.io.errors import OptionError, check_names
from zoo_core.spec.entries import LIMITS
from zoo_core.spec.recipe import Rule, between, check_rules, number, one_of

SETTINGS = ("size", "channels", "mean", "std", "resize", "interpolation", "fit")  # of a recipe
# Records come from strangers too: none makes an image take more than some hundred MB, or NaN.
LARGEST = LIMITS["image_size"][1]  # pixels of a side
MOST_STORED = 1 << 26  # numbers of a stored image, one byte each; 4,096 x 4,096 in colour
MOST = 1 << 24  # numbers of what the model is given, four bytes each; 2,364 x 2,364 in colour
AT_ONCE = 1 << 24  # numbers of the images that are measured together
INPUT = {"image_size": "size", "in_channels": "channels"}  # a model's options, and these settings
UNSAID = {"resize": 0, "fit": "crop"}  # of to_dict: files from before these settings stay equal


def _numbers(low: float, high: float) -> Rule:
    rule = number(low, high)
    words = f"one number for each channel, {low:g} to {high:g}"
    return Rule(lambda v: all(map(rule.holds, v if isinstance(v, list | tuple) else (v,))), words)


RULES = {
    **dict.fromkeys(("channels", "stored_channels"), between(*LIMITS["in_channels"])),
    **dict.fromkeys(("size", "stored_size"), between(1, LARGEST)),
    "resize": between(0, LARGEST),
    "interpolation": one_of("bilinear", "bicubic"),
    "fit": one_of(*FITS),
    "mean": _numbers(-1000, 1000),
    "std": _numbers(1e-5, 1000),
}


@dataclass(frozen=True)
class Preprocess:
    """Size, channels and normalisation of what a model is given."""

    size: int  # pixels of both sides
    channels: int  # 1 or 3
    mean: tuple[float, ...]  # one for each channel, of pixels in [0, 1]
    std: tuple[float, ...]
    resize: int = 0  # larger than `size`: resize to this, then cut `size` out of the middle
    interpolation: str = "bilinear"  # or bicubic: from the stored size to `size` or `resize`
    stored_size: int = 0  # of the images in the dataset; 0: as `size`
    stored_channels: int = 0
    fit: str = "crop"  # how an image that is not square is stored: crop, pad or stretch

    def __post_init__(self) -> None:
        change = partial(object.__setattr__, self)
        change("stored_size", self.stored_size or self.size)
        change("stored_channels", self.stored_channels or self.channels)
        check_rules("preprocess", vars(self), RULES)
        both = {self.channels, self.stored_channels}
        wrong = f"{self.stored_channels} channels cannot become {self.channels}; 1 and 3 can"
        _need(len(both) == 1 or both == {1, 3}, wrong)
        for name in ("mean", "std"):
            value = getattr(self, name)
            values = tuple(map(float, value if isinstance(value, list | tuple) else (value,)))
            change(name, values * self.channels if len(values) == 1 else values)
            found = len(getattr(self, name))
            wrong = f"{name} has {found} numbers for {self.channels} channels"
            _need(found == self.channels, wrong)
        wrong = f"resize must be at least the size, {self.size}, not {self.resize!r}"
        _need(self.resize == 0 or self.resize >= self.size, wrong)
        given = max(self.size, self.resize) ** 2 * max(both)
        for words, found, most in (
            ("stored images", self.stored_size**2 * self.stored_channels, MOST_STORED),
            ("images", given, MOST),
        ):
            _need(found <= most, f"{words} have {found:,} numbers; at most {most:,} are allowed")

    @property
    def at_once(self) -> int:
        """How many images to measure together: of large ones few, so that memory is enough."""
        side = max(self.size, self.resize, self.stored_size)
        return max(1, AT_ONCE // (side**2 * max(self.channels, self.stored_channels)))

    def check_model(self, config: Mapping[str, Any]) -> None:
        """Refuse options of a model whose input is not what this gives."""
        for option, setting in INPUT.items():
            wanted, given = config[option], getattr(self, setting)
            if wanted != given:
                what = f"model.{option} is {wanted!r}, but preprocess.{setting} is {given}"
                raise OptionError(what, "set only one of them; the zoo then sets the other")

    @classmethod
    def for_dataset(
        cls, dataset: Dataset, overrides: Mapping[str, Any] | None = None
    ) -> Preprocess:
        """What a dataset needs, with the `preprocess` of a recipe on top."""
        overrides = overrides or {}
        check_names("preprocess", overrides, SETTINGS)
        stored = {"stored_size": dataset.image_size, "stored_channels": dataset.channels}
        wanted = {"size": dataset.image_size, "channels": dataset.channels, **overrides}
        mean, std = dataset.mean, dataset.std
        if dataset.channels == 3 and wanted["channels"] == 1 and len(mean) == 3:
            mean = (sum(a * b for a, b in zip(mean, LUMA, strict=True)),)
            std = (sum(std) / 3,)  # the colours of an image rise and fall together
        return cls(**{"mean": mean, "std": std, **stored, **wanted})

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Preprocess:
        check_names("preprocess", record, [spec.name for spec in fields(cls)])
        missing = [name for name in SETTINGS[:4] if name not in record]
        _need(not missing, f"{' and '.join(missing)} must be given")
        return cls(**record)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; those of UNSAID only where they differ."""
        record = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
        return {key: value for key, value in record.items() if UNSAID.get(key) != value}

    def finisher(self, ops: Ops) -> Callable[[Any], Any]:
        """The way from stored or augmented images to what the model is given."""
        # (x / 255 - mean) / std, as one multiplication and one addition.
        std = np.array(self.std)
        scale, bias = 1 / (255 * std), -np.array(self.mean) / std
        normalise = ops.normaliser(scale.astype(np.float32), bias.astype(np.float32), self.size)
        whole = self.resize or self.size
        edge = (whole - self.size) // 2

        def finish(images: Any) -> Any:
            if images.shape[1] != self.size or images.shape[2] != self.size:
                if images.shape[1:3] != (whole, whole):
                    images = ops.resize(images, (whole, whole), self.interpolation)
                images = images[:, edge : edge + self.size, edge : edge + self.size]
            if images.shape[3] != self.channels:
                images = ops.recolour(images, self.channels)
            return normalise(images)  # float32 (B, c, h, w)

        return finish

    def __call__(self, image: Any, *, backend: str = "torch", device: Any = "cpu") -> Any:
        """One PIL image, file, open file or uint8 array (h, w, c), as the model is given it."""
        return self.batch([image], backend=backend, device=device)[0]  # float32 (c, h, w)

    def batch(
        self,
        images: Sequence[Any],
        *,
        backend: str = "torch",
        device: Any = "cpu",
        channels_last: bool = False,
    ) -> Any:
        """The same for several images: float32 (B, c, h, w)."""
        stored = np.stack([self.stored(image) for image in images])
        ops = open_ops(backend, device, channels_last)
        images, _ = ops.place(stored, np.arange(len(stored)))
        return self.finisher(ops)(images)

    def stored(self, image: Any) -> np.ndarray:
        """An image as a dataset would keep it: uint8 (stored_size, stored_size, channels)."""
        shape = (self.stored_size, self.stored_size, self.stored_channels)
        if isinstance(image, np.ndarray):
            image = image[:, :, None] if image.ndim == 2 else image
            wrong = f"an image must be uint8 (h, w, c), not {image.dtype} {image.shape}"
            _need(image.dtype == np.uint8 and image.ndim == 3, wrong)
            if image.shape == shape:
                return np.asarray(image)
            from PIL import Image

            image = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
        form = Form(self.stored_size, self.stored_channels, self.fit)
        if isinstance(image, str | os.PathLike) or hasattr(image, "read"):
            return read_image(image, form, quick=False)
        return fit_image(image, form, quick=False)


def _need(ok: bool, problem: str) -> None:
    if not ok:
        raise OptionError(f"preprocess: {problem}")
