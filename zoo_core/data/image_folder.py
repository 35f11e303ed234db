"""A user's own images: class sub-folders, or one folder without labels, split one way or another.

The names are looked at on every use; no image is opened here.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zoo_core.data.images import SUFFIXES, names_image
from zoo_core.data.originals import Originals
from zoo_core.io.errors import DataError, OptionError
from zoo_core.spec.registry import elsewhere

SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test"}
SPLITS |= {"val": "val", "valid": "val", "validation": "val"}
SKIPPED_FOLDERS = ("__MACOSX", "@eaDir")


class ImageFile(NamedTuple):
    path: str  # relative, with /
    label: str | None
    size: int
    mtime: int


def image_folder(*, path: str | None = None) -> Originals:
    """The target of the reader `image_folder`."""
    if path is None:
        raise OptionError("image_folder needs a path", "write ./my_images in place of a name")
    root = Path(path).expanduser()
    if not root.is_dir():
        what = f"{root} is not a folder" if root.exists() else f"there is no folder {root}"
        raise DataError(what, "name a folder that holds one folder of images for each class")
    try:
        parts, unread = _parts(root)
        found = {part: _labelled(folder, root) for part, folder in parts.items()}
        others = sum(1 for folder in unread for _ in _files_below(folder))
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error
    files = [file for listed, _ in found.values() for file in listed]
    labels = {file.label for file in files}
    classes = sorted(label for label in labels if label is not None)
    if not files:
        hints = [elsewhere("reader", path.suffix.lower()) for path in root.iterdir()]
        hint = max(hints, default="") or f"the zoo reads {' '.join(SUFFIXES)}"
        raise DataError(f"{root} holds no images", hint)
    if classes and None in labels:
        stray = min(file.path for file in files if file.label is None)
        what = f"{root} mixes class folders with images of its own, {stray} for example"
        hint = "move the images into class folders, or name a folder of only classes or only images"
        raise DataError(what, hint)
    ignored = others + sum(count for _, count in found.values())
    remarks = [f"{ignored:,} other files are ignored"] if ignored else []
    for folder in parts.values():
        empty = [name for name in _sub_folders(folder) if classes and _nfc(name) not in classes]
        remarks += [f"the class folder {name} holds no images" for name in empty]
    splits, start = {}, 0
    for part, (listed, _) in found.items():
        splits[part] = np.arange(start, start + len(listed))
        start += len(listed)
    index: dict[str | None, int] = {name: number for number, name in enumerate(classes)}
    return Originals(
        names=[file.path for file in files],
        read=partial(_path, root, files),
        key=[(file.path, file.size, file.mtime) for file in files],
        labels=np.array([index[file.label] for file in files]) if classes else None,
        classes=classes or None,
        splits={} if list(splits) == ["all"] else splits,
        remarks=remarks,
    )


def _path(root: Path, files: Sequence[ImageFile], number: int) -> Path:
    return root / files[number].path


def _parts(root: Path) -> tuple[dict[str, Path], list[Path]]:
    """The folders of the splits, or the folder itself as "all", and folders that are not read."""
    folders = _sub_folders(root)
    parts = {SPLITS.get(name.lower(), ""): root / name for name in folders}
    if not parts or "" in parts or not {"train", "test"} & set(parts):
        return {"all": root}, []
    if len(parts) < len(folders):
        raise DataError(f"{root} has two folders for one split: {', '.join(folders)}")
    if stray := [entry.name for entry in os.scandir(root) if entry.is_file() and _is_image(entry)]:
        raise DataError(f"{root} has images beside its split folders, {min(stray)} for example")
    unread = [parts.pop("val")] if "val" in parts and "test" in parts else []
    if "val" in parts:
        parts["test"] = parts.pop("val")
    if list(parts) == ["train"]:  # the test fraction decides
        return {"all": parts["train"]}, unread
    return {part: parts[part] for part in ("train", "test") if part in parts}, unread


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
        name = path.relative_to(root).as_posix()
        files.append(ImageFile(name, label and _nfc(label), facts.st_size, facts.st_mtime_ns))
    return sorted(files), ignored


def _nfc(name: str) -> str:
    """Letters with accents are written in the same way on every system."""
    return unicodedata.normalize("NFC", name)


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
    return names_image(entry.name) and not entry.name.startswith(".")
