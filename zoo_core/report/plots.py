"""Draws the figures of runs: their course, their classes, several side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.ticker import MaxNLocator, NullLocator

from zoo_core.io.console import UNITS, percent
from zoo_core.report import look
from zoo_core.runs.statistics import Interval, wilson
from zoo_core.runs.summary import SPLITS, ClassScore, Confusion, Curves

MANY = 50  # classes that fit into one bar chart


def draw_curves(
    path: Path, curves: Curves, title: str, units: Mapping[str, str], best_epoch: int | None
) -> None:
    """A panel for each metric, with a line for each split that has it."""
    figure, panels = look.panels_of(len(curves), 4.6, 3.3, title)
    for axes, (metric, splits) in zip(panels, curves.items(), strict=True):
        ends = []
        for split, (epochs, values) in splits.items():
            style = look.SPLIT_STYLE[split]
            axes.plot(epochs, values, marker=look.dot(epochs), markersize=4, **style)
            share = units.get(metric) == "%"
            value = f"{100 * values[-1]:.1f} %" if share else f"{values[-1]:.4g}"
            ends.append(look.End(epochs[-1], values[-1], f"{split} {value}", style["color"]))
        look.epoch_axes(axes, metric, splits.values(), units.get(metric, ""))
        if best_epoch:
            top = units.get(metric) != "%"  # away from where the lines end
            late = best_epoch > np.mean(axes.get_xlim())
            axes.axvline(best_epoch, color=look.INK, linewidth=0.8, linestyle=":")
            axes.annotate(
                f" best epoch: {best_epoch} ", (best_epoch, 0.98 if top else 0.02), color=look.INK,
                xycoords=("data", "axes fraction"), fontsize=8.5, va="top" if top else "bottom",
                ha="right" if late else "left",
            )  # fmt: skip
        look.label_ends(axes, ends)
    look.save_figure(figure, path)


def draw_rate(path: Path, points: Sequence[tuple[int, float]]) -> None:
    """The learning rate at each epoch."""
    epochs, rates = zip(*points, strict=True)
    figure, (axes,) = look.new_figure(5.2, 2.5, "Learning rate")
    axes.plot(epochs, rates, color=look.COLOURS[0], marker=look.dot(epochs), markersize=4)
    axes.set_ylim(bottom=0)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2), useMathText=True)
    look.tidy(axes, "epoch", "learning rate")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    look.save_figure(figure, path)


def draw_confusion(path: Path, classes: Sequence[str], confusion: Confusion, title: str) -> None:
    """Rows are true classes; colours are shares of a row, figures are numbers of images."""
    counts = np.asarray(confusion, dtype=np.int64)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = float(np.clip(0.48 * len(classes), 2.4, 8.5))
    cell = 72 * side / len(classes)  # in points, as font sizes are
    font = float(np.clip(0.8 * cell, 5.0, 9.5))
    step = math.ceil(font / (0.95 * cell))  # where names would touch, some are left out
    names = [look.short(name, 22) for name in classes]
    longest = 0.62 * font * max(map(len, names))
    flat = longest < cell
    width, height = side + longest / 72 + 1.5, side + (font if flat else longest) / 72 + 0.9
    figure, (axes,) = look.new_figure(width, height)
    figure.set_layout_engine("compressed")  # made for images, whose sides are fixed
    axes.set_title(look.short(title, 80), loc="left", fontsize=11, color=look.INK)
    # Less than linear, because the mistakes are what one looks for and each is a small share.
    image = axes.imshow(shares, cmap="Blues", norm=PowerNorm(0.6, 0, 1), interpolation="nearest")
    look.tidy(axes, "predicted class", "true class", grid=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0 if step == 1 else 2, labelsize=font)
    places = range(0, len(classes), step)
    axes.set_xticks(places, names[::step], rotation=0 if flat else 90)
    axes.set_yticks(places, names[::step])
    if len(classes) <= 20:
        digits = max(len(str(counts.max())), 2)
        size = float(np.clip(1.3 * cell / digits, 4.5, 9.5))
        for (i, j), count in np.ndenumerate(counts):
            colour = "white" if shares[i, j] > 0.45 else look.INK
            if count:
                axes.text(j, i, f"{count}", ha="center", va="center", color=colour, fontsize=size)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=25, pad=0.02)
    bar.set_ticks([0, 0.05, 0.2, 0.5, 1], labels=["0 %", "5 %", "20 %", "50 %", "100 %"])
    bar.set_label("share of the true class", color=look.INK, fontsize=9)
    bar.ax.tick_params(labelsize=8, colors=look.INK, length=2)
    bar.outline.set_visible(False)
    look.save_figure(figure, path)


def draw_classes(path: Path, scores: Sequence[ClassScore], title: str) -> None:
    """A bar for each class, best on top, and of how many images; of very many, the ends."""
    shown: list[ClassScore | None] = list(scores)
    if len(scores) > MANY:
        shown[15:-15] = [None]
    figure, (axes,) = look.new_figure(6.4, 0.2 * len(shown) + 1.1, title)
    for place, score in enumerate(shown):
        if score is None:
            text = f"{len(scores) - 30} classes between these"
            axes.text(0.01, place, text, va="center", fontsize=8.5, style="italic", color=look.INK)
            continue
        low, high = wilson(score.accuracy, score.images)
        spread = [[score.accuracy - low], [high - score.accuracy]]
        axes.barh(place, score.accuracy, height=0.72, color=look.COLOURS[0], xerr=spread,
                  error_kw={"elinewidth": 0.8, "ecolor": look.INK})  # fmt: skip
        value = f"{100 * score.accuracy:.1f} % of {score.images:,}"
        axes.text(1.02, place, value, va="center", fontsize=8.5, color=look.INK)
    names = ["" if score is None else look.short(score.name, 30) for score in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, 1.0)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    look.in_percent(axes.xaxis)
    look.tidy(axes, "accuracy with its 95 % interval, and of how many images", "", grid=False)
    axes.tick_params(axis="y", length=0)
    images = sum(score.images for score in scores)
    mean = sum(score.accuracy * score.images for score in scores) / images
    axes.axvline(mean, color=look.INK, linewidth=1, linestyle=":")
    axes.annotate(f"all: {percent(mean)}", (mean, 1), xycoords=("data", "axes fraction"),
                  xytext=(0, 2), textcoords="offset points", ha="center", fontsize=8.5,
                  color=look.INK)  # fmt: skip
    look.save_figure(figure, path)


class Line(NamedTuple):
    """One run of a comparison."""

    label: str
    curves: Curves
    seconds: float | None
    accuracy: float | None
    interval: Interval | None = None  # of the accuracy


def draw_comparison(path: Path, lines: Sequence[Line]) -> None:
    """Loss and accuracy of several runs, and what the accuracy cost."""
    metrics = [m for m in ("loss", "accuracy") if any(m in line.curves for line in lines)]
    # Of what the task measures besides, what all of them have; more than two would be too small.
    shared = [m for m in lines[0].curves if all(m in line.curves for line in lines)]
    metrics += [m for m in shared if m not in metrics][:2]
    dots = [
        look.End(line.seconds, line.accuracy, look.short(line.label), look.line_style(i)[0])
        for i, line in enumerate(lines)
        if line.seconds is not None and line.accuracy is not None
    ]
    count = len(metrics) + bool(dots)
    width = 4.2 + 0.075 * min(look.LONGEST, max(len(line.label) for line in lines))
    height = max(3.6, 0.22 * len(lines) + 1)
    title = f"Comparison of {len(lines)} runs" if len(lines) > 1 else lines[0].label
    figure, panels = look.new_figure(width * count, height, title, count)
    for axes, metric in zip(panels, metrics, strict=False):
        shown, ends = [], []
        for i, line in enumerate(lines):
            splits = line.curves.get(metric, {})
            split = next((s for s in reversed(SPLITS) if s in splits), None)
            if split is None:
                continue
            epochs, values = splits[split]
            colour, dash = look.line_style(i)
            axes.plot(epochs, values, color=colour, linestyle=dash, linewidth=1.7,
                      marker=look.dot(epochs), markersize=3.5)  # fmt: skip
            shown.append((epochs, values))
            aside = "" if split == "test" else f" ({split})"
            ends.append(look.End(epochs[-1], values[-1], look.short(line.label) + aside, colour))
        look.epoch_axes(axes, metric, shown, UNITS.get(metric, ""))
        look.label_ends(axes, ends)
    if dots:
        for line, (colour, _) in zip(lines, map(look.line_style, range(len(lines))), strict=True):
            if line.interval and line.seconds is not None and line.accuracy is not None:
                panels[-1].vlines(line.seconds, *line.interval, color=colour, linewidth=1)
        _draw_cost(panels[-1], dots)
    look.save_figure(figure, path)


def _draw_cost(axes: Axes, dots: Sequence[look.End]) -> None:
    """Accuracy against training time, on a scale of powers where the times are far apart."""
    times = [d.x for d in dots]
    axes.scatter(times, [d.y for d in dots], c=[d.colour for d in dots], s=45, zorder=3)
    axes.margins(0.08)
    look.tidy(axes, "training time", "accuracy at the end")
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
    look.in_percent(axes.yaxis)
    look.label_ends(axes, dots)


def _time(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
