"""Draws several runs side by side, and what their accuracy cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullLocator, PercentFormatter

from zoo_core.report.drawing import (
    LONGEST,
    End,
    dot,
    epoch_axes,
    label_ends,
    line_style,
    new_figure,
    save,
    short,
    tidy,
)
from zoo_core.report.facts import Curves


class Line(NamedTuple):
    """One run of a comparison."""

    label: str
    curves: Curves
    seconds: float | None
    accuracy: float | None


def draw_comparison(path: Path, lines: Sequence[Line]) -> None:
    """Loss and accuracy of several runs, and what the accuracy cost."""
    metrics = [m for m in ("loss", "accuracy") if any(m in line.curves for line in lines)]
    # Of what the task measures besides, what all of them have; more than two would be too small.
    shared = [m for m in lines[0].curves if all(m in line.curves for line in lines)]
    metrics += [m for m in shared if m not in metrics][:2]
    dots = [
        End(line.seconds, line.accuracy, short(line.label, LONGEST), line_style(i)[0])
        for i, line in enumerate(lines)
        if line.seconds is not None and line.accuracy is not None
    ]
    panels = len(metrics) + bool(dots)
    width = 4.2 + 0.075 * min(LONGEST, max(len(line.label) for line in lines))
    height = max(3.6, 0.22 * len(lines) + 1)
    figure = new_figure(width * panels, height, f"Comparison of {len(lines)} runs")
    for index, metric in enumerate(metrics):
        axes = figure.add_subplot(1, panels, index + 1)
        shown, ends = [], []
        for i, line in enumerate(lines):
            splits = line.curves.get(metric, {})
            split = next((s for s in ("test", "validation", "train") if s in splits), None)
            if split is None:
                continue
            epochs, values = splits[split]
            colour, dash = line_style(i)
            axes.plot(epochs, values, color=colour, linestyle=dash, linewidth=1.7,
                      marker=dot(epochs), markersize=3.5)  # fmt: skip
            shown.append((epochs, values))
            aside = "" if split == "test" else f" ({split})"
            ends.append(End(epochs[-1], values[-1], short(line.label, LONGEST) + aside, colour))
        epoch_axes(axes, metric, shown, "")
        label_ends(axes, ends)
    if dots:
        _draw_cost(figure.add_subplot(1, panels, panels), dots)
    save(figure, path)


def _draw_cost(axes: Axes, dots: Sequence[End]) -> None:
    """Accuracy against training time, on a scale of powers where the times are far apart."""
    times = [d.x for d in dots]
    axes.scatter(times, [d.y for d in dots], c=[d.colour for d in dots], s=45, zorder=3)
    axes.margins(0.08)
    tidy(axes, "training time", "accuracy at the end")
    if min(times) > 0 and max(times) / min(times) > 10:
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        ticks = [n * unit for unit in (0.01, 0.1, 1, 60, 3600, 36000) for n in (1, 3, 10)]
        axes.set_xticks([tick for tick in ticks if low <= tick <= high])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(left=0)
        unit = 3600 if max(times) >= 7200 else 60 if max(times) >= 120 else 1
        steps = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(0, max(times) / unit)
        axes.set_xticks([unit * step for step in steps if unit * step <= axes.get_xlim()[1]])
    axes.xaxis.set_major_formatter(lambda seconds, _: _time(seconds))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    label_ends(axes, dots)


def _time(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
