"""Images that are arrays: NumPy files, and what a program has in memory."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from zoo_core.data.originals import Originals, each
from zoo_core.data.sources import Arrays
from zoo_core.data.tables import Table, table_originals
from zoo_core.io.errors import DataError, UsageError
from zoo_core.io.targets import describe


class InProgram(NamedTuple):
    """An object that is used as a dataset."""

    name: str  # for people and for run directories
    words: str  # "100 images of 32 x 32 x 3"
    reader: str  # of the zoo, whose options it has
    make: Callable[[Mapping[str, Any]], Originals | Arrays]


def array_file(*, path: str, test_fraction: float, seed: int) -> Arrays:
    """The target of the reader `arrays`."""
    try:
        found = np.load(path, allow_pickle=False)
        given = {"images": found} if isinstance(found, np.ndarray) else dict(found)
    except Exception as error:  # a damaged archive makes zipfile and NumPy raise almost anything
        raise DataError(f"{path} cannot be read as NumPy arrays: {describe(error)}") from error
    return divided(given, test_fraction, seed)


def divided(given: Mapping[str, Any], test_fraction: float, seed: int) -> Arrays:
    """Arrays called as in docs/datasets.md; `images` and `labels` are divided into parts."""
    arrays = {name: value for name, value in given.items() if value is not None}
    for name in ("images", "labels"):  # validation images are for testing where no others are
        if (value := arrays.pop(f"val_{name}", None)) is not None:
            arrays.setdefault(f"test_{name}", value)
    for name in [name for name in arrays if name.endswith("labels")]:
        labels = np.asarray(arrays[name])
        arrays[name] = labels = labels[:, 0] if labels.shape[1:] == (1,) else labels
        if labels.dtype.kind in "UO":
            known, arrays[name] = np.unique(labels.astype(str), return_inverse=True)
            arrays["classes"] = known.tolist()
    if "classes" in arrays:
        arrays["classes"] = list(map(str, arrays["classes"]))
    if "images" in arrays:
        images, labels = np.asarray(arrays.pop("images")), arrays.pop("labels", None)
        rule = Originals(names=range(len(images)), read=bytes, key=None, labels=labels)
        for part, rows in rule.divided(test_fraction, seed).items():
            if len(rows):
                arrays[f"{part}_images"] = images[rows]
                arrays[f"{part}_labels"] = None if labels is None else labels[rows]
    return arrays


def in_program(given: Any) -> InProgram:
    """What an object is as a dataset; a sentence where it cannot be one."""
    if isinstance(given, Mapping):
        words = ", ".join(f"{name} {np.shape(value)}" for name, value in given.items())
        return InProgram("arrays", words, "arrays", lambda o: _divided(given, o))
    if hasattr(given, "iloc") and hasattr(given, "columns"):
        words = f"a DataFrame of {len(given):,} rows"
        return InProgram("dataframe", words, "table", lambda o: _data_frame(given, o))
    images, labels = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if isinstance(images, np.ndarray) and images.dtype == np.uint8 and images.ndim in (3, 4):
        words = f"an array of {len(images):,} images, {' x '.join(map(str, images.shape[1:]))}"
        both = {"images": images, "labels": labels}
        return InProgram("arrays", words, "arrays", lambda o: _divided(both, o))
    if not (hasattr(images, "__getitem__") and hasattr(images, "__len__")):
        what = f"{type(given).__name__} cannot be used as a dataset"
        hint = "give (images, labels), a pandas DataFrame, or a torch Dataset of (image, label)"
        raise UsageError(what, hint)
    name = type(images).__name__
    words = f"{name} of {len(images):,} images"
    return InProgram(name.lower(), words, "image_folder", lambda o: _items(images, labels))


def _divided(given: Mapping[str, Any], options: Mapping[str, Any]) -> Arrays:
    return divided(given, options["test_fraction"], options["seed"])


def _items(items: Any, labels: Sequence[Any] | None) -> Originals:
    """A torch Dataset of (image, label), or images of several sizes with labels beside them."""

    def image(number: int) -> bytes:
        return as_file(items[number] if labels is not None else _pair(items[number])[0])

    def look(number: int) -> tuple[str, Any]:
        found, label = (items[number], None) if labels is not None else _pair(items[number])
        return hashlib.sha256(as_file(found)).hexdigest(), label

    seen = list(each(look, range(len(items)), "looking at images"))
    told = list(labels) if labels is not None else [label for _, label in seen]
    arrays = {} if not told or told[0] is None else divided({"train_labels": _stacked(told)}, 0, 0)
    known = arrays.get("classes") or getattr(items, "classes", None)
    return Originals(
        names=[f"item {number}" for number in range(len(items))],
        read=image,
        key=[digest for digest, _ in seen],
        labels=arrays.get("train_labels"),
        classes=list(map(str, known)) if known is not None else None,
    )


def _pair(item: Any) -> tuple[Any, Any]:
    return item if isinstance(item, tuple | list) and len(item) == 2 else (item, None)


def _stacked(labels: Sequence[Any]) -> np.ndarray:
    try:
        return np.stack([np.asarray(label) for label in labels])
    except ValueError as error:
        raise DataError(f"the labels differ in shape: {error}") from error


def _data_frame(frame: Any, options: Mapping[str, Any]) -> Originals:
    columns = list(map(str, frame.columns))
    first = {name: next(iter(frame.iloc[:, k]), None) for k, name in enumerate(columns)}
    images = [name for name, cell in first.items() if _is_image(cell)]

    def read(column: str, row: int) -> bytes:
        return as_file(frame.iloc[row, columns.index(column)])

    def rows(asked: Sequence[str]) -> Any:
        found = [frame.iloc[:, columns.index(name)].tolist() for name in asked]
        return ((f"row {n}", cells) for n, cells in enumerate(zip(*found, strict=True)))

    digests = [hashlib.sha256(read(name, row)).hexdigest() for name in images
               for row in range(len(frame))]  # fmt: skip
    table = Table(
        name="the DataFrame", columns=columns, rows=rows, folder=Path.cwd(), images=images,
        read=read, key=digests,
    )  # fmt: skip
    asked = {name: options[name] for name in ("image", "target", "labels")}
    return table_originals(table, **asked)


def _is_image(cell: Any) -> bool:
    array = isinstance(cell, np.ndarray) and cell.ndim > 1
    return array or isinstance(cell, bytes | dict | Image.Image)


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
        if array.dtype.kind == "f":
            if not (array.min(initial=0) >= 0 and array.max(initial=0) <= 1):
                what = f"an image has values from {array.min():.2f} to {array.max():.2f}"
                raise DataError(what, "give images before they are normalised: floats from 0 to 1")
            array = np.rint(array * 255).astype(np.uint8)
        array = array[:, :, 0] if array.shape[2:] == (1,) else array
        if array.dtype != np.uint8 or array.ndim not in (2, 3):
            raise DataError(f"{array.dtype} of shape {array.shape} is not an image")
        image = Image.fromarray(array)
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()
