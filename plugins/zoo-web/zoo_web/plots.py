"""Where things stand in a plot: numbers for templates/plots.html, which draws them as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 12, 40
LETTER, LINE = 6.3, 13  # of a label, in the units of the plot
Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Dot:
    """A model in a plot of accuracy against cost."""

    x: float
    y: float
    low: float  # the ends of its interval
    high: float
    label: str
    label_x: float
    label_y: float
    anchor: str
    href: str
    words: str  # for a screen reader, and on hover


@dataclass(frozen=True)
class Panel:
    title: str
    cost: str
    dots: Sequence[Dot]
    across: Sequence[Tick]
    up: Sequence[Tick]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


@dataclass(frozen=True)
class Point:
    """What a plot must know of a model."""

    label: str
    href: str
    accuracy: float
    interval: tuple[float, float]
    cost: float
    words: str


def panel(title: str, cost: str, points: Sequence[Point], tick: Callable[[float], str]) -> Panel:
    """Accuracy against a cost, on a logarithmic scale."""
    costs = [math.log10(point.cost) for point in points]
    left, right = _room(min(costs), max(costs), 0.12, 0.4)
    ends = [end for point in points for end in point.interval]
    low, high = _room(min(ends), min(1.0, max(ends)), 0.08, 0.005)
    high = min(1.0, high)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(value) - left) / (right - left)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)

    places = [(x(point.cost), y(point.accuracy)) for point in points]
    bars = [
        (at - 2, y(point.interval[1]), at + 2, y(point.interval[0]))
        for point, (at, _) in zip(points, places, strict=True)
    ]
    labels = _labels([point.label for point in points], places, bars)
    dots = []
    for point, (across, up), label in zip(points, places, labels, strict=True):
        low_y, high_y = (round(y(end), 1) for end in point.interval)
        at = round(across, 1), round(up, 1), low_y, high_y
        dots.append(Dot(*at, point.label, *label, point.href, point.words))
    below = [Tick(round(x(value), 1), tick(value)) for value in powers(left, right)]
    beside = [Tick(round(y(value), 1), f"{100 * value:.4g} %") for value in even(low, high)]
    return Panel(title, cost, dots, below, beside)


def _room(low: float, high: float, share: float, least: float) -> tuple[float, float]:
    more = max((high - low) * share, least)
    return low - more, high + more


def _labels(
    texts: Sequence[str], places: Sequence[tuple[float, float]], bars: Sequence[Box]
) -> list[tuple[float, float, str]]:
    """A place beside each dot where its label covers neither another label, dot nor interval."""
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in places]
    taken += bars
    found: list[tuple[float, float, str]] = []
    for text, (x, y) in zip(texts, places, strict=True):
        width, best = LETTER * len(text), (math.inf, (x + 9, y + 4, "start"))
        for up in (4, -8, 16, -20, 28, -32, 40):
            for anchor in ("start", "end"):
                at = x + 9 if anchor == "start" else x - 9
                left = at if anchor == "start" else at - width
                box = (left, y + up - LINE + 3, left + width, y + up + 3)
                outside = max(0.0, LEFT - left, left + width - (WIDTH - 2)) * 10
                outside += 500 * (box[1] < 0 or box[3] > HEIGHT - BOTTOM + 2)
                cost = outside + abs(up - 4) + sum(1000 for other in taken if _meet(box, other))
                if cost < best[0]:
                    best = cost, (at, y + up, anchor)
        at, down, anchor = best[1]
        left = at if anchor == "start" else at - width
        taken.append((left, down - LINE + 3, left + width, down + 3))
        found.append((round(at, 1), round(down, 1), anchor))
    return found


def _meet(one: Box, other: Box) -> bool:
    apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    return not apart


def powers(low: float, high: float) -> list[float]:
    """1, 10, 100 ... between two exponents; 2 and 5 as well where they are few."""
    for steps in ((1,), (1, 3), (1, 2, 5)):
        values = [
            step * 10.0**power
            for power in range(math.floor(low), math.ceil(high) + 1)
            for step in steps
        ]
        inside = [value for value in values if low <= math.log10(value) <= high]
        if len(inside) >= 3:
            break
    return inside


def even(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two."""
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * s for s in (1, 2, 2.5, 5, 10) if size * s >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 10) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def amount(value: float) -> str:
    """A number of parameters on an axis."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def minutes(value: float) -> str:
    if value < 1:
        return f"{60 * value:.2g} s"
    return f"{value / 60:.3g} h" if value >= 60 else f"{value:.2g} min"


def milliseconds(value: float) -> str:
    return f"{value:.3g} ms"
