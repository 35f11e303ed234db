"""Arrays as safetensors bytes: the one way in which the zoo writes them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import safetensors.numpy


def to_bytes(arrays: Mapping[str, np.ndarray], about: str = "") -> bytes:
    """The content of a .safetensors file. `about` becomes its one metadata key, `zoo`.

    One key only: the library writes several in any order, and the same weights would then have
    another digest at every save.
    """
    # The format is C order; a copy is made only of what is not. A scalar stays a scalar.
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return safetensors.numpy.save(plain, {"zoo": about} if about else None)
