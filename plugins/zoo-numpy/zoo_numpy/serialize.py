"""State dicts as safetensors. To write a file atomically, give `to_bytes` to whoever does that."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

from zoo_numpy.tensor import Array


def to_bytes(state: Mapping[str, Array]) -> bytes:
    """The same state gives the same bytes: no metadata, whose keys have no fixed order."""
    return safetensors.save({name: np.asarray(value, order="C") for name, value in state.items()})


def save(state: Mapping[str, Array], path: str | Path) -> None:
    Path(path).write_bytes(to_bytes(state))


def load(path: str | Path) -> dict[str, Array]:
    return safetensors.load(Path(path).read_bytes())
