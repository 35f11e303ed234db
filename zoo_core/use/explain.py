"""What a trained model attends to, through the `attention` capability that its entry declares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.io.errors import UsageError
from zoo_core.io.targets import resolve
from zoo_core.spec.registry import registry
from zoo_core.use.load import load_run
from zoo_core.use.metrics import softmax


@dataclass(frozen=True)
class Attention:
    """One picture as the model saw it, what it took it for, and where it looked."""

    picture: np.ndarray  # (h, w, c), from 0 to 1
    label: str  # the most likely class; "" where there are no classes
    probability: float
    maps: np.ndarray  # (layers, heads, rows, columns); shares of the attention, at most 1 together


def attention_of(reference: str, picture: Any, *, runs: Path | None = None) -> Attention:
    """Where every layer and head of a trained run looks in one picture."""
    loaded = load_run(reference, runs)
    entry = loaded.entry
    if "attention" not in entry.capabilities:
        able = [e.name for e in registry().models if "attention" in e.capabilities]
        raise UsageError(
            f"model {entry.name!r} declares no attention that could be drawn",
            f"these do: {', '.join(able)}" if able else "a plugin with transformers brings some",
        )
    look = resolve(entry.capabilities["attention"], f"model {entry.name!r}")
    images = loaded.preprocess.batch([picture], backend=loaded.trainer.backend)
    maps = look(loaded.model, images)
    if not isinstance(maps, np.ndarray) or maps.ndim != 5 or maps.shape[1] != 1:
        raise UsageError(
            f"the attention of model {entry.name!r} must be an array of (layers, pictures, heads, "
            f"rows, columns), not {describe_array(maps)}",
            "docs/hooks.md says what the capability returns",
        )
    row = softmax(loaded.trainer.predict_batch(loaded.model, images))[0]
    best = int(row.argmax())
    std, mean = np.array(loaded.preprocess.std), np.array(loaded.preprocess.mean)
    seen = np.asarray(images[0]).transpose(1, 2, 0) * std + mean
    return Attention(
        np.clip(seen, 0, 1),
        loaded.classes[best] if loaded.classes else "",
        float(row[best]),
        maps[:, 0],
    )


def describe_array(value: object) -> str:
    return f"{value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
