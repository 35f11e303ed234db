"""A user's own pictures: class sub-folders, or one folder without labels, split one way or another.

Looking at the names is quick and happens on every use; decoding happens once, and again only when a
file or an option has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any, TypeVar

import numpy as np

from zoo_core.data.draws import permutation
from zoo_core.data.images import GREY_MODES, SUFFIXES, open_picture, read_picture
from zoo_core.data.sources import Arrays, Source
from zoo_core.io.console import progress
from zoo_core.io.errors import DataError, OptionError

VERSION = 1  # of the decoding; raise it when the same files give other arrays
LARGEST_DEFAULT_SIZE = 64
SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test"}
SPLITS |= {"val": "val", "valid": "val", "validation": "val"}
SKIPPED_FOLDERS = ("__MACOSX", "@eaDir")

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Picture:
    path: str  # relative, with /
    label: str | None
    size: int
    mtime: int


@dataclass(frozen=True)
class Listing:
    """The pictures of a folder in the order of their names, before any is opened."""

    splits: dict[str, list[Picture]]  # "all", or "train" and "test"
    classes: tuple[str, ...]
    ignored: int  # files that are no pictures


def image_folder(
    *,
    path: str | None = None,
    image_size: int | None = None,
    channels: int | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
) -> list[Source]:
    """The target of the dataset entry `image_folder`."""
    if path is None:
        raise OptionError("image_folder needs a path", "write ./my_pictures in place of a name")
    _require("image_size", image_size, image_size is None or _whole(image_size, 4, 1024), "4..1024")
    _require("channels", channels, channels in (None, 1, 3), "1 or 3")
    _require("seed", seed, _whole(seed, 0, 2**63), "a whole number")
    good = isinstance(test_fraction, int | float) and 0 <= test_fraction < 1
    _require("test_fraction", test_fraction, good, "at least 0 and below 1")
    root = Path(path).expanduser()
    listing = list_folder(root)

    def fetch(_: Path) -> Arrays:
        return decode(root, listing, image_size, channels, float(test_fraction), seed)

    files = [
        (part, p.path, p.size, p.mtime) for part, list_ in listing.splits.items() for p in list_
    ]
    ignored = f"; {listing.ignored} other files are ignored" if listing.ignored else ""
    kinds = f"of {len(listing.classes)} classes" if listing.classes else "without labels"
    return [
        Source(
            name=f"decoding {len(files)} pictures {kinds}{ignored}",
            fetch=fetch,
            needs="nothing",
            key=hashlib.sha256(json.dumps([VERSION, files]).encode()).hexdigest(),
        )
    ]


# ---------------------------------------------------------------- names


def list_folder(root: Path) -> Listing:
    """What is where; raises DataError where the folder cannot be understood."""
    if not root.is_dir():
        exists = root.exists()
        raise DataError(
            f"{root} is not a folder" if exists else f"there is no folder {root}",
            "name a folder that holds one folder of pictures for each class",
        )
    try:
        folders = _sub_folders(root)
        parts = {SPLITS.get(name.lower(), ""): root / name for name in folders}
        if "train" in parts and "" not in parts:
            if len(parts) < len(folders):
                raise DataError(f"{root} has two folders for one split: {', '.join(folders)}")
            return _by_folders(root, parts)
        pictures, ignored = _labelled(root)
        return _listing({"all": pictures}, ignored, root)
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error


def _by_folders(root: Path, parts: dict[str, Path]) -> Listing:
    """train/ and test/, or val/ in its place; with train/ alone the fraction decides."""
    test = parts.get("test") or parts.get("val")
    train_pictures, ignored = _labelled(parts["train"], root)
    if stray := [entry.name for entry in os.scandir(root) if _is_picture(entry)]:
        raise DataError(f"{root} has pictures beside its train folder, {min(stray)} for example")
    if test is None:
        return _listing({"all": train_pictures}, ignored, root)
    test_pictures, more = _labelled(test, root)
    for name, other in parts.items():
        if name == "val" and other != test:
            more += sum(1 for _ in _files_below(other))
    known = {picture.label for picture in train_pictures}
    for picture in test_pictures:
        if picture.label not in known:
            what = "has no class folders" if picture.label is None else f"has {picture.label!r}"
            raise DataError(f"{test} {what}, unlike {parts['train']}")
    return _listing({"train": train_pictures, "test": test_pictures}, ignored + more, root)


def _labelled(folder: Path, root: Path | None = None) -> tuple[list[Picture], int]:
    """The pictures in class folders, or in the folder itself, and the number of other files."""
    root = root or folder
    pictures: list[Picture] = []
    ignored, empty = 0, []
    for name in _sub_folders(folder):
        label = unicodedata.normalize("NFC", name)
        before = len(pictures)
        for entry in _files_below(folder / name):
            if _is_picture(entry):
                pictures.append(_picture(entry, root, label))
            else:
                ignored += 1
        if len(pictures) == before:
            empty.append(name)
    flat = []
    for entry in os.scandir(folder):
        if entry.is_file() and _is_picture(entry):
            flat.append(_picture(entry, root, None))
        elif entry.is_file():
            ignored += 1
    if flat and pictures:
        raise DataError(
            f"{folder} mixes class folders with pictures of its own, {flat[0].path} for example",
            "move them into class folders, or name a folder that has only one of the two",
        )
    if not flat and not pictures:
        raise DataError(f"{folder} holds no pictures", f"looked for: {' '.join(SUFFIXES)}")
    if pictures and empty:
        raise DataError(f"the class folder {folder / empty[0]} holds no pictures")
    return sorted(flat or pictures, key=lambda picture: picture.path), ignored


def _listing(splits: dict[str, list[Picture]], ignored: int, root: Path) -> Listing:
    first = next(iter(splits.values()))
    classes = sorted({picture.label for picture in first if picture.label is not None})
    if len(classes) == 1:
        raise DataError(
            f"{root} has one class only, {classes[0]!r}",
            "add a folder for a second class, or name the folder with the pictures themselves "
            "if they need no labels",
        )
    return Listing(splits, tuple(classes), ignored)


def _sub_folders(folder: Path) -> list[str]:
    names = (entry.name for entry in os.scandir(folder) if entry.is_dir())
    return sorted(n for n in names if not n.startswith(".") and n not in SKIPPED_FOLDERS)


def _files_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    waiting = [str(folder)]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in SKIPPED_FOLDERS:
                    waiting.append(entry.path)
            elif entry.is_file():
                yield entry


def _is_picture(entry: os.DirEntry[str]) -> bool:
    name = entry.name.lower()
    return name.endswith(SUFFIXES) and not name.startswith(".") and entry.is_file()


def _picture(entry: os.DirEntry[str], root: Path, label: str | None) -> Picture:
    facts = entry.stat()
    return Picture(
        Path(entry.path).relative_to(root).as_posix(), label, facts.st_size, facts.st_mtime_ns
    )


# ---------------------------------------------------------------- pixels


def decode(
    root: Path,
    listing: Listing,
    image_size: int | None,
    channels: int | None,
    test_fraction: float,
    seed: int,
) -> Arrays:
    """The arrays of all splits. A picture that cannot be read is named, and stops it."""
    splits = listing.splits
    if "all" in splits:
        splits = split_by_fraction(splits["all"], test_fraction, seed)
    if image_size is None or channels is None:
        everything = sorted(picture.path for part in splits.values() for picture in part)
        headers = _each(_header, [root / path for path in everything], "looking at pictures")
        sides, modes = zip(*headers, strict=True)
        image_size = image_size or min(median_low(sides), LARGEST_DEFAULT_SIZE)
        channels = channels or (1 if GREY_MODES.issuperset(modes) else 3)
    index = {name: number for number, name in enumerate(listing.classes)}
    arrays: dict[str, Any] = {"classes": listing.classes}
    for part, pictures in splits.items():
        if pictures:
            paths = [root / picture.path for picture in pictures]
            arrays[f"{part}_images"] = _pixels(paths, image_size, channels, f"decoding {part}")
        if pictures and index:
            labels = [index[picture.label] for picture in pictures if picture.label is not None]
            arrays[f"{part}_labels"] = np.array(labels)
    return arrays


def _pixels(paths: Sequence[Path], size: int, channels: int, label: str) -> np.ndarray:
    images = np.empty((len(paths), size, size, channels), np.uint8)

    def read(position: int) -> None:
        images[position] = read_picture(paths[position], size, channels)

    _each(read, range(len(paths)), label)
    return images


def split_by_fraction(
    pictures: Sequence[Picture], test_fraction: float, seed: int
) -> dict[str, list[Picture]]:
    """The same pictures for training and test on every machine, in proportion from each class."""
    by_class: dict[str, list[int]] = {}
    for position, picture in enumerate(pictures):
        by_class.setdefault(picture.label or "", []).append(position)
    test: set[int] = set()
    for label, positions in by_class.items():
        wanted = int(len(positions) * test_fraction + 0.5) or bool(test_fraction)
        order = permutation(len(positions), seed, purpose=f"test/{label}")
        chosen = order[: min(wanted, len(positions) - 1)]
        test.update(positions[i] for i in chosen)
    return {
        "train": [picture for i, picture in enumerate(pictures) if i not in test],
        "test": [picture for i, picture in enumerate(pictures) if i in test],
    }


def _header(path: Path) -> tuple[int, str]:
    with open_picture(path) as image:
        return min(image.size), image.mode


def _each(function: Callable[[T], R], items: Sequence[T], label: str) -> list[R]:
    """Apply a function to all items, some at a time; the first failure in order is raised."""
    results = []
    with (
        warnings.catch_warnings(),
        progress(label, len(items)) as advance,
        ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool,
    ):
        warnings.simplefilter("ignore")  # Pillow's remarks on odd files; what counts is an error
        for result in pool.map(function, items):
            results.append(result)
            advance(1)
    return results


def _whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _require(name: str, value: object, good: bool, wanted: str) -> None:
    if not good:
        raise OptionError(f"image_folder: {name} must be {wanted}, not {value!r}")
