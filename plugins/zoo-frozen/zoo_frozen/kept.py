"""Features in the cache: one found by its id, some of them written for other programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import zoo
from zoo import kit


def find_features(reference: str) -> kit.FeatureFile:
    """By id, by the beginning of it, or by the name of the file."""
    files, name = kit.kept_features(), Path(reference).name
    named = [file for file in files if name in (file.path.name, file.path.stem)]
    found = named or [file for file in files if file.id.startswith(reference)]
    if len(found) > 1:
        ids = " or ".join(file.id for file in found)
        raise zoo.UsageError(f"{reference!r} is ambiguous: {ids}")
    if not found:
        hint = "zoo features list shows them"
        raise zoo.UsageError(f"there are no features {reference!r}", hint)
    return found[0]


def export_features(files: Sequence[kit.FeatureFile], path: Path) -> dict[str, tuple[int, ...]]:
    """Write features as float32 and their labels for other programs; give the shapes by name."""
    arrays: dict[str, np.ndarray] = {}
    classes: set[tuple[str, ...]] = set()
    for file in files:
        features = file.load()
        if features is None:
            hint = "zoo features compute continues it"
            raise zoo.UsageError(f"{file.path.stem} is not complete yet", hint)
        key = features.progress.key
        name = key["split"] if key["view"] == "plain" else f"{key['split']}_{key['view']}"
        if f"{name}_features" in arrays:
            hint = "write them to a file of their own"
            raise zoo.UsageError(f"two of these are {name} features", hint)
        arrays[f"{name}_features"] = features.array.astype(np.float32)
        if features.labels is not None:
            arrays[f"{name}_labels"] = features.labels
        classes.add(tuple(features.progress.about["classes"]))
    if len(classes) > 1:
        raise zoo.UsageError("these are features of datasets with different classes")
    names = list(classes.pop())
    with kit.os_errors(f"{path} could not be written"), kit.atomic_write(path) as temporary:
        if path.suffix == ".safetensors":
            from safetensors.numpy import save_file

            save_file(arrays, temporary, {"zoo": json.dumps({"classes": names})})
        else:
            with temporary.open("wb") as stream:
                np.savez(stream, classes=np.array(names, np.str_), **arrays)  # type: ignore[arg-type]
    return {name: array.shape for name, array in arrays.items()}
