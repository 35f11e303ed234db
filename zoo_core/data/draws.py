"""Random numbers by address: each is a function of (seed, epoch, purpose, position) alone.

Nothing depends on what was drawn before, in which process, or with which version of NumPy: the bits
come from a hash that is written out below. A smaller part of a dataset lies inside a larger one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from zoo_core.io.errors import OptionError

# SplitMix64 (Steele, Lea, Flood 2014): a Weyl sequence, and a mixer that loses no bit.
STEP = np.uint64(0x9E3779B97F4A7C15)
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFT_1, SHIFT_2, SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)


@dataclass(frozen=True)
class Draws:
    """What is drawn for some positions of one epoch; a purpose is any word, and draws its own."""

    seed: int
    epoch: int
    positions: np.ndarray  # int64 (n,)
    prefix: str = ""  # of every purpose: a word of `augment` draws for itself alone

    def bits(self, purpose: str) -> np.ndarray:
        """64 random bits for each position, different for different positions."""
        name = f"{self.seed}/{self.epoch}/{self.prefix}{purpose}"
        key = hashlib.blake2b(name.encode(), digest_size=8)
        z: np.ndarray = self.positions.astype(np.uint64) * STEP + np.frombuffer(key.digest(), "<u8")
        z ^= z >> SHIFT_1
        z *= MIX_1
        z ^= z >> SHIFT_2
        z *= MIX_2
        z ^= z >> SHIFT_3
        return z  # uint64 (n,)

    def uniform(self, purpose: str, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        """Numbers from low to below high."""
        return low + (high - low) * ((self.bits(purpose) >> np.uint64(11)) * 2.0**-53)

    def integers(self, purpose: str, low: int, high: int) -> np.ndarray:
        """Whole numbers from low to high, both included."""
        span = np.uint64(high - low + 1)
        scaled: np.ndarray = (self.bits(purpose) >> np.uint64(32)) * span >> np.uint64(32)
        return scaled.astype(np.int64) + low

    def coins(self, purpose: str) -> np.ndarray:
        """True or false, one as likely as the other."""
        top: np.ndarray = self.bits(purpose) >> np.uint64(63)
        return top.astype(bool)

    def beta(self, purpose: str, alpha: float) -> np.ndarray:
        """Numbers from the symmetric Beta(alpha, alpha) distribution."""
        # Bailey's polar method draws Student's t of 2 alpha degrees from two uniform numbers, and
        # t / sqrt(2 alpha + t^2) is a symmetric beta between -1 and 1. Nothing is rejected, so a
        # position needs no second draw; r = u^(1/alpha) may underflow without harm.
        r = (1 - self.uniform(f"{purpose}.radius")) ** (1 / alpha)
        cosine = np.cos(2 * np.pi * self.uniform(f"{purpose}.angle"))
        t2 = (1 - r) * cosine**2
        signed: np.ndarray = np.sign(cosine) * np.sqrt(t2 / (r + t2))
        return 0.5 + 0.5 * signed


def permutation(n: int, seed: int, epoch: int = 0, purpose: str = "order") -> np.ndarray:
    """The numbers below n in random order."""
    # No two positions have the same bits, so that every sorting algorithm gives the same result.
    return np.argsort(Draws(seed, epoch, np.arange(n)).bits(purpose))


def subset_indices(
    n: int, fraction: float, seed: int, labels: np.ndarray | None = None
) -> np.ndarray:
    """That fraction of n images; given their labels, the same fraction of each class."""
    chosen, _ = _part(np.arange(n), fraction, seed, "subset", labels)
    if not len(chosen):
        part = f"a subset of {fraction:g} of {n:,} images"
        raise OptionError(f"{part} has no image in it", "choose a larger subset, or 1 for all")
    return chosen


def train_validation(
    indices: np.ndarray, fraction: float, seed: int, labels: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """What is left to train on, and the fraction kept for validation; labels: of all images."""
    validation, train = _part(indices, fraction, seed, "validation", labels)
    if not len(train) or (fraction > 0 and not len(validation)):
        kind = "training" if not len(train) else "validation"
        part = f"a validation_fraction of {fraction:g} of {len(indices):,} images"
        hint = "choose another validation_fraction, or use more images"
        raise OptionError(f"{part} leaves no image for {kind}", hint)
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
        # An image that comes k-th in its class of m has the rank (k + 1/2) / m: cutting the line
        # of ranks anywhere takes the same share of every class, to within one image.
        classes = labels[indices]
        by_class = np.lexsort((bits, classes))
        _, starts, counts = np.unique(classes[by_class], return_index=True, return_counts=True)
        rank = np.empty(len(indices))
        place = np.arange(len(indices)) - np.repeat(starts, counts)
        rank[by_class] = (place + 0.5) / np.repeat(counts, counts)
        order = np.lexsort((bits, rank))
    count = round(len(indices) * fraction)
    return np.sort(indices[order[:count]]), np.sort(indices[order[count:]])
