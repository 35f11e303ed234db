"""A user's own images: class sub-folders, or one folder without labels, split one way or another.

Looking at the names is quick and happens on every use; decoding happens once, and again only when a
file or an option has changed.
"""

from __future__ import annotations

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
from zoo_core.data.images import GREY_MODES, SUFFIXES, open_image, read_image
from zoo_core.data.sources import Arrays, Source
from zoo_core.io.console import progress
from zoo_core.io.documents import document_digest
from zoo_core.io.errors import DataError, OptionError

VERSION = 1  # of the decoding; raise it when the same files give other arrays
LARGEST_DEFAULT_SIZE = 64
SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test"}
SPLITS |= {"val": "val", "valid": "val", "validation": "val"}
SKIPPED_FOLDERS = ("__MACOSX", "@eaDir")

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class ImageFile:
    path: str  # relative, with /
    label: str | None
    size: int
    mtime: int


@dataclass(frozen=True)
class Listing:
    """The images of a folder in the order of their names, before any is opened."""

    splits: dict[str, list[ImageFile]]  # "all", or "train" and "test"
    classes: tuple[str, ...]
    ignored: int  # files that are not images


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
    for name, value, good, wanted in (
        ("image_size", image_size, image_size is None or _whole(image_size, 4, 1024), "4..1024"),
        ("channels", channels, channels in (None, 1, 3), "1 or 3"),
        ("seed", seed, _whole(seed, 0, 2**63), "a whole number"),
        ("test_fraction", test_fraction,
         isinstance(test_fraction, int | float) and 0 <= test_fraction < 1,
         "at least 0 and below 1"),
    ):  # fmt: skip
        if not good:
            raise OptionError(f"image_folder: {name} must be {wanted}, not {value!r}")
    root = Path(path).expanduser()
    listing = list_folder(root)

    def fetch(_: Path) -> Arrays:
        return decode(root, listing, image_size, channels, float(test_fraction), seed)

    files = [(part, f.path, f.size, f.mtime) for part, all_ in listing.splits.items() for f in all_]
    ignored = f"; {listing.ignored} other files are ignored" if listing.ignored else ""
    kinds = f"of {len(listing.classes)} classes" if listing.classes else "without labels"
    name = f"decoding {len(files)} images {kinds}{ignored}"
    return [Source(name, fetch, needs="nothing", key=document_digest([VERSION, files]))]


def _whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


# ---------------------------------------------------------------- names


def list_folder(root: Path) -> Listing:
    """What is where; raises DataError where the folder cannot be understood."""
    if not root.is_dir():
        raise DataError(
            f"{root} is not a folder" if root.exists() else f"there is no folder {root}",
            "name a folder that holds one folder of images for each class",
        )
    try:
        folders = _sub_folders(root)
        parts = {SPLITS.get(name.lower(), ""): root / name for name in folders}
        if "train" in parts and "" not in parts:
            if len(parts) < len(folders):
                raise DataError(f"{root} has two folders for one split: {', '.join(folders)}")
            splits, ignored = _by_folders(root, parts)
        else:
            files, ignored = _labelled(root, root)
            splits = {"all": files}
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error
    first = next(iter(splits.values()))
    classes = sorted({file.label for file in first if file.label is not None})
    if len(classes) == 1:
        raise DataError(
            f"{root} has one class only, {classes[0]!r}",
            "add a folder for a second class, or name the folder with the images themselves "
            "if they need no labels",
        )
    return Listing(splits, tuple(classes), ignored)


def _by_folders(root: Path, parts: dict[str, Path]) -> tuple[dict[str, list[ImageFile]], int]:
    """train/ and test/, or val/ in its place; with train/ alone the fraction decides."""
    train, ignored = _labelled(parts["train"], root)
    if stray := [entry.name for entry in os.scandir(root) if _is_image(entry)]:
        raise DataError(f"{root} has images beside its train folder, {min(stray)} for example")
    folder = parts.get("test") or parts.get("val")
    if folder is None:
        return {"all": train}, ignored
    test, more = _labelled(folder, root)
    if "test" in parts and "val" in parts:
        more += sum(1 for _ in _files_below(parts["val"]))
    known = {file.label for file in train}
    for file in test:
        if file.label not in known:
            what = "has no class folders" if file.label is None else f"has {file.label!r}"
            raise DataError(f"{folder} {what}, unlike {parts['train']}")
    return {"train": train, "test": test}, ignored + more


def _labelled(folder: Path, root: Path) -> tuple[list[ImageFile], int]:
    """The images in class folders, or in the folder itself, and the number of other files."""
    flat, ignored = _sorted_out((e for e in os.scandir(folder) if e.is_file()), root, None)
    files: list[ImageFile] = []
    empty = []
    for name in _sub_folders(folder):
        label = unicodedata.normalize("NFC", name)
        found, others = _sorted_out(_files_below(folder / name), root, label)
        files += found
        ignored += others
        if not found:
            empty.append(name)
    if flat and files:
        raise DataError(
            f"{folder} mixes class folders with images of its own, {flat[0].path} for example",
            "move them into class folders, or name a folder that has only one of the two",
        )
    if not flat and not files:
        raise DataError(f"{folder} holds no images", f"looked for: {' '.join(SUFFIXES)}")
    if files and empty:
        raise DataError(f"the class folder {folder / empty[0]} holds no images")
    return sorted(flat or files, key=lambda file: file.path), ignored


def _sorted_out(
    entries: Iterator[os.DirEntry[str]], root: Path, label: str | None
) -> tuple[list[ImageFile], int]:
    """The images among some files, and the number of the others."""
    files, ignored = [], 0
    for entry in entries:
        if not _is_image(entry):
            ignored += 1
            continue
        path, facts = Path(entry.path).relative_to(root).as_posix(), entry.stat()
        files.append(ImageFile(path, label, facts.st_size, facts.st_mtime_ns))
    return files, ignored


def _sub_folders(folder: Path) -> list[str]:
    return sorted(e.name for e in os.scandir(folder) if e.is_dir() and not _is_skipped(e))


def _files_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    waiting = [str(folder)]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                if not _is_skipped(entry):
                    waiting.append(entry.path)
            elif entry.is_file():
                yield entry


def _is_skipped(entry: os.DirEntry[str]) -> bool:
    return entry.name.startswith(".") or entry.name in SKIPPED_FOLDERS


def _is_image(entry: os.DirEntry[str]) -> bool:
    name = entry.name.lower()
    return name.endswith(SUFFIXES) and not name.startswith(".") and entry.is_file()


# ---------------------------------------------------------------- pixels


def decode(
    root: Path,
    listing: Listing,
    image_size: int | None,
    channels: int | None,
    test_fraction: float,
    seed: int,
) -> Arrays:
    """The arrays of all splits. An image that cannot be read is named, and stops it."""
    splits = listing.splits
    if "all" in splits:
        splits = _split_by_fraction(splits["all"], test_fraction, seed)
    if image_size is None or channels is None:
        everything = sorted(file.path for part in splits.values() for file in part)
        headers = _each(_header, [root / path for path in everything], "looking at images")
        sides, modes = zip(*headers, strict=True)
        image_size = image_size or min(median_low(sides), LARGEST_DEFAULT_SIZE)
        channels = channels or (1 if GREY_MODES.issuperset(modes) else 3)
    index = {name: number for number, name in enumerate(listing.classes)}
    arrays: dict[str, Any] = {"classes": listing.classes}
    for part, files in splits.items():
        if files:
            paths = [root / file.path for file in files]
            arrays[f"{part}_images"] = _pixels(paths, image_size, channels, f"decoding {part}")
        if files and index:
            labels = [index[file.label] for file in files if file.label is not None]
            arrays[f"{part}_labels"] = np.array(labels)
    return arrays


def _pixels(paths: Sequence[Path], size: int, channels: int, label: str) -> np.ndarray:
    images = np.empty((len(paths), size, size, channels), np.uint8)

    def read(position: int) -> None:
        images[position] = read_image(paths[position], size, channels)

    _each(read, range(len(paths)), label)
    return images


def _split_by_fraction(
    files: Sequence[ImageFile], test_fraction: float, seed: int
) -> dict[str, list[ImageFile]]:
    """The same images for training and test on every machine, in proportion from each class."""
    by_class: dict[str, list[int]] = {}
    for position, file in enumerate(files):
        by_class.setdefault(file.label or "", []).append(position)
    test: set[int] = set()
    for label, positions in by_class.items():
        wanted = int(len(positions) * test_fraction + 0.5) or bool(test_fraction)
        order = permutation(len(positions), seed, purpose=f"test/{label}")
        test.update(positions[i] for i in order[: min(wanted, len(positions) - 1)])
    return {
        "train": [file for i, file in enumerate(files) if i not in test],
        "test": [file for i, file in enumerate(files) if i in test],
    }


def _header(path: Path) -> tuple[int, str]:
    with open_image(path) as image:
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
