"""Which pictures are used: seeded parts of a training set, as sorted arrays of picture numbers.

A picture's place in the lottery depends on the seed and on its number alone, so that a smaller part
lies inside a larger one, and the parts are the same on every machine.
"""

from __future__ import annotations

import numpy as np

from zoo_core.data.draws import Draws
from zoo_core.errors import OptionError


def subset_indices(
    n: int, fraction: float, seed: int, labels: np.ndarray | None = None
) -> np.ndarray:
    """That fraction of n pictures; given their labels, the same fraction of each class."""
    chosen, _ = _part(np.arange(n), fraction, seed, "subset", labels)
    if not len(chosen):
        raise OptionError(
            f"a subset of {fraction:g} of {n:,} pictures has no picture in it",
            "choose a larger subset, or 1 for all",
        )
    return chosen


def train_validation(
    indices: np.ndarray, fraction: float, seed: int, labels: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """What is left to train on, and the fraction kept for validation.

    `labels` are those of the whole split, indexed by picture number; given, each class gives the
    same fraction of its pictures.
    """
    validation, train = _part(indices, fraction, seed, "validation", labels)
    if not len(train) or (fraction > 0 and not len(validation)):
        kind = "training" if not len(train) else "validation"
        raise OptionError(
            f"a validation_fraction of {fraction:g} of {len(indices):,} pictures leaves none "
            f"for {kind}",
            "choose another validation_fraction, or use more pictures",
        )
    return train, validation


def _part(
    indices: np.ndarray, fraction: float, seed: int, purpose: str, labels: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    if not 0 <= fraction <= 1:
        raise OptionError(f"a fraction must be from 0 to 1, not {fraction!r}")
    bits = Draws(seed, 0, indices).bits(purpose)
    if labels is None:
        order = np.argsort(bits)
    else:
        # A picture that comes k-th in its class of m has the rank (k + 1/2) / m: cutting the line
        # of ranks anywhere takes the same share of every class, to within one picture.
        classes = labels[indices]
        by_class = np.lexsort((bits, classes))
        _, starts, counts = np.unique(classes[by_class], return_index=True, return_counts=True)
        rank = np.empty(len(indices))
        place = np.arange(len(indices)) - np.repeat(starts, counts)
        rank[by_class] = (place + 0.5) / np.repeat(counts, counts)
        order = np.lexsort((bits, rank))
    count = round(len(indices) * fraction)
    return np.sort(indices[order[:count]]), np.sort(indices[order[count:]])
