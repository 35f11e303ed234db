"""What a model finds alike: the nearest images of a dataset, and a map of the dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo import kit

AT_ONCE = 64  # images whose features are asked for at once
COLUMNS = 6  # of a sheet, which begins with the image itself


@dataclass(frozen=True, repr=False)
class Nearest:
    """The images of a split that a model finds most like one image, the nearest first."""

    rows: np.ndarray  # (k,) places in the split
    similarity: np.ndarray  # (k,) cosines of the features
    labels: tuple[str, ...]  # (k,) in words; "" where there are none
    images: np.ndarray = field(compare=False)  # uint8 (1 + k, h, w, c); the first is the image

    def __repr__(self) -> str:
        both = zip(self.labels, self.similarity, strict=True)
        return f"Nearest({', '.join(f'{label} {share:.2f}' for label, share in both)})"

    def draw(self, path: str | Path, title: str = "") -> list[Path]:
        """Write a sheet of the image and those that are near; its pages."""
        both = zip(self.labels, self.similarity, strict=True)
        captions = ["this image", *(f"{label} {share:.2f}" for label, share in both)]
        with kit.os_errors(f"{path} could not be written"):
            return kit.write_sheet(Path(path), self.images, captions, columns=COLUMNS, title=title)


@dataclass(frozen=True, repr=False)
class FeatureMap:
    """The images of a split in the plane, where near ones have features that are alike."""

    places: np.ndarray  # (n, 2)
    rows: np.ndarray  # (n,) places in the split
    labels: np.ndarray  # (n,) numbers of classes; 0 where there are none
    classes: tuple[str, ...]

    def draw(self, path: str | Path, title: str = "") -> None:
        """Write the plot, a colour for each class."""
        from zoo_vae.drawing import draw_codes

        what = f"t-SNE of the features of {len(self.places):,} images"
        figure = draw_codes(self.places, {title: self.labels}, self.classes, what)
        with kit.os_errors(f"{path} could not be written"):
            kit.save_figure(figure, Path(path))


def nearest(
    run: Any, image: Any, dataset: Any = "", *, count: int = 11, split: str = "train",
    options: Mapping[str, Any] | None = None, device: str = "auto", runs: Path | None = None,
) -> Nearest:  # fmt: skip
    """The images of a dataset that a model finds most like one image.

        found = nearest("efficientnet_lite0_finetune", "cat.jpg", "cifar10")
        found.rows, found.labels
        found.draw("nearest.png")

    run: a run, weights, or a model that `zoo.load` returned. image: one, as `zoo.predict` takes it.
    dataset: "" takes the one that the model was trained on. options: of the data.
    """
    (_, given), *others = kit.named_images(run, [image])
    if others:
        raise zoo.UsageError(f"{image} is a folder, and the nearest are found for one image")
    if count < 1:
        raise zoo.UsageError(f"the number of images must be at least 1, not {count}")
    model = kit.loaded(run, runs, device)
    own = _features(model, [kit.opened(given)])
    data, images = _opened(model, dataset, split, options)
    known = _known(model, data, images, split, np.arange(len(images)), own.shape[1])
    similar = (_unit(known) @ _unit(own).T)[:, 0]
    rows = np.argsort(-similar, kind="stable")[:count]
    how, labels = model.zoo.preprocess, images.labels
    words = [data.targets.caption(labels[i]) if labels is not None else "" for i in rows]
    shown = [how.stored(one) for one in (kit.opened(given), *(images.images[i] for i in rows))]
    return Nearest(rows, similar[rows], tuple(words), np.stack(shown))


def feature_map(
    run: Any, dataset: Any = "", *, count: int = 1000, split: str = "test", seed: int = 0,
    options: Mapping[str, Any] | None = None, device: str = "auto", runs: Path | None = None,
) -> FeatureMap:  # fmt: skip
    """A map of the images of a dataset, made with t-SNE from what a model finds in them.

    count: at most so many images, drawn with the seed. Everything else: as for `nearest`.
    """
    from zoo_vae.drawing import FEWEST, places_of

    model = kit.loaded(run, runs, device)
    data, images = _opened(model, dataset, split, options)
    rows = np.sort(np.random.default_rng(seed).permutation(len(images))[:count])
    if len(rows) < FEWEST:
        raise zoo.UsageError(f"a map needs at least {FEWEST} images, not {len(rows)}")
    places = places_of(_unit(_known(model, data, images, split, rows)))
    if images.labels is None or images.labels.ndim > 1:  # no colour for each
        return FeatureMap(places, rows, np.zeros(len(rows), np.int64), ("images",))
    return FeatureMap(places, rows, images.labels[rows], data.classes)


def _opened(
    model: Any, dataset: Any, split: str, options: Mapping[str, Any] | None
) -> tuple[zoo.Dataset, zoo.Split]:
    """The data, stored as that of the model's training where the dataset leaves it open."""
    kit.capability(model.zoo.entry, "features")
    how, given = model.zoo.preprocess, dict(options or {})
    stored = {"image_size": how.stored_size, "channels": how.stored_channels}
    reference = dataset or model.zoo.dataset
    try:
        data = zoo.open_dataset(reference, {**stored, **given}, fit=how.fit)
    except zoo.OptionError:  # images of one size, as in cifar10
        data = zoo.open_dataset(reference, given, fit=how.fit)
    found = data.split(split)
    if not found:
        raise zoo.UsageError(f"{data.name} has no {split} split", "choose another with --split")
    return data, found


def _known(
    model: Any, data: zoo.Dataset, images: zoo.Split, split: str, rows: np.ndarray, width: int = 0
) -> np.ndarray:
    """Features (n, width) of some images: from the cache, or computed."""
    for file in kit.kept_features() if getattr(model, "digest", "") else ():
        key = (progress := file.progress()) and progress.key
        wanted = (model.digest, model.zoo.preprocess.to_dict(), data.digest, split, "plain")
        names = ("weights", "preprocess", "dataset", "split", "view")
        if key and tuple(key[name] for name in names) == wanted:
            found = file.load()
            if found is not None and width in (0, found.array.shape[1]):
                file.used()
                return np.asarray(found.array[rows], np.float32)
    parts = []
    with kit.progress(f"features of {data.name}", len(rows)) as advance:
        for start in range(0, len(rows), AT_ONCE):
            some = [images.images[i] for i in rows[start : start + AT_ONCE]]
            parts.append(_features(model, some))
            advance(len(some))
    return np.concatenate(parts)


def _features(model: Any, images: Any) -> np.ndarray:
    look = kit.capability(model.zoo.entry, "features")
    return np.asarray(look(model, kit.as_input(model, images)), np.float32)


def _unit(features: np.ndarray) -> np.ndarray:
    """Rows of length 1, so that products are cosines."""
    return np.asarray(features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12))
