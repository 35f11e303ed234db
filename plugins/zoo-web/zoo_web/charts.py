"""Charts as SVG: drawn here, so that they are there without JavaScript; charts.js reads them out.

A chart carries its points as JSON. Colours are classes of style.css, which knows dark and light.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from zoo_web.plots import amount, even, powers

WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 36
COLOURS = 8  # classes c0 to c7
MOST = 400  # points of a line; more than a screen can show


@dataclass(frozen=True)
class Series:
    """One line, or one set of dots."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    spread: Sequence[tuple[float, float]] = ()  # an interval for each y
    words: Sequence[str] = ()  # what a dot is called
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """Series on two axes. The texts of numbers are made here, by the units of the axes."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    dots: bool = False
    x_unit: str = ""  # "%", "s", "count" or ""
    y_unit: str = ""
    whole: bool = False  # x has whole numbers only
    diagonal: bool = False  # a line where x and y are equal
    logarithmic: bool = False  # of x

    def __html__(self) -> str:
        return str(draw(self))


def draw(chart: Chart) -> Markup:
    """The figure; nothing where there is no finite point."""
    points = [
        (x, y)
        for s in chart.series
        for x, y in zip(s.xs, s.ys, strict=True)
        if math.isfinite(x) and math.isfinite(y) and (x > 0 or not chart.logarithmic)
    ]
    if not points:
        return Markup("")
    ends = [v for s in chart.series for pair in s.spread for v in pair]
    across = Axis.over((x for x, _ in points), LEFT, WIDTH - RIGHT, chart.logarithmic)
    up = Axis.over([*(y for _, y in points), *ends], HEIGHT - BOTTOM, TOP)
    parts = [*_grid(chart, across, up)]
    if chart.diagonal:
        low, high = max(across.low, up.low), min(across.high, up.high)
        places = across(low), up(low), across(high), up(high)
        parts.append('<path class="ideal" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>'.format(*places))
    parts += [part for s in chart.series for part in _series(chart, s, across, up)]
    data = {
        "dots": chart.dots,
        "x": chart.x,
        "series": [_told(chart, s, across, up) for s in chart.series],
    }
    label = f"{chart.title}: {chart.y} by {chart.x}"
    return Markup(
        '<figure class="chart" data-chart="{data}"><figcaption><b>{title}</b></figcaption>'
        '<svg class="plot" viewBox="0 0 {width} {height}" role="img" tabindex="0" '
        'aria-label="{label}">{inside}<path class="cross" d=""/>'
        '<circle class="mark" r="5" cx="-9" cy="-9"/></svg>'
        '<p class="readout" role="status"></p></figure>'
    ).format(
        data=json.dumps(data), title=chart.title, width=WIDTH, height=HEIGHT, label=label,
        inside=Markup("".join(parts)),
    )  # fmt: skip


@dataclass(frozen=True)
class Axis:
    """From values to places."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    @classmethod
    def over(
        cls, values: Iterable[float], start: float, end: float, logarithmic: bool = False
    ) -> Axis:
        known = [v for v in values if math.isfinite(v) and (v > 0 or not logarithmic)]
        low, high = min(known), max(known)
        if logarithmic:
            return cls(low / 1.2, high * 1.2, start, end, True)
        room = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
        return cls(0.0 if 0 <= low <= room else low - room, high + room, start, end)

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low / 2))
        return self.start + (self.end - self.start) * (value - low) / (high - low)

    def ticks(self, whole: bool) -> list[float]:
        """About five round values."""
        if self.logarithmic:
            return powers(math.log10(self.low), math.log10(self.high))
        found = even(self.low, self.high)
        return [tick for tick in found if tick == int(tick)] if whole else found


def _grid(chart: Chart, across: Axis, up: Axis) -> Iterable[str]:
    base, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in up.ticks(False):
        y = up(tick)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{end}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" class="end">{text(tick, chart.y_unit)}</text>'
    for tick in across.ticks(chart.whole):
        x = across(tick)
        words = text(tick, chart.x_unit)
        yield f'<path class="tick" d="M{x:.1f} {base}v4"/>'
        yield f'<text x="{x:.1f}" y="{base + 17}" class="middle">{words}</text>'
    yield f'<path class="axis" d="M{LEFT} {base}H{end}"/>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text x="{middle}" y="{HEIGHT - 4}" class="middle name">{escape(chart.x)}</text>'


def _series(chart: Chart, s: Series, across: Axis, up: Axis) -> Iterable[str]:
    colour = f"c{s.colour % COLOURS}"
    for x, (low, high) in zip(s.xs, s.spread, strict=False):
        yield f'<path class="spread {colour}" d="M{across(x):.1f} {up(low):.1f}V{up(high):.1f}"/>'
    points = _places(s, across, up)
    if not chart.dots and len(points) > 1:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        yield f'<path class="line {colour}{" dashed" * s.dashed}" d="M{path}"/>'
    if chart.dots or len(points) <= 30:
        radius = 4.5 if chart.dots else 2.2
        for x, y in points:
            yield f'<circle class="dot {colour}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'


def _places(s: Series, across: Axis, up: Axis) -> list[tuple[float, float]]:
    found = zip(s.xs, s.ys, strict=True)
    kept = [(x, y) for x, y in found if math.isfinite(x) and math.isfinite(y)]
    step = math.ceil(len(kept) / MOST) or 1
    return [(across(x), up(y)) for x, y in dict.fromkeys([*kept[::step], *kept[-1:]])]


def _told(chart: Chart, s: Series, across: Axis, up: Axis) -> dict[str, Any]:
    """What charts.js reads out: places, and a text for each."""
    points = []
    for n, (x, y) in enumerate(zip(s.xs, s.ys, strict=True)):
        if not (math.isfinite(x) and math.isfinite(y)):
            continue
        words = s.words[n] if s.words else ""
        told = text(y, chart.y_unit, exact=True)
        if s.spread:
            low, high = (text(end, chart.y_unit, exact=True) for end in s.spread[n])
            told += f" ({low} to {high})"
        x_text = text(x, chart.x_unit, exact=True)
        points.append([round(across(x), 1), round(up(y), 1), x_text, told, words])
    return {"name": s.name, "colour": s.colour % COLOURS, "points": points}


def text(value: float, unit: str = "", exact: bool = False) -> str:
    """A number for an axis; exact: as it is read out."""
    if unit == "%":
        return f"{100 * value:.2f} %" if exact else f"{100 * value:.4g} %"
    if unit == "s":
        return duration(value)
    if unit == "count":
        return f"{value:,.0f}" if exact else amount(value)
    return f"{value:.5g}" if exact else f"{value:.4g}"


def duration(seconds: float) -> str:
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def curve_charts(
    curves: Sequence[tuple[str, Any]], units: Any, label: Callable[[str], str]
) -> list[Chart]:
    """A chart for each metric of several runs; curves: (name of a run, its Curves)."""
    metrics = dict.fromkeys(metric for _, one in curves for metric in one)
    charts = []
    for metric in metrics:
        series = []
        for number, (name, one) in enumerate(curves):
            splits = one.get(metric, {})
            # Of several runs the split that says most, of one run all.
            shown = list(splits) if len(curves) == 1 else [list(splits)[-1]] if splits else []
            for place, split in enumerate(shown):
                epochs, values = splits[split]
                title = split if len(curves) == 1 else name + (split != "test") * f" ({split})"
                colour = place if len(curves) == 1 else number
                dashed = split == "validation" or number >= COLOURS
                series.append(Series(title, epochs, values, colour=colour, dashed=dashed))
        unit = "%" if units.get(metric) == "%" else ""
        charts.append(Chart(label(metric), "epoch", label(metric), series, y_unit=unit, whole=True))
    return charts
