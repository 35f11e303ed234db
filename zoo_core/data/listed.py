"""All images of a dataset, wherever they are, and the facts of one pass over them.

data/packs.py makes and keeps these facts for originals; those of arrays are quick to make. Packages
that check or correct datasets name images as this module does: a path, or "train 17" of arrays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from zoo_core.data.corrections import correct
from zoo_core.data.dataset import CheckedArrays
from zoo_core.data.datasets import DatasetChoice, Report, find_dataset, given_arrays, given_by
from zoo_core.data.images import FORMATS, Form, read_image
from zoo_core.data.originals import DEFAULT_SIZE, PARTS, RULES, LeftOut, Originals, in_memory
from zoo_core.data.packs import FACTS, LOOK, Pack, facts_of, look
from zoo_core.data.sheets import THUMB
from zoo_core.data.stores import broken
from zoo_core.io.console import progress
from zoo_core.spec.answers import Targets
from zoo_core.spec.recipe import check_rules


@dataclass(frozen=True)
class Listed:
    """All images of a dataset, wherever they are, with what is known of each."""

    name: str  # of the dataset
    names: Sequence[str]  # of the images: a path, "row 17", or "train 17" of arrays
    facts: np.ndarray  # (n,): sha256, width, height, format (a place in `formats`), grey, broken
    looks: np.ndarray  # uint8 (n, 64): each image as 8 x 8 grey pixels
    splits: Mapping[str, np.ndarray]  # the numbers of the usable images, as zoo.Dataset has them
    targets: Targets
    labels: np.ndarray | None  # of all n
    tile: Callable[[int], np.ndarray]  # an image for a sheet
    fit: str = ""  # how images become square; "": they are as they are
    decoded: bool = False  # from files, at whatever size a model needs
    left_out: Sequence[LeftOut] = ()
    remarks: Sequence[str] = ()
    formats: Sequence[str] = (*FORMATS, "array")

    def digest(self, number: int) -> str:
        """The SHA-256 of an image's file, or of its pixels where it has none."""
        return bytes(self.facts["sha256"][number]).hex()


def list_images(reference: Any, options: Mapping[str, Any], report: Report) -> Listed:
    """List all images of a dataset; reference, options: as for `zoo.open_dataset`."""
    choice = find_dataset(reference, options)
    made = given_by(choice, report=report)
    if isinstance(made, Originals):
        listed = _originals(choice, made, report)
    else:
        listed = _arrays(choice, given_arrays(choice, made, report=report))
    if not choice.corrections:
        return listed
    found = correct(choice.corrections, listed.names, listed.labels, listed.targets, listed.digest)
    splits = {part: rows[found.keep[rows]] for part, rows in listed.splits.items()}
    return replace(listed, splits=splits, labels=found.labels)


def _originals(choice: DatasetChoice, originals: Originals, report: Report) -> Listed:
    options = choice.options
    check_rules(f"dataset {choice.name!r}", options, RULES)
    form, tile = Form(options["image_size"] or DEFAULT_SIZE, 3), Form(THUMB, 3, "pad")
    label = str(options.get("path") or choice.name)
    _, facts, looks = facts_of(Pack(label, originals, form, pixels=False), report)
    targets, labels = originals.targets()
    splits = originals.divided(options["test_fraction"], options["seed"])
    return Listed(
        name=choice.name,
        names=originals.names,
        facts=facts,
        looks=looks,
        splits={part: rows[facts["broken"][rows] == 0] for part, rows in splits.items()},
        targets=targets,
        labels=labels,
        tile=lambda number: read_image(in_memory(originals, number), tile),
        fit=options["fit"],
        decoded=True,
        left_out=[*originals.left_out, *broken(originals, form, facts)],
        remarks=originals.remarks,
    )


def _arrays(choice: DatasetChoice, found: CheckedArrays) -> Listed:
    parts = [part for part in PARTS if f"{part}_images" in found.arrays]
    images = np.concatenate([found.arrays[f"{part}_images"] for part in parts])
    facts, looks = np.zeros(len(images), FACTS), np.zeros((len(images), LOOK**2), np.uint8)
    facts["height"], facts["width"] = images.shape[1:3]
    facts["grey"], facts["format"] = images.shape[3] == 1, len(FORMATS)
    with progress("looking at images", len(images)) as advance:
        for fact, seen, pixels in zip(facts, looks, images, strict=True):
            fact["sha256"] = np.frombuffer(hashlib.sha256(pixels.data).digest(), np.uint8)
            seen[:] = look(Image.fromarray(pixels.squeeze()))
            advance(1)
    sizes = [len(found.arrays[f"{part}_images"]) for part in parts]
    rows = np.split(np.arange(len(images)), np.cumsum(sizes)[:-1])
    labels = [found.arrays[name] for part in parts if (name := f"{part}_labels") in found.arrays]
    return Listed(
        name=choice.name,
        names=[f"{part} {i}" for part, size in zip(parts, sizes, strict=True) for i in range(size)],
        facts=facts,
        looks=looks,
        splits=dict(zip(parts, rows, strict=True)),
        targets=found.targets,
        labels=np.concatenate(labels) if labels else None,
        tile=images.__getitem__,
    )
