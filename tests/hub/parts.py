"""Small things that the tests of weights share."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec

from zoo_core.publish.publish import Publication
from zoo_core.runs.run import Run
from zoo_core.train.runner import train
from zoo_core.weights.manifest import Weights
from zoo_core.weights.repository import CARD, CONFIG, MODEL

NAME = "org/shapes"
REFERENCE = f"hf:{NAME}"


def small_run(folder: Path, model: str, **options: object) -> Run:
    settings = {"epochs": 1, "data": {"train_size": 64, "test_size": 32}, "model": options}
    return train(model, "synthetic", settings=settings, runs=folder, quiet=True, device="cpu").run


def files_of(planned: Publication) -> dict[str, bytes]:
    return {
        CONFIG: planned.config,
        MODEL: planned.verified.located.path.read_bytes(),
        CARD: planned.card.encode(),
    }


def altered(planned: Publication, data: bytes, **changes: Any) -> dict[str, bytes]:
    """The files of a publication with another weight file, whose digest and size are declared."""
    right = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    weights = msgspec.structs.replace(planned.weights, **(right | changes))
    return {**files_of(planned), CONFIG: msgspec.json.encode(weights), MODEL: data}


def split_file(data: bytes) -> tuple[dict[str, Any], bytes]:
    """A safetensors file as its header and the bytes of its tensors."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def join_file(header: dict[str, Any] | bytes, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(**changes: Any) -> Weights:
    """An entry for a manifest, of weights that are nowhere."""
    fields: dict[str, Any] = {
        "name": "mlp.made_up", "model": "mlp", "plugin": "mlp", "distribution": "zoo-mlp",
        "config": {"num_classes": 10, "hidden": [8]}, "dataset": "synthetic",
        "classes": ("a", "b"), "preprocess": {"size": 32, "mean": [0.5], "std": [0.5]},
        "file": "model.safetensors", "sha256": "ab" * 32, "bytes": 100, "dtype": "float32",
        "parameters": 10, "metrics": {"test_accuracy": 0.5}, "recipe": {"lr": 0.1},
        "license": "mit", "sources": (f"hf:org/name@{'12' * 20}",),
    }  # fmt: skip
    return Weights(**(fields | changes))


def on_disk(folder: Path) -> dict[str, bytes]:
    """Every file below a folder that means something: no locks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }
