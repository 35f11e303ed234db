"""Checkpoints: safetensors for arrays, JSON for the rest, each written whole or not at all.

A checkpoint exists once its JSON file does, which holds the digest of the arrays and its own.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from zoo_core.io.documents import conform, document_digest, read_json, write_document
from zoo_core.io.errors import ZooError
from zoo_core.io.files import digest_of
from zoo_core.io.process import process, shared
from zoo_core.io.tensors import read, read_header, to_bytes, write_tensors

KEPT = 2
FORMAT = 2  # 0.1 wrote no format and no digest of the JSON; such checkpoints are taken as they are


class Record(Struct):
    """The JSON of a checkpoint."""

    step: Annotated[int, Meta(ge=0)]
    sha256: str
    values: dict[str, Any]
    format: Literal[1, 2] = 1
    digest: str = ""


@dataclass(frozen=True)
class State:
    """Everything that a run needs to go on as if nothing had happened."""

    tensors: Mapping[str, np.ndarray]
    values: Mapping[str, Any]  # JSON


def prefixed(prefix: str, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of one part of a state, under the names that they have in the whole."""
    return {prefix + name: array for name, array in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of one part of a state, under the names that they have there."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def share(state: State) -> State:
    """The state that the first of the processes that train together has."""
    if process()[1] == 1:
        return state
    content = shared(lambda: to_bytes(state.tensors, json.dumps(state.values)))
    about = read_header(io.BytesIO(content)).metadata["zoo"]
    return State(read(content), json.loads(about))


class Checkpoints:
    """The checkpoints of one run, named by the step after which they were taken."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, step: int, state: State) -> Path:
        path = self.folder / f"{step:08d}.json"
        sha256 = write_tensors(path.with_suffix(".safetensors"), state.tensors)
        about = {"format": FORMAT, "step": step, "sha256": sha256, "values": state.values}
        about = json.loads(json.dumps(about))  # as it is read again: keys are texts
        write_document(path, about | {"digest": document_digest(about)})
        for old in self._paths()[KEPT:]:
            old.unlink(missing_ok=True)
            old.with_suffix(".safetensors").unlink(missing_ok=True)
        return path

    def latest_path(self) -> Path | None:
        return next(iter(self._paths()), None)

    def load(self, schema: Any = dict) -> tuple[State | None, list[str]]:
        """The newest checkpoint that is whole, and a warning for each one that is not.

        schema: a type of msgspec that its values must conform to.
        """
        warnings: list[str] = []
        for path in self._paths():
            try:
                record = _read(path)
                with path.with_suffix(".safetensors").open("rb") as file:
                    if digest_of(file) != record["sha256"]:
                        raise ValueError("its digest does not match")
                    values = conform(record["values"], schema, "what it says")
                    return State(read(file), values), warnings
            except (OSError, ValueError, ZooError) as error:
                what = f"checkpoint {path.stem} is damaged ({error})"
                warnings.append(f"{what}; trying the one before")
        return None, warnings

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _paths(self) -> list[Path]:
        """Newest first."""
        return sorted(self.folder.glob("[0-9]*.json"), reverse=True)


def _read(path: Path) -> dict[str, Any]:
    """The JSON of a checkpoint, if it is what was written."""
    record: dict[str, Any] = conform(read_json(path), Record, "it")
    digest = record.pop("digest", "")
    if (digest or record.get("format") == FORMAT) and document_digest(record) != digest:
        raise ValueError("its digest does not match")
    return record
