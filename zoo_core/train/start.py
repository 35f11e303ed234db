"""Weights that a training starts from, instead of random ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.errors import UsageError
from zoo_core.hub.find import find
from zoo_core.hub.load import fitting, tensors_of
from zoo_core.targets import resolve
from zoo_core.train.display import Display
from zoo_core.types import ModelEntry

TensorSpec = Mapping[str, tuple[tuple[int, ...], str]]  # name -> shape, dtype


def tensors_of_weights(
    reference: str,
    spec: TensorSpec,
    runs: Path | None,
    display: Display,
) -> dict[str, np.ndarray]:
    """Tensors of trained weights that fit the new model; the rest, the head usually, start anew."""
    found = find(reference, runs)
    return _fitting(found.source, tensors_of(found), spec, display)


def pretrained_tensors(
    entry: ModelEntry, config: Mapping[str, Any], spec: TensorSpec, display: Display
) -> dict[str, np.ndarray]:
    """What the `pretrained` capability of a model gives it to start from."""
    give = resolve(entry.capabilities["pretrained"], f"model {entry.name!r}")
    found = give(config, display.say)
    return _fitting(config.get("weights") or "pretrained weights", found, spec, display)


def _fitting(
    source: str, found: Mapping[str, np.ndarray], spec: TensorSpec, display: Display
) -> dict[str, np.ndarray]:
    kept = fitting(found, spec)
    if not any(array.ndim > 1 for array in kept.values()):
        raise UsageError(
            f"no weight of {source} fits this model",
            "its options, channels for example, must be those of the trained model",
        )
    new = [name for name in spec if name not in kept]
    sentence = f"Starting from {source}: {len(kept)} of {len(spec)} tensors"
    display.say(sentence + (f"; new: {', '.join(new)}." if new else "."))
    return kept
