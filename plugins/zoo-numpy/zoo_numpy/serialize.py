"""State dicts as safetensors files."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

from zoo_numpy.tensor import Array


def save(state: Mapping[str, Array], path: str | Path) -> None:
    """The same state gives the same bytes: no metadata, whose keys have no fixed order."""
    safetensors.save_file({k: np.asarray(v, order="C") for k, v in state.items()}, path)


def load(path: str | Path) -> dict[str, Array]:
    return safetensors.load_file(path)
