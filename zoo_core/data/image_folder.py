"""A user's own images: class sub-folders, or one folder without labels, split one way or another.

The names are looked at on every use; images are decoded again only when a file or option changes.
"""

from __future__ import annotations

import os
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median_low
from typing import Any, NamedTuple, TypeVar

import numpy as np

from zoo_core.data.draws import permutation
from zoo_core.data.images import GREY_MODES, SUFFIXES, open_image, read_image
from zoo_core.data.sources import Arrays, Source
from zoo_core.io.console import progress
from zoo_core.io.documents import document_digest
from zoo_core.io.errors import DataError, OptionError
from zoo_core.spec.recipe import Rule, between, check_rules, or_none

VERSION = 1  # of the decoding; raise it when the same files give other arrays
LARGEST_DEFAULT_SIZE = 64
SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test"}
SPLITS |= {"val": "val", "valid": "val", "validation": "val"}
SKIPPED_FOLDERS = ("__MACOSX", "@eaDir")

T = TypeVar("T")
R = TypeVar("R")


class ImageFile(NamedTuple):
    path: str  # relative, with /
    label: str | None
    size: int
    mtime: int


Splits = dict[str, list[ImageFile]]  # in the order of their names: "all", or "train" and "test"
RULES = {
    "image_size": or_none(between(4, 1024)),
    "channels": Rule(lambda v: v in (None, 1, 3), "1 or 3"),
    "test_fraction": Rule(
        lambda v: isinstance(v, int | float) and 0 <= v < 1, "at least 0 and below 1"
    ),
    "seed": between(0, 2**63),
}


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
        raise OptionError("image_folder needs a path", "write ./my_images in place of a name")
    check_rules("image_folder", locals(), RULES)
    root = Path(path).expanduser()
    listed, classes, ignored = list_folder(root)

    def header(path: Path) -> tuple[int, str]:
        with open_image(path) as image:
            return min(image.size), image.mode

    def fetch(_: Path) -> Arrays:
        """Decode all splits. An image that cannot be read is named, and stops it."""
        splits = listed
        if "all" in splits:
            splits = _split_by_fraction(splits["all"], float(test_fraction), seed)
        size, depth = image_size, channels
        if size is None or depth is None:
            everything = sorted(file.path for part in splits.values() for file in part)
            headers = _each(header, [root / path for path in everything], "looking at images")
            sides, modes = zip(*headers, strict=True)
            size = size or min(median_low(sides), LARGEST_DEFAULT_SIZE)
            depth = depth or (1 if GREY_MODES.issuperset(modes) else 3)
        arrays: dict[str, Any] = {"classes": classes}
        index: dict[str | None, int] = {name: number for number, name in enumerate(classes)}
        for part, files in splits.items():
            if files:
                paths = [root / file.path for file in files]
                arrays[f"{part}_images"] = _pixels(paths, size, depth, f"decoding {part}")
            if files and classes:
                arrays[f"{part}_labels"] = np.array([index[file.label] for file in files])
        return arrays

    files = [(part, f.path, f.size, f.mtime) for part, all_ in listed.items() for f in all_]
    others = f"; {ignored} other files are ignored" if ignored else ""
    kinds = f"of {len(classes)} classes" if classes else "without labels"
    name = f"decoding {len(files)} images {kinds}{others}"
    return [Source(name, fetch, needs="nothing", key=document_digest([VERSION, files]))]


def list_folder(root: Path) -> tuple[Splits, tuple[str, ...], int]:
    """The images before any is opened, the classes, and the number of other files."""
    if not root.is_dir():
        what = f"{root} is not a folder" if root.exists() else f"there is no folder {root}"
        raise DataError(what, "name a folder that holds one folder of images for each class")
    try:
        folders = _sub_folders(root)
        parts = {SPLITS.get(name.lower(), ""): root / name for name in folders}
        if "train" not in parts or "" in parts:
            parts = {"train": root}  # the test fraction decides, as with a train folder alone
        elif len(parts) < len(folders):
            raise DataError(f"{root} has two folders for one split: {', '.join(folders)}")
        elif stray := [e.name for e in os.scandir(root) if e.is_file() and _is_image(e)]:
            raise DataError(f"{root} has images beside its train folder, {min(stray)} for example")
        train, ignored = _labelled(parts["train"], root)
        splits, labels = {"all": train}, {file.label for file in train}
        if folder := parts.get("test") or parts.get("val"):
            test, more = _labelled(folder, root)
            unread = parts.get("val", folder)
            ignored += more + (sum(1 for _ in _files_below(unread)) if unread != folder else 0)
            for file in test:
                if file.label not in labels:
                    what = "has no class folders" if file.label is None else f"has {file.label!r}"
                    raise DataError(f"{folder} {what}, unlike {parts['train']}")
            splits = {"train": train, "test": test}
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error
    classes = sorted(label for label in labels if label is not None)
    if len(classes) == 1:
        hint = "add a folder for a second class, or name the folder with the images themselves "
        hint += "if they need no labels"
        raise DataError(f"{root} has one class only, {classes[0]!r}", hint)
    return splits, tuple(classes), ignored


def images_in(folder: Path) -> list[Path]:
    """The images of a folder and of the folders in it, in the order of their names."""
    return sorted(Path(entry.path) for entry in _files_below(folder) if _is_image(entry))


def _labelled(folder: Path, root: Path) -> tuple[list[ImageFile], int]:
    """The images in class folders, or in the folder itself, and the number of other files."""
    files, ignored = [], 0
    for entry in _files_below(folder):
        if not _is_image(entry):
            ignored += 1
            continue
        path, facts = Path(entry.path), entry.stat()
        label = path.relative_to(folder).parts[0] if path.parent != folder else None
        # Letters with accents are written in the same way on every system.
        label = label and unicodedata.normalize("NFC", label)
        name = path.relative_to(root).as_posix()
        files.append(ImageFile(name, label, facts.st_size, facts.st_mtime_ns))
    if not files:
        raise DataError(f"{folder} holds no images", f"looked for: {' '.join(SUFFIXES)}")
    labels = {file.label for file in files}
    if None in labels and len(labels) > 1:
        stray = min(file.path for file in files if file.label is None)
        what = f"{folder} mixes class folders with images of its own, {stray} for example"
        hint = "move them into class folders, or name a folder that has only one of the two"
        raise DataError(what, hint)
    for name in _sub_folders(folder) if None not in labels else ():
        if unicodedata.normalize("NFC", name) not in labels:
            raise DataError(f"the class folder {folder / name} holds no images")
    return sorted(files), ignored


def _sub_folders(folder: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if _is_folder(entry))


def _files_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """All files; a link to a folder is followed only at the top, where a class may be one."""
    waiting = [str(folder)]
    while waiting:
        where = waiting.pop()
        for entry in os.scandir(where):
            if _is_folder(entry, follow_links=where == str(folder)):
                waiting.append(entry.path)
            elif entry.is_file():
                yield entry


def _is_folder(entry: os.DirEntry[str], follow_links: bool = True) -> bool:
    skipped = entry.name.startswith(".") or entry.name in SKIPPED_FOLDERS
    return entry.is_dir(follow_symlinks=follow_links) and not skipped


def _is_image(entry: os.DirEntry[str]) -> bool:
    return entry.name.lower().endswith(SUFFIXES) and not entry.name.startswith(".")


def _pixels(paths: Sequence[Path], size: int, channels: int, label: str) -> np.ndarray:
    images = np.empty((len(paths), size, size, channels), np.uint8)

    def read(position: int) -> None:
        images[position] = read_image(paths[position], size, channels)

    _each(read, range(len(paths)), label)
    return images


def _split_by_fraction(files: Sequence[ImageFile], test_fraction: float, seed: int) -> Splits:
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
