"""Images that are arrays: NumPy files, and what a program has in memory."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from zoo_core.data.originals import Arrays, Originals, each
from zoo_core.data.tables import Table, table_originals
from zoo_core.io.errors import DataError, UsageError
from zoo_core.io.targets import describe


def array_file(*, path: str, test_fraction: float, seed: int) -> Arrays:
    """The target of the reader `arrays`."""
    try:
        found = np.load(path, allow_pickle=False)
        given = {"images": found} if isinstance(found, np.ndarray) else dict(found)
    except Exception as error:  # a damaged archive makes zipfile and NumPy raise almost anything
        raise DataError(f"{path} cannot be read as NumPy arrays: {describe(error)}") from error
    return divided(given, test_fraction, seed)


def divided(given: Mapping[str, Any], test_fraction: float, seed: int, path: None = None) -> Arrays:
    """Arrays called as in docs/datasets.md; `images` and `labels` are divided into parts."""
    arrays = {name: value for name, value in given.items() if value is not None}
    for name in ("images", "labels"):  # validation images are for testing where no others are
        if (value := arrays.pop(f"val_{name}", None)) is not None:
            arrays.setdefault(f"test_{name}", value)
    labelled = {name: np.asarray(arrays[name]) for name in arrays if name.endswith("labels")}
    for name, labels in labelled.items():
        arrays[name] = labels[:, 0] if labels.shape[1:] == (1,) else labels
    if any(labels.dtype.kind in "UO" for labels in labelled.values()):
        texts = {name: arrays[name].astype(str) for name in labelled}
        known = np.unique(np.concatenate([*texts.values()]))
        arrays |= {name: np.searchsorted(known, labels) for name, labels in texts.items()}
        arrays["classes"] = known
    if "classes" in arrays:
        arrays["classes"] = [str(name) for name in arrays["classes"]]
    if "images" in arrays:
        images, labels = np.asarray(arrays.pop("images")), arrays.pop("labels", None)
        _same_count(images, labels)
        rule = Originals(names=[""] * len(images), read=bytes, key=None, labels=labels)
        for part, rows in rule.divided(test_fraction, seed).items():
            if len(rows) or part == "train":
                arrays[f"{part}_images"] = images[rows]
                arrays[f"{part}_labels"] = None if labels is None else labels[rows]
    return arrays


def _same_count(images: Any, labels: Any) -> None:
    if labels is not None and len(labels) != len(images):
        raise DataError(f"there are {len(labels):,} labels for {len(images):,} images")


class InProgram(NamedTuple):
    """An object that is used as a dataset."""

    name: str  # for people and for run directories
    words: str  # "a DataFrame of 100 rows"
    reader: str  # of the zoo, whose options it has
    make: Callable[..., Originals | Arrays]  # called with those options


def in_program(given: Any) -> InProgram:
    """What an object is as a dataset; a sentence where it cannot be one."""
    if hasattr(given, "iloc") and hasattr(given, "columns"):
        words = f"a DataFrame of {len(given):,} rows"
        return InProgram("dataframe", words, "table", partial(_data_frame, given))
    images, labels = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if isinstance(images, np.ndarray) and images.dtype == np.uint8:
        given = {"images": images, "labels": labels}
    if isinstance(given, Mapping):
        shapes = (f"{name} {np.shape(value)}" for name, value in given.items() if value is not None)
        make = partial(divided, given)
        return InProgram("arrays", f"arrays: {', '.join(shapes)}", "arrays", make)
    if not (hasattr(images, "__getitem__") and hasattr(images, "__len__")):
        what = f"{type(given).__name__} cannot be used as a dataset"
        hint = "give (images, labels), a pandas DataFrame, or a torch Dataset of (image, label)"
        raise UsageError(what, hint)
    words = f"{type(images).__name__} of {len(images):,} images"
    name = type(images).__name__.lower()
    return InProgram(name, words, "image_folder", partial(_items, images, labels))


def _items(images: Any, labels: Sequence[Any] | None, path: None = None) -> Originals:
    """A torch Dataset of (image, label), or images of any sizes with labels beside them."""
    _same_count(images, labels)

    def item(number: int) -> tuple[Any, Any]:
        found = images[number]
        pair = labels is None and isinstance(found, tuple | list) and len(found) == 2
        return (found[0], found[1]) if pair else (found, None if labels is None else labels[number])

    def look(number: int) -> tuple[str, Any]:
        image, label = item(number)
        return hashlib.sha256(as_file(image)).hexdigest(), label

    digests, told = zip(*each(look, range(len(images)), "looking at images"), strict=True)
    found: dict[str, Any] = {"classes": getattr(images, "classes", None)}
    if told[0] is not None:
        try:
            found["labels"] = np.stack([np.asarray(one) for one in told])
        except ValueError as error:
            raise DataError(f"the labels differ in shape: {error}") from error
    found = dict(divided(found, 0, 0))
    return Originals(
        names=[f"item {number}" for number in range(len(images))],
        read=lambda number: as_file(item(number)[0]),
        key=digests,
        labels=found.get("labels"),
        classes=found.get("classes"),
    )


def _data_frame(frame: Any, *, path: None, root: None, **options: Any) -> Originals:
    columns = [str(name) for name in frame.columns]
    first = [next(iter(frame.iloc[:, k]), None) for k in range(len(columns))]
    kinds = (bytes, dict, np.ndarray, Image.Image)
    images = [name for name, cell in zip(columns, first, strict=True) if isinstance(cell, kinds)]

    def read(column: str, row: int) -> bytes:
        return as_file(frame.iloc[row, columns.index(column)])

    def rows(asked: Sequence[str]) -> Any:
        cells = [frame.iloc[:, columns.index(name)].tolist() for name in asked]
        cells = [[str(c) if isinstance(c, Path) else c for c in column] for column in cells]
        return ((f"row {number}", row) for number, row in enumerate(zip(*cells, strict=True)))

    every = [(name, row) for name in images for row in range(len(frame))]
    table = Table(
        name="the DataFrame", columns=columns, rows=rows, folder=Path.cwd(), images=images,
        read=read, key=[hashlib.sha256(read(*one)).hexdigest() for one in every],
    )  # fmt: skip
    return table_originals(table, **options)


def as_file(image: Any) -> bytes:
    """An image of a program as the bytes of an image file: PNG, which loses nothing.

    image: such bytes, {"bytes": ...}, a PIL image, an array (h, w) or (h, w, c), or a tensor
    (c, h, w); uint8, or floats from 0 to 1.
    """
    image = image["bytes"] if isinstance(image, dict) else image
    if isinstance(image, bytes):
        return image
    if not isinstance(image, Image.Image):
        tensor = hasattr(image, "detach")
        array = np.asarray(image.detach().cpu() if tensor else image)
        array = np.moveaxis(array, 0, 2) if tensor and array.ndim == 3 else array
        if array.dtype.kind == "f" and array.min(initial=0) >= 0 and array.max(initial=0) <= 1:
            array = np.rint(array * 255).astype(np.uint8)
        if array.dtype != np.uint8 or array.ndim not in (2, 3):
            what = f"an image is {array.dtype} of shape {array.shape}, from {array.min()} to "
            hint = "give images before they are normalised: uint8, or floats from 0 to 1"
            raise DataError(f"{what}{array.max()}", hint)
        image = Image.fromarray(array[:, :, 0] if array.shape[2:] == (1,) else array)
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()
