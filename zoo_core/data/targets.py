"""The labels of images as plugins give them, as they are kept, and the groups they make."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zoo_core.io.errors import DataError
from zoo_core.spec.answers import CLASS, CLASSES, NUMBERS, Targets

COMMON = 10  # images that must have the same classes to be a group of their own


def read_targets(
    labels: Mapping[str, np.ndarray],
    classes: Sequence[str] | None,
    numbers: Mapping[str, str] | Sequence[str] | None,
) -> tuple[Targets, dict[str, np.ndarray]]:
    """What given labels are, and they as they are kept; DataError says what is wrong with one.

    labels: by name, all of one kind. classes, numbers: what a plugin calls their columns.
    """
    if not labels:
        return Targets(), {}
    kinds = {_kind(name, values) for name, values in labels.items()}
    if len(kinds) > 1:
        raise DataError(f"{' and '.join(labels)} are labels of different kinds")
    (kind,) = kinds
    if kind == CLASS:
        largest = max((int(values.max()) for values in labels.values() if len(values)), default=-1)
        names = tuple(map(str, range(largest + 1) if classes is None else classes))
        for name, values in labels.items():
            wrong = (values < 0) | (values >= len(names))
            _refuse(name, values, wrong, f"there are {len(names)} classes")
        return Targets(CLASS, names), _as(labels, np.uint8 if len(names) <= 256 else np.int64)
    if kind == CLASSES:
        for name, values in labels.items():
            _refuse(name, values, (values != 0) & (values != 1), "each must be 0 or 1")
        return Targets(CLASSES, _columns(labels, classes)), _as(labels, np.uint8)
    labels = {n: v[:, None] if v.ndim == 1 else v for n, v in labels.items()}
    for name, values in labels.items():
        _refuse(name, values, ~np.isfinite(values), "only finite numbers are allowed")
    named = numbers if isinstance(numbers, Mapping) else dict.fromkeys(numbers or (), "")
    units = tuple(str(unit or "") for unit in named.values())
    columns = _columns(labels, tuple(named), "target")
    return Targets(NUMBERS, columns, units if any(units) else ()), _as(labels, np.float32)


def _kind(name: str, values: np.ndarray) -> str:
    if values.ndim == 1 and values.dtype.kind in "iu":
        return CLASS
    if values.ndim == 2 and values.dtype.kind in "biu":
        return CLASSES
    if values.ndim in (1, 2) and values.dtype.kind == "f":
        return NUMBERS
    raise DataError(
        f"{name} is {values.dtype} of shape {values.shape}, and must be integers (n,) for one "
        "class, 0 or 1 (n, classes) for several, or floats (n, k) for numbers"
    )


def digest_of_targets(targets: Targets) -> dict[str, str]:
    """Digests of the names, beside those of the arrays."""
    told = {"classes": "\n".join(targets.classes)}
    if targets.kind == NUMBERS:
        told["numbers"] = json.dumps([targets.names, targets.units])
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in told.items()}


def strata(labels: np.ndarray | None) -> np.ndarray | None:
    """A group for each image, so that a part can have the same share of every group; or None.

    One class: the class. Several: the combination, and one group of all that are rare.
    """
    if labels is None or labels.dtype.kind == "f":
        return None
    if labels.ndim == 1:
        return labels
    _, groups, counts = np.unique(labels, axis=0, return_inverse=True, return_counts=True)
    return np.where(counts[groups] < COMMON, -1, groups)


def _columns(
    labels: Mapping[str, np.ndarray], names: Sequence[str] | None, word: str = ""
) -> tuple[str, ...]:
    """A name for each column, which all arrays have."""
    widths = {values.shape[1] for values in labels.values()}
    if len(widths) > 1 or 0 in widths:
        raise DataError(f"labels of {' and '.join(map(str, sorted(widths)))} columns")
    width = widths.pop()
    if names and len(names) != width:
        raise DataError(f"the labels have {width} columns, and there are {len(names)} names")
    numbered = (f"{word} {i + 1}" if word else str(i) for i in range(width))
    return tuple(map(str, names or numbered))


def _refuse(name: str, values: np.ndarray, wrong: np.ndarray, why: str) -> None:
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise DataError(f"{name} has the label {values[place]} at position {place[0]}, and {why}")


def _as(labels: Mapping[str, np.ndarray], kind: Any) -> dict[str, np.ndarray]:
    return {name: np.ascontiguousarray(values, kind) for name, values in labels.items()}
