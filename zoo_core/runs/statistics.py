"""How sure a figure is, and whether two figures differ: the one home of each rule.

Intervals are 95 % intervals, p-values have two sides. docs/figures.md says which rule is used
where. Plain Python but for `draws`: `zoo runs` waits for no numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LEVEL = 0.95
ALPHA = 1 - LEVEL  # p-values below say that two figures differ
Z = 1.959963984540054  # standard errors on both sides of an interval
FOUND = 0.8416212335729143  # as many more with which four of five tests find a difference
DRAWS = 1000  # samples of a bootstrap
Interval = tuple[float, float]


def wilson(share: float, count: float) -> Interval:
    """Of a share of so many images (Wilson, 1927)."""
    if not count:
        return 0.0, 1.0
    square = Z * Z / count
    centre = (share + square / 2) / (1 + square)
    spread = Z * math.sqrt(share * (1 - share) / count + square / count / 4) / (1 + square)
    # Of all images, or none, rounding must not put the end beside the share.
    return min(share, max(0.0, centre - spread)), max(share, min(1.0, centre + spread))


@dataclass(frozen=True)
class Difference:
    """One figure minus another, and whether it may be chance."""

    value: float
    interval: Interval
    p: float
    test: str  # which one, in words
    error: float = 0.0  # the standard error of the value, for `enough`

    @property
    def significant(self) -> bool:
        return self.p < ALPHA

    def enough(self, count: int) -> int | None:
        """How many images would find such a difference; count: of those it is from."""
        if not self.value or not self.error:
            return None
        return math.ceil(count * ((Z + FOUND) * self.error / self.value) ** 2)


def paired(won: int, lost: int, count: int) -> Difference:
    """Two shares of the same images. won: only the first is right; lost: only the second.

    The p-value is McNemar's, exact with mid-p. The interval is that of Agresti and Min (2005): half
    an image more in each of the four cells keeps it honest where few images differ.
    """
    few, all_ = min(won, lost), won + lost
    log = math.lgamma(all_ + 1) - all_ * math.log(2)
    chances = [
        math.exp(log - math.lgamma(k + 1) - math.lgamma(all_ - k + 1)) for k in range(few + 1)
    ]
    p = min(1.0, 2 * sum(chances) - chances[-1])
    centre, share = (won - lost) / (count + 2), (won - lost) / count
    spread = math.sqrt(max(0.0, all_ + 1 - (won - lost) ** 2 / (count + 2))) / (count + 2)
    error = math.sqrt(max(0.0, all_ / count - share**2) / count)
    return Difference(share, _around(centre, Z * spread), p, "McNemar, mid-p", error)


def independent(share: float, count: int, other: float, others: int) -> Difference:
    """Two shares of images that cannot be paired (interval: Newcombe, 1998)."""
    whole = (share * count + other * others) / (count + others)
    error = math.sqrt(whole * (1 - whole) * (1 / count + 1 / others))
    value, test = share - other, "two independent shares"
    (low, high), (below, above) = wilson(share, count), wilson(other, others)
    interval = (
        value - math.hypot(share - low, above - other),
        value + math.hypot(high - share, other - below),
    )
    return Difference(value, interval, _normal(value, error), test, error)


def resampled(value: float, drawn: Sequence[float] | np.ndarray) -> Difference:
    """A difference, and those of samples of the images with repetition, the same for both."""
    import numpy as np

    error = float(np.std(drawn, ddof=1))
    interval, p = percentiles(drawn), _normal(value, error)
    return Difference(value, interval, p, "paired bootstrap", error)


def across_seeds(ours: Sequence[float], theirs: Sequence[float]) -> Difference | None:
    """Two means over seeds: Student's t-test; None where no seed is repeated."""
    freedom = len(ours) + len(theirs) - 2
    if freedom < 1 or not ours or not theirs:
        return None
    value = mean(ours) - mean(theirs)
    squares = (stdev(x) ** 2 * (len(x) - 1) for x in (ours, theirs) if len(x) > 1)
    error = math.sqrt(sum(squares) / freedom * (1 / len(ours) + 1 / len(theirs)))
    p = student(value / error, freedom) if error else float(not value)
    interval = _around(value, t_quantile(freedom) * error)
    return Difference(value, interval, p, "t-test over seeds", error)


def enough_seeds(found: Difference, ours: int, theirs: int) -> int | None:
    """How many seeds on each side would find a difference of so many; None: hundreds."""
    deviation = found.error / math.sqrt(1 / ours + 1 / theirs)
    needed = (
        count
        for count in range(2, 200)
        if abs(found.value)
        >= (t_quantile(2 * count - 2) + FOUND) * deviation * math.sqrt(2 / count)
    )
    return next(needed, None) if found.value and found.error else None


def holm(values: Sequence[float]) -> list[float]:
    """p-values of several tests, adjusted so that one in 20 families has a false alarm."""
    adjusted, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, values[place] * (len(values) - rank)))
        adjusted[place] = largest
    return adjusted


@dataclass(frozen=True)
class Spread:
    """A figure over seeds. The interval is of the mean, for other seeds on the same images."""

    seeds: int
    mean: float
    low: float
    high: float
    interval: Interval | None  # None: one seed


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def stdev(values: Sequence[float]) -> float:
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def spread(values: Sequence[float]) -> Spread:
    """What several seeds gave, and the interval of their mean."""
    centre, interval = mean(values), None
    if len(values) > 1:
        error = stdev(values) / math.sqrt(len(values))
        interval = _around(centre, t_quantile(len(values) - 1) * error)
    return Spread(len(values), centre, min(values), max(values), interval)


def student(t: float, freedom: int) -> float:
    """The p-value of Student's t, by the finite sums for whole degrees of freedom."""
    angle, odd = math.atan2(abs(t), math.sqrt(freedom)), freedom % 2
    cosine, total = math.cos(angle), 0.0
    term = cosine if odd else 1.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    inside = total * math.sin(angle)
    return max(0.0, 1 - ((angle + inside) * 2 / math.pi if odd else inside))


def t_quantile(freedom: int) -> float:
    """How many standard errors an interval has on both sides."""
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student(middle, freedom) > ALPHA else (low, middle)
    return high


def draws(count: int) -> Iterator[np.ndarray]:
    """How often each of `count` images is drawn: samples (so many, count), always the same."""
    import numpy as np

    rng, at_once = np.random.default_rng(0), max(1, 500_000 // max(1, count))
    for start in range(0, DRAWS, at_once):
        drawn = np.empty((min(at_once, DRAWS - start), count))
        for row in drawn:
            row[:] = np.bincount(rng.integers(0, count, count), minlength=count)
        yield drawn


def gathered(
    figures: Callable[[np.ndarray], Mapping[str, np.ndarray]], count: int
) -> dict[str, np.ndarray]:
    """Figures of all samples. figures: gives each one of samples (s, count) as (s,)."""
    import numpy as np

    parts = [figures(drawn) for drawn in draws(count)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def percentiles(drawn: Sequence[float] | np.ndarray) -> Interval:
    """Of a figure, from those of samples."""
    import numpy as np

    low, high = np.quantile(drawn, (ALPHA / 2, 1 - ALPHA / 2))
    return float(low), float(high)


def _around(centre: float, spread: float) -> Interval:
    return centre - spread, centre + spread


def _normal(value: float, error: float) -> float:
    return math.erfc(abs(value) / error / math.sqrt(2)) if error else float(not value)
