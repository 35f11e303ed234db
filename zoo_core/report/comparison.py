"""Draws several runs side by side, and what their accuracy cost.

Draws where a model looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullLocator, PercentFormatter

from zoo_core.report.drawing import (
    INK,
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
from zoo_core.runs.summary import Curves
from zoo_core.use.predict import Attention


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


EVEN = 3  # times an even share of the attention is the least that is drawn as the brightest


def draw_attention(path: Path, seen: Attention, name: str, heads: bool) -> None:
    """The picture, and for each layer (and head) what is attended to, laid over it."""
    maps = seen.maps if heads else seen.maps.mean(1, keepdims=True)  # (layers, heads, rows, cols)
    layers, across = maps.shape[:2]
    verdict = f": {seen.label}, {100 * seen.probability:.0f} %" if seen.label else ""
    if heads:
        figure = new_figure(1.5 * (across + 1), 1.9 * layers + 0.4, f"{name}{verdict}")
        grid = figure.subplots(layers, across + 1, squeeze=False)
    else:
        columns = min(layers + 1, 5)
        rows = math.ceil((layers + 1) / columns)
        figure = new_figure(2.3 * columns, 2.7 * rows + 0.4, f"{name}{verdict}")
        grid = figure.subplots(rows, columns, squeeze=False)
    panels = [(row, 0) for row in range(layers)] if heads else [(0, 0)]
    for row, column in panels:
        _show_image(grid[row, column], seen.picture, f"layer {row + 1}" if heads else "picture")
    free = [axes for axes in grid.flat if not axes.has_data()]
    for index, axes in enumerate(free):
        axes.set_axis_off()
        if index >= layers * across:
            continue
        layer, head = divmod(index, across)
        share = maps[layer, head]
        title = f"head {head + 1}" if heads else f"layer {layer + 1}"
        _show_image(axes, seen.picture, title)
        # Each panel has its own scale: what is compared is where, and the text says how much. But
        # attention that is spread evenly must not look like attention to everything.
        brightest = max(share.max(), EVEN / share.size)
        axes.imshow(
            share / brightest, cmap="inferno", alpha=0.65, vmin=0, vmax=1,
            extent=(0, 1, 1, 0), interpolation="nearest",
        )  # fmt: skip
        most = f"at most {100 * share.max():.1f} %" + ("" if heads else " on a patch")
        axes.text(0.5, -0.04, most, ha="center", va="top", transform=axes.transAxes, fontsize=8,
                  color=INK)  # fmt: skip
    save(figure, path)


def _show_image(axes: Axes, picture: np.ndarray, title: str) -> None:
    """A picture with square pixels and no axes."""
    shown = picture[:, :, 0] if picture.shape[2] == 1 else picture
    axes.imshow(shown, cmap="gray", vmin=0, vmax=1, extent=(0, 1, 1, 0), interpolation="nearest")
    axes.set_title(title, fontsize=9, color=INK)
    axes.set_axis_off()
