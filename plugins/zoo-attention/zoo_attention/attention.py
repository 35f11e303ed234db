"""Where a model looks in an image: what its capability `attention` says, beside what it saw."""

from __future__ import annotations

import base64
from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo import kit

SHARPEST = 1024  # pixels of an image that attention is drawn on, at most


@dataclass(frozen=True, repr=False)
class Attention:
    """What a model took an image for, and where each layer and head looked."""

    name: str  # of the image
    image: np.ndarray  # (h, w, 3), from 0 to 1: what the model saw, as sharp as the original
    label: str  # the most likely class; "" where there are no classes
    probability: float
    maps: np.ndarray  # (layers, heads, rows, columns); shares of the attention, at most 1 together

    def __repr__(self) -> str:
        layers, heads, rows, columns = self.maps.shape
        what = f"{layers} layers, {heads} heads, {rows} x {columns} patches"
        return f"Attention({self.name}: {self.label} {100 * self.probability:.1f} %; {what})"

    def draw(self, path: str | Path, *, heads: bool = False) -> None:
        """Write the plot: the mean over the heads of each layer, or each head."""
        from zoo_attention.drawing import plot

        with kit.os_errors(f"{path} could not be written"):
            kit.save_figure(plot(self, heads), Path(path))

    def _repr_html_(self) -> str | None:
        """The plot, for a notebook."""
        try:
            with kit.temporary_folder() as folder:
                self.draw(folder / "plot.png")
                data = base64.b64encode((folder / "plot.png").read_bytes()).decode()
        except Exception:  # the text says the same
            return None
        source = f"data:image/png;base64,{data}"
        return f"<img alt='{escape(repr(self))}' style='max-width:100%' src='{source}'>"


def attention(run: Any, image: Any, *, device: str = "auto", runs: Path | None = None) -> Attention:
    """Where a transformer looks in one image, layer by layer and head by head.

        seen = attention("nano_vit_p4.cifar10", "cat.jpg")   # a notebook draws it
        seen.draw("cat.png", heads=True)
        seen.maps                                            # (layers, heads, rows, columns)

    run: a run, weights, or a model that `zoo.load` returned, which stays on its device. image: one,
    as `zoo.predict` takes it.
    """
    (name, found), *others = kit.named_images(run, [image])
    if others or (isinstance(found, Path) and found != Path(image)):  # one of several, or alone
        raise zoo.UsageError(f"{image} is a folder, and attention is drawn for one image")
    model = kit.loaded(run, runs, device)
    about, image = model.zoo, kit.opened(found)
    look = kit.capability(about.entry, "attention")
    maps = look(model, kit.as_input(model, [image]))
    if not isinstance(maps, np.ndarray) or maps.ndim != 5 or maps.shape[1] != 1:
        found = maps.shape if isinstance(maps, np.ndarray) else type(maps).__name__
        raise zoo.UsageError(
            f"the attention of model {about.entry.name!r} must be an array of (layers, images, "
            f"heads, rows, columns), not {found}",
            "docs/hooks.md says what the capability returns",
        )
    best = ("", 1.0)
    with suppress(zoo.UsageError):  # it answers nothing about an image, or has no classes
        best = next(iter(zoo.predict(model, image, top=1)[0].classes), best)
    return Attention(Path(name).name, as_seen(about.preprocess, image), *best, maps[:, 0])


def as_seen(preprocess: zoo.Preprocess, image: Any) -> np.ndarray:
    """The part of an image that a model is given, in colour and as sharp as the image is."""
    if isinstance(image, np.ndarray):
        sides = image.shape[:2]
    elif hasattr(image, "getbands"):
        sides = image.size
    else:
        with kit.open_image(image) as opened:
            sides = opened.size
    whole = preprocess.resize or preprocess.size
    factor = max(1.0, min(*sides, SHARPEST) / whole)
    sharp = replace(
        preprocess, channels=3, stored_channels=3, mean=(0.0,) * 3, std=(1.0,) * 3,
        size=round(factor * preprocess.size), resize=round(factor * preprocess.resize),
        stored_size=round(factor * whole),
    )  # fmt: skip
    seen: np.ndarray = sharp(image, backend="numpy").transpose(1, 2, 0)
    return seen.clip(0, 1)
