"""Checkpoints: safetensors for arrays, JSON for the rest, each written whole or not at all.

A checkpoint exists once its JSON file does, which holds the digest of the arrays.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.io.documents import write_document
from zoo_core.io.files import digest_of
from zoo_core.io.tensors import read, write

KEPT = 2


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


class Checkpoints:
    """The checkpoints of one run, named by the step after which they were taken."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, step: int, state: State) -> Path:
        path = self.folder / f"{step:08d}.json"
        digest = write(path.with_suffix(".safetensors"), state.tensors)
        write_document(path, {"step": step, "sha256": digest, "values": state.values})
        for old in self._paths()[KEPT:]:
            old.unlink(missing_ok=True)
            old.with_suffix(".safetensors").unlink(missing_ok=True)
        return path

    def latest_path(self) -> Path | None:
        return next(iter(self._paths()), None)

    def load(self) -> tuple[State | None, list[str]]:
        """The newest checkpoint that is whole, and a warning for each one that is not."""
        for leftover in self.folder.glob(".*.tmp"):  # of a process that was killed while writing
            leftover.unlink(missing_ok=True)
        warnings: list[str] = []
        for path in self._paths():
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                with path.with_suffix(".safetensors").open("rb") as file:
                    if digest_of(file) != record["sha256"]:
                        raise ValueError("its digest does not match")
                    return State(read(file), record["values"]), warnings
            except (OSError, ValueError, KeyError, TypeError) as error:
                what = f"checkpoint {path.stem} is damaged ({error})"
                warnings.append(f"{what}; trying the one before")
        return None, warnings

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _paths(self) -> list[Path]:
        """Newest first."""
        return sorted(self.folder.glob("[0-9]*.json"), reverse=True)
