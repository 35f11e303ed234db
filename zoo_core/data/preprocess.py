"""What happens to every picture before a model sees it; this travels in run.json and with weights.

The loader and `preprocess(picture)` share `finisher`, so that one picture gives the same bits alone
as it gave in a batch of training or evaluation.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from zoo_core.data.dataset import Dataset
from zoo_core.data.ops import LUMA, Ops, open_ops
from zoo_core.io.errors import OptionError, did_you_mean

SETTINGS = ("size", "channels", "mean", "std", "resize", "interpolation")  # of a recipe
INTERPOLATIONS = ("bilinear", "bicubic")
# Checked before anything of that size is made: records come from strangers too.
MOST = {"channels": 64, "stored_channels": 64} | dict.fromkeys(
    ("size", "stored_size", "resize"), 16384
)


@dataclass(frozen=True)
class Preprocess:
    """Size, channels and normalisation of what a model is given."""

    size: int  # pixels of both sides
    channels: int  # 1 or 3
    mean: tuple[float, ...]  # one for each channel, of pixels in [0, 1]
    std: tuple[float, ...]
    resize: int = 0  # larger than `size`: resize to this, then cut `size` out of the middle
    interpolation: str = "bilinear"  # or bicubic: from the stored size to `size` or `resize`
    stored_size: int = 0  # of the pictures in the dataset; 0: as `size`
    stored_channels: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "stored_size", self.stored_size or self.size)
        object.__setattr__(self, "stored_channels", self.stored_channels or self.channels)
        for name in ("size", "channels", "stored_size", "stored_channels"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            _need(whole and value >= 1, f"{name} must be a whole number above 0, not {value!r}")
        _need(
            type(self.resize) is int and (self.resize == 0 or self.resize >= self.size),
            f"resize must be a whole number of at least the size, {self.size}, not {self.resize!r}",
        )
        for name, most in MOST.items():
            value = getattr(self, name)
            _need(value <= most, f"{name} must be at most {most}, not {value}")
        pair = {self.channels, self.stored_channels}
        _need(
            len(pair) == 1 or pair == {1, 3},
            f"{self.stored_channels} channels cannot become {self.channels}; 1 and 3 can",
        )
        for name in ("mean", "std"):
            values = getattr(self, name)
            values = (values,) if isinstance(values, int | float) else values  # --set mean=0.5
            ok = isinstance(values, list | tuple) and all(
                isinstance(value, int | float) and math.isfinite(value) for value in values
            )
            _need(ok, f"{name} must be one number for each channel, not {values!r}")
            values = tuple(float(value) for value in values)
            values = values * self.channels if len(values) == 1 else values
            _need(
                len(values) == self.channels,
                f"{name} has {len(values)} numbers for {self.channels} channels",
            )
            object.__setattr__(self, name, values)
        _need(all(value > 0 for value in self.std), f"std must be above 0, not {self.std!r}")
        _need(
            self.interpolation in INTERPOLATIONS,
            f"interpolation must be {' or '.join(INTERPOLATIONS)}, not {self.interpolation!r}",
        )

    @classmethod
    def for_dataset(
        cls, dataset: Dataset, overrides: Mapping[str, Any] | None = None
    ) -> Preprocess:
        """What a dataset needs, with the `preprocess` of a recipe on top."""
        overrides = overrides or {}
        _known(overrides, SETTINGS)
        stored = {"stored_size": dataset.image_size, "stored_channels": dataset.channels}
        wanted = {"size": dataset.image_size, "channels": dataset.channels, **overrides}
        mean, std = dataset.mean, dataset.std
        if dataset.channels == 3 and wanted["channels"] == 1 and len(mean) == 3:
            mean = (sum(a * b for a, b in zip(mean, LUMA, strict=True)),)
            std = (sum(std) / 3,)  # the colours of a picture rise and fall together
        return cls(**{"mean": mean, "std": std, **stored, **wanted})

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Preprocess:
        _known(record, [spec.name for spec in fields(cls)])
        missing = [name for name in SETTINGS[:4] if name not in record]
        _need(not missing, f"{' and '.join(missing)} must be given")
        return cls(**record)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `resize` only where there is one."""
        record = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
        return {key: value for key, value in record.items() if key != "resize" or value}

    def finisher(self, ops: Ops) -> Callable[[Any], Any]:
        """The way from stored or augmented pictures to what the model is given."""
        # (x / 255 - mean) / std, as one multiplication and one addition.
        std = np.array(self.std)
        scale, bias = 1 / (255 * std), -np.array(self.mean) / std
        normalise = ops.normaliser(scale.astype(np.float32), bias.astype(np.float32), self.size)
        whole = self.resize or self.size
        edge = (whole - self.size) // 2

        def finish(images: Any) -> Any:
            if images.shape[1] != self.size or images.shape[2] != self.size:
                images = ops.resize(images, (whole, whole), self.interpolation)
                images = images[:, edge : edge + self.size, edge : edge + self.size]
            if images.shape[3] != self.channels:
                images = ops.recolour(images, self.channels)
            return normalise(images)  # float32 (B, c, h, w)

        return finish

    def __call__(self, picture: Any, *, backend: str = "torch", device: Any = "cpu") -> Any:
        """One PIL image, file or uint8 array (h, w, c), as the model is given it."""
        return self.batch([picture], backend=backend, device=device)[0]  # float32 (c, h, w)

    def batch(
        self,
        pictures: Sequence[Any],
        *,
        backend: str = "torch",
        device: Any = "cpu",
        channels_last: bool = False,
    ) -> Any:
        """The same for several pictures: float32 (B, c, h, w)."""
        stored = np.stack([self._stored(picture) for picture in pictures])
        ops = open_ops(backend, device, channels_last)
        images, _ = ops.place(stored, np.arange(len(stored)))
        return self.finisher(ops)(images)

    def _stored(self, picture: Any) -> np.ndarray:
        """The picture as the dataset would keep it."""
        shape = (self.stored_size, self.stored_size, self.stored_channels)
        if isinstance(picture, np.ndarray):
            picture = picture[:, :, None] if picture.ndim == 2 else picture
            _need(
                picture.dtype == np.uint8 and picture.ndim == 3,
                f"a picture must be uint8 (h, w, c), not {picture.dtype} {picture.shape}",
            )
            if picture.shape == shape:
                return np.asarray(picture)
            from PIL import Image

            picture = Image.fromarray(picture[:, :, 0] if picture.shape[2] == 1 else picture)
        from zoo_core.data.images import fit_picture, read_picture

        if isinstance(picture, str | os.PathLike):
            return read_picture(picture, *shape[1:])
        return fit_picture(picture, *shape[1:])


def _known(record: Mapping[str, Any], names: Sequence[str]) -> None:
    for key in record:
        if key not in names:
            hint = did_you_mean(key, names, f"it has {', '.join(names)}", most=2)
            raise OptionError(f"preprocess has no setting {key!r}", hint)


def _need(ok: bool, problem: str) -> None:
    if not ok:
        raise OptionError(f"preprocess: {problem}")
