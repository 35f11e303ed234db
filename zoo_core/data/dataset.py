"""A dataset: splits of images and labels, no framework; and what arrays of plugins must be."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from PIL import Image

from zoo_core.data.draws import subset_indices, train_validation
from zoo_core.data.images import Form, fit_image
from zoo_core.data.originals import Arrays
from zoo_core.data.targets import digest_of_targets, read_targets, strata
from zoo_core.io.errors import DataError
from zoo_core.spec.answers import CLASS, Targets
from zoo_core.spec.entries import DatasetEntry
from zoo_core.spec.recipe import Recipe

NAMES = ("train_images", "train_labels", "test_images", "test_labels")


@dataclass(frozen=True, repr=False)
class Split:
    """The images of one split and, unless nothing is known of them, their labels."""

    # uint8 (n, height, width, channels): an array, or one of data/stores.py, which is used like it
    images: Any
    # One class: int64 (n,), a place in `classes`. Several: uint8 (n, classes). Numbers: float32
    # (n, k). None: nothing is known.
    labels: np.ndarray | None
    names: Sequence[str] = ()  # of the images, where they have some: paths, rows of a table

    def __len__(self) -> int:
        return len(self.images)

    @property
    def store(self) -> str:
        """Where the images are: "memory", "packed" or "direct"."""
        return "memory" if isinstance(self.images, np.ndarray) else str(self.images.kind)

    def part(self, which: np.ndarray) -> Split:
        """Some of the images, in the same sort of store, and their labels."""
        own = self.images
        images = own[which] if isinstance(own, np.ndarray) else own.part(which)
        names = tuple(self.names[number] for number in which) if self.names else ()
        return Split(images, None if self.labels is None else self.labels[which], names)

    def __repr__(self) -> str:  # not the pixels
        labelled = "with" if self.labels is not None else "without"
        return f"Split({' x '.join(map(str, self.images.shape))}, {labelled} labels)"


@dataclass(frozen=True, repr=False)
class Dataset:
    """Everything that training needs to know about some images."""

    name: str
    train: Split
    test: Split | None
    targets: Targets
    mean: tuple[float, ...]  # one for each channel, of pixels in [0, 1]
    std: tuple[float, ...]
    digest: str  # sha256 of all that decides the arrays: names a dataset for caches and run.json
    digests: Mapping[str, str] = field(default_factory=dict)  # what an entry can pin
    left_out: Sequence[tuple[str, str]] = ()  # (name, reason) of images that cannot be used
    reference: str = ""  # what opens it again, from any folder
    corrections: Mapping[str, Any] = field(default_factory=dict)  # what `data.corrections` did

    def __repr__(self) -> str:  # not a thousand classes
        counted = f"{len(self.classes)} classes" if self.classes else "no classes"
        return f"Dataset({self.name}, train={self.train}, test={self.test}, {counted})"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; () where the labels are none, or numbers."""
        return self.targets.classes

    @property
    def channels(self) -> int:
        return int(self.train.images.shape[3])

    @property
    def image_size(self) -> int:
        return int(self.train.images.shape[1])

    def split(self, name: str) -> Split | None:
        """The split called "train" or "test"; None where the dataset does not have it."""
        return {"train": self.train, "test": self.test}[name]

    def parts(self, recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
        """Indices into the training split: what is trained on, what is kept for validation."""
        labels = strata(self.train.labels)
        indices = subset_indices(len(self.train), recipe.subset, recipe.seed, labels)
        if not recipe.validation_fraction:
            return indices, indices[:0]
        return train_validation(indices, recipe.validation_fraction, recipe.seed, labels)


def new_dataset(
    name: str,
    entry: DatasetEntry,
    targets: Targets,
    splits: Mapping[str, Split],
    digest: str,
    digests: Mapping[str, str],
    left_out: Sequence[tuple[str, str]] = (),
) -> Dataset:
    """A dataset of the splits "train" and, unless it is empty, "test"."""
    channels, test = splits["train"].images.shape[3], splits.get("test")

    def as_used(split: Split) -> Split:
        if split.labels is None or targets.kind != CLASS:
            return split
        return replace(split, labels=split.labels.astype(np.int64))

    def per_channel(values: tuple[float, ...]) -> tuple[float, ...]:
        return values if len(values) == channels else (sum(values) / len(values),) * channels

    return Dataset(
        name=name,
        train=as_used(splits["train"]),
        test=as_used(test) if test else None,
        targets=targets,
        mean=per_channel(entry.mean),
        std=per_channel(entry.std),
        digest=digest,
        digests=digests,
        left_out=left_out,
    )


@dataclass(frozen=True)
class CheckedArrays:
    """Arrays in the form in which they are kept, and what they hash to."""

    arrays: dict[str, np.ndarray]  # images uint8 (n, h, w, c); labels uint8, int64 from 257 classes
    targets: Targets
    digests: dict[str, str]

    def digest(self, name: str) -> str:
        """The SHA-256 of the pixels of an image, "train 17"."""
        part, number = name.split(" ")
        return hashlib.sha256(self.arrays[f"{part}_images"][int(number)].data).hexdigest()


def check_arrays(
    entry: DatasetEntry, given: Arrays, recorded: Mapping[str, str], *, declared: bool
) -> CheckedArrays:
    """The arrays as they are kept; raises DataError for the first thing that is wrong with them.

    recorded: digests of an earlier time. declared: whether the entry's sizes and digests apply.
    """
    given = {name: value for name, value in given.items() if value is not None}
    classes = given.pop("classes", entry.classes)
    numbers = given.pop("numbers", entry.numbers)
    if unknown := sorted(set(given) - set(NAMES)):
        hint = f"they are called {', '.join(NAMES)}"
        raise DataError(f"there is an unknown array {unknown[0]!r}", hint)
    parts = [part for part in ("train", "test") if f"{part}_images" in given]
    labelled = [part for part in ("train", "test") if f"{part}_labels" in given]
    if "train" not in parts:
        raise DataError("there are no train_images")
    if labelled and labelled != parts:
        raise DataError("there are labels for some of the images only")
    arrays: dict[str, np.ndarray] = {}
    for part in parts:
        arrays |= _checked_split(given, part)
    if len({arrays[f"{part}_images"].shape[1:] for part in parts}) > 1:
        raise DataError("training and test images differ in shape")
    given_labels = {name: arrays[name] for name in (f"{part}_labels" for part in labelled)}
    targets, labels = read_targets(given_labels, classes, numbers)
    arrays |= labels
    train, test = arrays["train_images"], arrays.get("test_images", ())
    sizes = (
        ("classes", len(entry.classes) if entry.classes else None, len(targets.classes)),
        ("channels", entry.in_channels, train.shape[3]),
        ("pixels a side", entry.image_size, train.shape[1]),
        ("training images", entry.train_size, len(train)),
        ("test images", entry.test_size, len(test)),
    )
    for what, wanted, size in sizes if declared else ():
        if wanted is not None and wanted != size:
            raise DataError(f"there are {size} {what}, and there should be {wanted}")
    with ThreadPoolExecutor() as pool:  # hashing lets other threads run
        hashes = pool.map(lambda array: hashlib.sha256(array.data).hexdigest(), arrays.values())
        digests = dict(zip(arrays, hashes, strict=True))
    digests |= digest_of_targets(targets)
    if recorded and set(recorded) != set(digests):
        raise DataError("the recorded digests are those of other arrays")
    check_digests(digests, {**recorded, **(entry.digests if declared else {})})
    return CheckedArrays(arrays, targets, digests)


def check_digests(digests: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise DataError for the first digest that is not the wanted one."""
    for name, digest in wanted.items():
        if (found := digests.get(name, "missing")) != digest:
            both = f"SHA-256 {found}, expected {digest}"
            raise DataError(f"{name} is not what it should be ({both})")


def squared(arrays: dict[str, np.ndarray], fit: str) -> dict[str, np.ndarray]:
    """Arrays whose images are square: as a file with the same pixels would be stored."""
    _, height, width, channels = arrays["train_images"].shape
    if height == width:
        return arrays
    form = Form(min(height, width) if fit == "crop" else max(height, width), channels, fit)

    def fitted(image: np.ndarray) -> np.ndarray:
        return fit_image(Image.fromarray(image[:, :, 0] if channels == 1 else image), form)

    return {
        name: np.stack([*map(fitted, array)]) if name.endswith("_images") else array
        for name, array in arrays.items()
    }


def _checked_split(given: Arrays, part: str) -> dict[str, np.ndarray]:
    name = f"{part}_images"
    images = np.asarray(given[name])
    if images.ndim == 3:  # grey
        images = images[..., None]
    if images.dtype != np.uint8 or images.ndim != 4:
        found = f"{images.dtype} of shape {images.shape}"
        raise DataError(f"{name} is {found}, and must be uint8 (n, height, width, channels)")
    if not images.size and not (part == "train" and len(given.get("test_images", ()))):
        raise DataError(f"{name} is empty")
    arrays = {name: np.ascontiguousarray(images)}
    name = f"{part}_labels"
    if name in given:
        labels = arrays[name] = np.asarray(given[name])
        if not labels.ndim:
            raise DataError(f"{name} is a single {labels.dtype}, not an array")
        if len(labels) != len(images):
            raise DataError(f"{name} has {len(labels)} labels for {len(images)} images")
    return arrays
