"""Features and labels as one file that other programs read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.errors import UsageError, ZooError
from zoo_core.features.store import FeatureFile
from zoo_core.files import atomic_write
from zoo_core.tensors import to_bytes

ENDINGS = (".npz", ".safetensors")


def export_features(files: Sequence[FeatureFile], path: Path) -> dict[str, tuple[int, ...]]:
    """Write them as float32, and give the shapes by name."""
    arrays: dict[str, np.ndarray] = {}
    classes: set[tuple[str, ...]] = set()
    for file in files:
        features = file.load()
        if features is None:
            raise UsageError(
                f"{file.path.stem} is not complete yet", "zoo features compute goes on with it"
            )
        key = features.progress.key
        name = key["split"] if key["view"] == "plain" else f"{key['split']}_{key['view']}"
        if f"{name}_features" in arrays:
            raise UsageError(
                f"two of these are both {name} features", "write them to a file of their own"
            )
        arrays[f"{name}_features"] = features.array.astype(np.float32)
        if features.labels is not None:
            arrays[f"{name}_labels"] = features.labels
        classes.add(features.progress.classes)
    if len(classes) > 1:
        raise UsageError("these are features of datasets with other classes")
    names = list(classes.pop())
    try:
        with atomic_write(path) as temporary:
            if path.suffix == ".npz":
                named: dict[str, Any] = {"classes": np.array(names, dtype=np.str_), **arrays}
                with temporary.open("wb") as stream:
                    np.savez(stream, **named)
            else:
                temporary.write_bytes(to_bytes(arrays, json.dumps({"classes": names})))
    except OSError as error:
        raise ZooError(f"{path} could not be written: {error.strerror or error}") from error
    return {name: array.shape for name, array in arrays.items()}
