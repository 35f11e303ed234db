"""Corrections of a dataset: images to leave out and labels to change, from a table of a person.

`--set data.corrections=FILE`. Each row names an image and the SHA-256 of its file (of its pixels,
for arrays), so that a file that was made for other images is refused.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.dataset import Dataset, Split
from zoo_core.data.originals import PARTS
from zoo_core.data.table_files import records
from zoo_core.io.documents import document_digest
from zoo_core.io.errors import DataError, did_you_mean, os_errors
from zoo_core.io.files import file_digest
from zoo_core.spec.answers import CLASS, Targets

COLUMNS = ("image", "action", "label", "sha256")
ACTIONS = ("drop", "label", "keep")  # keep: the row is a note for people


@dataclass(frozen=True)
class Corrected:
    """What a file of corrections makes of the images of a dataset."""

    keep: np.ndarray  # bool (n,)
    labels: np.ndarray | None
    about: dict[str, Any]  # for run.json


def names_in(part: str, split: Split) -> Sequence[str]:
    """The names of the images of a split; those of arrays are "train 0", "train 1" and so on."""
    return split.names or [f"{part} {number}" for number in range(len(split))]


def correct(
    path: str,
    names: Sequence[str],
    labels: np.ndarray | None,
    targets: Targets,
    digest_of: Callable[[int], str],
) -> Corrected:
    """Read the file and compare its rows with the images; digest_of: the SHA-256 of one of them."""
    file, place = Path(path), {name: number for number, name in enumerate(names)}
    keep, labels = np.ones(len(names), bool), None if labels is None else labels.copy()
    counts, done = dict.fromkeys(("dropped", "relabelled"), 0), {}
    try:
        with os_errors(f"{file} cannot be read", DataError):
            sha256, rows = file_digest(file), list(records(file))
    except (ValueError, csv.Error) as error:
        raise DataError(f"{file} is not a table of text: {error}") from error
    for where, row in rows:
        told = f"{file}, {where}:"
        if not isinstance(row, dict) or not {*COLUMNS} <= {*row}:
            wrong = row if isinstance(row, str) else f"the columns are not {', '.join(COLUMNS)}"
            raise DataError(f"{told} {wrong}", "zoo data check NAME --labels -o FOLDER writes one")
        image, action, label, digest = (str(row[name]).strip() for name in COLUMNS)
        if action not in ACTIONS:
            what = f"{told} the action of {image} is {action!r}"
            raise DataError(what, f"it is: {' or '.join(ACTIONS)}")
        if action == "keep":
            continue
        if image not in place:
            what = f"{told} the dataset has no image {image!r}"
            raise DataError(what, "it belongs to other images, or this one is gone: remove the row")
        number = place[image]
        if (found := digest_of(number)) != digest:
            what = f"{told} {image} has the SHA-256 {found[:12]}..., the row says {digest[:12]}..."
            raise DataError(what, "it belongs to other images, or this one was changed since")
        if image in done:
            raise DataError(f"{told} {image} has a row already", "keep one of them")
        done[image] = [action, label if action == "label" else ""]
        if action == "drop":
            keep[number] = False
            counts["dropped"] += 1
        elif labels is None or targets.kind != CLASS:
            what = f"{told} only labels of one class can be corrected; the dataset has {targets}"
            raise DataError(what, "use drop, or keep")
        elif label not in targets.classes:
            what = f"{told} there is no class {label!r}"
            raise DataError(what, did_you_mean(label, targets.classes, "use one of the dataset's"))
        else:
            counts["relabelled"] += int(labels[number] != targets.classes.index(label))
            labels[number] = targets.classes.index(label)
    about = {"file": str(file), "sha256": sha256, **counts, "digest": document_digest(done)}
    return Corrected(keep, labels, about if done else {})


def corrected(data: Dataset, path: str, digest_of: Callable[[str], str]) -> Dataset:
    """The dataset without the dropped images and with the new labels; its digest says so."""
    splits = {part: split for part in PARTS if (split := data.split(part)) is not None}
    names = tuple(name for part, split in splits.items() for name in names_in(part, split))
    given = [split.labels for split in splits.values() if split.labels is not None]
    labels = np.concatenate(given) if given else None
    found = correct(path, names, labels, data.targets, lambda number: digest_of(names[number]))
    if not found.about:
        return data
    end = 0
    for part, split in splits.items():
        start, end = end, end + len(split)
        own = None if found.labels is None else found.labels[start:end]
        split = replace(split, labels=own, names=names[start:end])
        keep = found.keep[start:end]
        splits[part] = split if keep.all() else split.part(np.flatnonzero(keep))
    digest = document_digest([data.digest, found.about["digest"]])
    train, test = splits["train"], splits.get("test")
    return replace(data, train=train, test=test, digest=digest, corrections=found.about)
