"""Draws the pictures of reports and comparisons; the only module that knows matplotlib.

Every function makes a figure of its own: nothing here touches pyplot or matplotlib's settings, so
that a notebook's own pictures stay as they are.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator, PercentFormatter

from zoo_core.files import atomic_write
from zoo_core.report.facts import ClassScore, Confusion, Curves, percent
from zoo_core.train.attention import Attention
from zoo_core.train.settings import as_typed
from zoo_core.tune.space import Axis
from zoo_core.tune.trial import Trial

FORMATS = (".png", ".pdf", ".svg")  # of a picture that somebody names
INK, FAINT, MISTAKE = "#222222", "#dddddd", "#D55E00"
# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Twelve more, as far apart as so many can be, for points of as many classes.
COLOURS_OF_CLASSES = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E6B800", "#56B4E9", "#222222", "#8C564B",
    "#7FBF3F", "#7B4FB5", "#F2A3B3", "#8A8A8A",
)  # fmt: skip
DASHES = ("-", "--", ":", "-.")
SPLIT_STYLE: Mapping[str, dict[str, Any]] = {
    "train": {"color": "#777777", "linewidth": 1.4},
    "validation": {"color": "#009E73", "linewidth": 1.6, "linestyle": "--"},
    "test": {"color": "#0072B2", "linewidth": 2.0},
}
# For class names in scripts that matplotlib's own font lacks; whichever of them is installed.
OTHER_FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "Hiragino Sans", "Microsoft YaHei",
    "SimHei", "WenQuanYi Micro Hei", "Malgun Gothic", "Noto Sans Arabic", "Noto Sans Devanagari",
    "Arial Unicode MS",
)  # fmt: skip


class End(NamedTuple):
    """The end of a line or a dot, and what is written beside it."""

    x: float
    y: float
    text: str
    colour: str


class Line(NamedTuple):
    """One run of a comparison."""

    label: str
    curves: Curves
    seconds: float | None
    accuracy: float | None


# ---------------------------------------------------------------- the course of a run


def draw_curves(path: Path, curves: Curves, title: str, unit: str, best_epoch: int | None) -> None:
    """A panel for each metric, with a line for each split that has it; `unit` is the loss's."""
    columns = min(len(curves), 2 if len(curves) in (2, 4) else 3)
    rows = math.ceil(len(curves) / columns)
    figure = _figure(4.6 * columns, 3.3 * rows + 0.3, title)
    for index, (metric, splits) in enumerate(curves.items()):
        axes = figure.add_subplot(rows, columns, index + 1)
        ends = []
        for split, (epochs, values) in splits.items():
            style = SPLIT_STYLE[split]
            axes.plot(epochs, values, marker=_dot(epochs), markersize=4, **style)
            value = f"{100 * values[-1]:.1f} %" if "accuracy" in metric else f"{values[-1]:.4g}"
            ends.append(End(epochs[-1], values[-1], f"{split} {value}", style["color"]))
        _epochs(axes, metric, splits.values(), unit)
        if best_epoch:
            top = "accuracy" not in metric  # away from where the lines end
            late = best_epoch > np.mean(axes.get_xlim())
            axes.axvline(best_epoch, color=INK, linewidth=0.8, linestyle=":")
            axes.annotate(
                f" best epoch: {best_epoch} ", (best_epoch, 0.98 if top else 0.02), color=INK,
                xycoords=("data", "axes fraction"), fontsize=8.5, va="top" if top else "bottom",
                ha="right" if late else "left",
            )  # fmt: skip
        _label_ends(axes, ends)
    _save(figure, path)


def draw_rate(path: Path, points: Sequence[tuple[int, float]]) -> None:
    """The learning rate at each epoch."""
    epochs, rates = zip(*points, strict=True)
    figure = _figure(5.2, 2.5, "Learning rate")
    axes = figure.add_subplot()
    axes.plot(epochs, rates, color=COLOURS[0], marker=_dot(epochs), markersize=4)
    axes.set_ylim(bottom=0)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2), useMathText=True)
    _tidy(axes, "epoch", "learning rate")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _save(figure, path)


LONGEST = 44  # letters of a run's label


def draw_comparison(path: Path, lines: Sequence[Line]) -> None:
    """Loss and accuracy of several runs, and what the accuracy cost."""
    metrics = [m for m in ("loss", "accuracy") if any(m in line.curves for line in lines)]
    # Of what the task measures besides, what all of them have; more than two would be too small.
    shared = [m for m in lines[0].curves if all(m in line.curves for line in lines)]
    metrics += [m for m in shared if m not in metrics][:2]
    dots = [
        End(line.seconds, line.accuracy, _short(line.label, LONGEST), _line_style(i)[0])
        for i, line in enumerate(lines)
        if line.seconds is not None and line.accuracy is not None
    ]
    panels = len(metrics) + bool(dots)
    width = 4.2 + 0.075 * min(LONGEST, max(len(line.label) for line in lines))
    height = max(3.6, 0.22 * len(lines) + 1)
    figure = _figure(width * panels, height, f"Comparison of {len(lines)} runs")
    for index, metric in enumerate(metrics):
        axes = figure.add_subplot(1, panels, index + 1)
        shown, ends = [], []
        for i, line in enumerate(lines):
            splits = line.curves.get(metric, {})
            split = next((s for s in ("test", "validation", "train") if s in splits), None)
            if split is None:
                continue
            epochs, values = splits[split]
            colour, dash = _line_style(i)
            axes.plot(epochs, values, color=colour, linestyle=dash, linewidth=1.7,
                      marker=_dot(epochs), markersize=3.5)  # fmt: skip
            shown.append((epochs, values))
            aside = "" if split == "test" else f" ({split})"
            ends.append(End(epochs[-1], values[-1], _short(line.label, LONGEST) + aside, colour))
        _epochs(axes, metric, shown, "")
        _label_ends(axes, ends)
    if dots:
        _draw_cost(figure.add_subplot(1, panels, panels), dots)
    _save(figure, path)


def _draw_cost(axes: Axes, dots: Sequence[End]) -> None:
    """Accuracy against training time, on a scale of powers where the times are far apart."""
    times = [dot.x for dot in dots]
    axes.scatter(times, [d.y for d in dots], c=[d.colour for d in dots], s=45, zorder=3)
    axes.margins(0.08)
    _tidy(axes, "training time", "accuracy at the end")
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
    _label_ends(axes, dots)


def _time(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


# ---------------------------------------------------------------- classes


def draw_confusion(path: Path, classes: Sequence[str], confusion: Confusion, title: str) -> None:
    """Rows are true classes; colours are shares of a row, figures are pictures."""
    counts = np.asarray(confusion, dtype=np.int64)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = float(np.clip(0.48 * len(classes), 2.4, 8.5))
    cell = 72 * side / len(classes)  # in points, as font sizes are
    font = float(np.clip(0.8 * cell, 5.0, 9.5))
    step = math.ceil(font / (0.95 * cell))  # where names would touch, some are left out
    names = [_short(name, 22) for name in classes]
    longest = 0.62 * font * max(map(len, names))
    flat = longest < cell
    figure = _figure(side + longest / 72 + 1.5, side + (font if flat else longest) / 72 + 0.9)
    figure.set_layout_engine("compressed")  # made for pictures, whose sides are fixed
    axes = figure.add_subplot()
    axes.set_title(_short(title, 80), loc="left", fontsize=11, color=INK)
    # Less than linear, because the mistakes are what one looks for and each is a small share.
    image = axes.imshow(shares, cmap="Blues", norm=PowerNorm(0.6, 0, 1), interpolation="nearest")
    _tidy(axes, "predicted class", "true class", grid=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0 if step == 1 else 2, labelsize=font)
    places = range(0, len(classes), step)
    axes.set_xticks(places, names[::step], rotation=0 if flat else 90)
    axes.set_yticks(places, names[::step])
    if len(classes) <= 20:
        digits = len(str(counts.max()))
        size = float(np.clip(1.3 * cell / max(digits, 2), 4.5, 9.5))
        for (i, j), count in np.ndenumerate(counts):
            colour = "white" if shares[i, j] > 0.45 else INK
            if count:
                axes.text(j, i, f"{count}", ha="center", va="center", color=colour, fontsize=size)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=25, pad=0.02)
    bar.set_ticks([0, 0.05, 0.2, 0.5, 1], labels=["0 %", "5 %", "20 %", "50 %", "100 %"])
    bar.set_label("share of the true class", color=INK, fontsize=9)
    bar.ax.tick_params(labelsize=8, colors=INK, length=2)
    bar.outline.set_visible(False)
    _save(figure, path)


MANY = 50  # classes that fit into one picture of bars


def draw_classes(path: Path, scores: Sequence[ClassScore], title: str) -> None:
    """A bar for each class, best on top; of very many, the ends."""
    shown: list[ClassScore | None] = list(scores)
    if len(scores) > MANY:
        shown[15:-15] = [None]
    figure = _figure(6.4, 0.2 * len(shown) + 1.1, title)
    axes = figure.add_subplot()
    for place, score in enumerate(shown):
        if score is None:
            text = f"{len(scores) - 30} classes between these"
            axes.text(0.01, place, text, va="center", fontsize=8.5, style="italic", color=INK)
            continue
        axes.barh(place, score.accuracy, height=0.72, color=COLOURS[0])
        value = f"{100 * score.accuracy:.1f} %"
        axes.text(1.1, place, value, va="center", ha="right", fontsize=8.5, color=INK)
    names = ["" if score is None else _short(score.name, 30) for score in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, 1.1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    _tidy(axes, "accuracy", "", grid=False)
    axes.tick_params(axis="y", length=0)
    pictures = sum(score.pictures for score in scores)
    mean = sum(score.accuracy * score.pictures for score in scores) / pictures
    axes.axvline(mean, color=INK, linewidth=1, linestyle=":")
    axes.annotate(f"all: {percent(mean)}", (mean, 1), xycoords=("data", "axes fraction"),
                  xytext=(0, 2), textcoords="offset points", ha="center", fontsize=8.5,
                  color=INK)  # fmt: skip
    _save(figure, path)


# ---------------------------------------------------------------- pictures of the data


def draw_grid(
    path: Path,
    images: np.ndarray,
    classes: Sequence[str],
    probabilities: np.ndarray,
    labels: np.ndarray | None,
    title: str,
) -> None:
    """A grid of pictures (n, height, width, channels) with their class; mistakes are framed.

    Where all of them are mistakes, frames would say nothing.
    """
    columns = min(8, len(images))
    rows = math.ceil(len(images) / columns)
    # One axis for all, where a picture has side 1: forty small ones would take seconds to lay out.
    wide, high = 1.08, 1.36
    figure = _figure(1.22 * wide * columns, 1.22 * high * rows + 0.4, title)
    axes = figure.add_subplot()
    axes.set_axis_off()
    guesses = probabilities.argmax(1)
    wrong = np.zeros(len(images), bool) if labels is None else guesses != labels
    framed = wrong & (not wrong.all())
    for i, picture in enumerate(images):
        x, y = wide * (i % columns), high * (i // columns)
        axes.imshow(
            picture[..., 0] if picture.shape[2] == 1 else picture, cmap="gray", vmin=0, vmax=255,
            extent=(x, x + 1, y + 1, y), interpolation="nearest" if len(picture) < 96 else "auto",
        )  # fmt: skip
        colour = MISTAKE if framed[i] else INK
        if framed[i]:
            axes.add_patch(Rectangle((x, y), 1, 1, fill=False, color=colour, linewidth=3))
        caption = f"{_short(classes[guesses[i]], 13)}, {100 * probabilities[i].max():.0f} %"
        if labels is not None and wrong[i]:
            caption += f"\nis {_short(classes[labels[i]], 15)}"
        axes.text(x + 0.5, y + 1.05, caption, ha="center", va="top", color=colour, fontsize=8.5)
    axes.set_xlim(-0.02, wide * columns - 0.05)
    axes.set_ylim(high * rows, -0.02)
    _save(figure, path)


def draw_codes(
    path: Path, places: np.ndarray, colourings: Mapping[str, np.ndarray], classes: Sequence[str],
    title: str,
) -> None:  # fmt: skip
    """Points in the plane (n, 2), a panel for each way to colour them by class."""
    figure = _figure(5.2 * len(colourings) + 1.6, 5.4, title)
    palette = [COLOURS_OF_CLASSES[i % len(COLOURS_OF_CLASSES)] for i in range(len(classes))]
    for index, (name, labels) in enumerate(colourings.items()):
        axes = figure.add_subplot(1, len(colourings), index + 1)
        axes.set_title(name, loc="left", fontsize=10, color=INK)
        axes.set_aspect("equal", "datalim")
        axes.set_axis_off()
        axes.scatter(places[:, 0], places[:, 1], s=9, linewidths=0, alpha=0.75,
                     c=[palette[i] for i in labels])  # fmt: skip
    for name, colour in zip(classes, palette, strict=True):
        axes.scatter([], [], s=36, color=colour, label=_short(name, 22))
    if len(classes) <= 30:
        axes.legend(
            loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9,
            labelcolor=INK, ncols=math.ceil(len(classes) / 15),
        )  # fmt: skip
    _save(figure, path)


# ---------------------------------------------------------------- searches

SOURCES = {"recipe": COLOURS[2], "random": COLOURS[0], "tpe": COLOURS[1], "grid": COLOURS[0]}


def draw_trials(path: Path, axes: Sequence[Axis], trials: Sequence[Trial], title: str) -> None:
    """The loss of each trial against each parameter: who suggested it, and what became of it."""
    good = [trial for trial in trials if trial.loss is not None]
    best = min(good, key=lambda trial: trial.loss or 0.0)
    figure = _figure(5.4 * len(axes), 4.0, title)
    for index, axis in enumerate(axes):
        panel = figure.add_subplot(1, len(axes), index + 1)
        place = _scale(panel, axis)
        _tidy(panel, axis.name, "best validation loss" if index == 0 else "")
        for source, colour in SOURCES.items():
            for pruned in (False, True):
                some = [t for t in good if t.source == source and (t.status == "pruned") == pruned]
                panel.scatter(
                    [place(t) for t in some], [t.loss or 0.0 for t in some], s=42, zorder=3,
                    edgecolors=colour, facecolors="white" if pruned else colour, linewidths=1.5,
                    label=source + (", pruned" if pruned else "") if some else None,
                )  # fmt: skip
        panel.scatter([place(best)], [best.loss or 0.0], s=190, zorder=2, facecolors="none",
                      edgecolors=INK, linewidths=1.2, label="best")  # fmt: skip
        for trial in trials:
            if trial.loss is None:
                panel.scatter([place(trial)], [0.98], marker="x", color=MISTAKE, s=42, zorder=3,
                              transform=panel.get_xaxis_transform(),
                              label="failed")  # fmt: skip
        if index == len(axes) - 1:
            shown = dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
            panel.legend(shown.values(), shown.keys(), frameon=False, fontsize=8.5, loc="best")
    _save(figure, path)


def _scale(panel: Axes, axis: Axis) -> Callable[[Trial], float]:
    """Prepare the axis of a parameter; the function gives a trial's place on it."""
    if axis.kind != "choice":
        if axis.kind == "log":
            panel.set_xscale("log")
        return lambda trial: float(trial.parameters[axis.name])
    panel.set_xticks(range(len(axis.values)), [_short(as_typed(v), 16) for v in axis.values])
    panel.set_xlim(-0.5, len(axis.values) - 0.5)
    return lambda trial: axis.values.index(trial.parameters[axis.name])


def draw_trial_curves(path: Path, trials: Sequence[Trial], title: str) -> None:
    """The validation loss of all trials, the best one in front."""
    curves = {t.number: t.losses for t in trials if len(t.losses) and t.loss is not None}
    best = min((t for t in trials if t.number in curves), key=lambda t: t.loss or 0.0)
    figure = _figure(6.4, 4.0, title)
    axes = figure.add_subplot()
    shown = []
    for trial in trials:
        if trial.number not in curves:
            continue
        losses = curves[trial.number]
        epochs = list(range(1, len(losses) + 1))
        first = trial.number == best.number
        axes.plot(epochs, losses, color=INK if first else SOURCES[trial.source],
                  linewidth=2.2 if first else 1.1, alpha=1.0 if first else 0.6, zorder=3 if first
                  else 2, linestyle="--" if trial.status == "pruned" else "-")  # fmt: skip
        # A pruned curve ends where it was cut, any other where patience or the epochs ran out.
        axes.plot(epochs[-1], losses[-1], marker="o" if trial.status == "pruned" else "",
                  color=SOURCES[trial.source], markerfacecolor="white", markersize=5)  # fmt: skip
        shown.append((epochs, losses))
    _epochs(axes, "validation_loss", shown, "")
    # One trial that went astray must not press the others into a line.
    values = sorted(loss for _, losses in shown for loss in losses if math.isfinite(loss))
    low, high = values[0], values[int(0.9 * (len(values) - 1))]
    axes.set_ylim(low - 0.05 * (high - low), high + 0.15 * (high - low) + 1e-9)
    axes.plot(best.epoch or 1, best.loss or 0.0, marker="o", color=INK, markersize=6, zorder=4)
    label = f"best: trial {best.number},\nepoch {best.epoch}, {best.loss:.4g}"
    losses = curves[best.number]
    _label_ends(axes, [End(len(losses), losses[-1], label, INK)])
    for source in dict.fromkeys(t.source for t in trials):
        axes.plot([], [], color=SOURCES[source], linewidth=1.4, label=source)
    if any(t.status == "pruned" for t in trials):
        axes.plot([], [], color=INK, linewidth=1.1, linestyle="--", marker="o",
                  markerfacecolor="white", markersize=5, label="pruned")  # fmt: skip
    axes.legend(frameon=False, fontsize=8.5, loc="upper right")
    _save(figure, path)


class Swept(NamedTuple):
    """One run of a sweep."""

    parameters: Mapping[str, Any]
    accuracy: float | None  # None: it failed
    collapsed: bool


def draw_sweep(
    path: Path, axes: Sequence[Axis], runs: Sequence[Swept], title: str, chance: float, y: str
) -> None:
    """A panel for each axis; a line joins the runs that differ in this axis alone."""
    title += "; dotted: chance, x: collapsed" if chance else ""
    figure = _figure(6.0 * len(axes), 4.2, title)
    for index, axis in enumerate(axes):
        panel = figure.add_subplot(1, len(axes), index + 1)
        _tidy(panel, axis.name, y if index == 0 else "")
        panel.set_xticks(range(len(axis.values)), [_short(as_typed(v), 16) for v in axis.values])
        others = [other for other in axes if other is not axis]
        lines: dict[str, list[Swept]] = {}
        for run in runs:
            name = " ".join(as_typed(run.parameters[other.name]) for other in others)
            lines.setdefault(name, []).append(run)
        ends = []
        for number, (name, members) in enumerate(lines.items()):
            colour, dash = _line_style(number)
            members = [run for run in members if run.accuracy is not None]
            x = [axis.values.index(run.parameters[axis.name]) for run in members]
            values = [run.accuracy or 0.0 for run in members]
            panel.plot(x, values, color=colour, linestyle=dash, linewidth=1.6, marker="o",
                       markersize=4.5)  # fmt: skip
            astray = [(a, b) for a, b, run in zip(x, values, members, strict=True) if run.collapsed]
            panel.scatter([a for a, _ in astray], [b for _, b in astray], marker="x", s=70,
                          color=MISTAKE, linewidths=2, zorder=4)  # fmt: skip
            if values:
                ends.append(End(x[-1], values[-1], _short(name or axis.name, LONGEST), colour))
        panel.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        panel.set_xlim(-0.15, len(axis.values) - 0.85)
        if chance:
            panel.axhline(chance, color=INK, linewidth=0.8, linestyle=":")
        _label_ends(panel, ends)
    _save(figure, path)


# ---------------------------------------------------------------- where a model looks


EVEN = 3  # times an even share of the attention is the least that is drawn as the brightest


def draw_attention(path: Path, seen: Attention, name: str, heads: bool) -> None:
    """The picture, and for each layer (and head) what is attended to, laid over it."""
    maps = seen.maps if heads else seen.maps.mean(1, keepdims=True)  # (layers, heads, rows, cols)
    layers, across = maps.shape[:2]
    verdict = f": {seen.label}, {100 * seen.probability:.0f} %" if seen.label else ""
    if heads:
        figure = _figure(1.5 * (across + 1), 1.75 * layers + 0.4, f"{name}{verdict}")
        grid = figure.subplots(layers, across + 1, squeeze=False)
    else:
        columns = min(layers + 1, 5)
        rows = math.ceil((layers + 1) / columns)
        figure = _figure(2.3 * columns, 2.7 * rows + 0.4, f"{name}{verdict}")
        grid = figure.subplots(rows, columns, squeeze=False)
    panels = [(row, 0) for row in range(layers)] if heads else [(0, 0)]
    for row, column in panels:
        _show(grid[row, column], seen.picture, f"layer {row + 1}" if heads else "picture")
    free = [axes for axes in grid.flat if not axes.has_data()]
    for index, axes in enumerate(free):
        axes.set_axis_off()
        if index >= layers * across:
            continue
        layer, head = divmod(index, across)
        share = maps[layer, head]
        title = f"head {head + 1}" if heads else f"layer {layer + 1}"
        _show(axes, seen.picture, title)
        # Each panel has its own scale: what is compared is where, and the text says how much. But
        # attention that is spread evenly must not look like attention to everything.
        brightest = max(share.max(), EVEN / share.size)
        axes.imshow(
            share / brightest, cmap="inferno", alpha=0.65, vmin=0, vmax=1,
            extent=(0, 1, 1, 0), interpolation="nearest",
        )  # fmt: skip
        if not heads:
            axes.text(
                0.5, -0.04, f"at most {100 * share.max():.1f} % on a patch", ha="center", va="top",
                transform=axes.transAxes, fontsize=8, color=INK,
            )  # fmt: skip
    _save(figure, path)


def _show(axes: Axes, picture: np.ndarray, title: str) -> None:
    """A picture with square pixels and no axes."""
    shown = picture[:, :, 0] if picture.shape[2] == 1 else picture
    axes.imshow(shown, cmap="gray", vmin=0, vmax=1, extent=(0, 1, 1, 0), interpolation="nearest")
    axes.set_title(title, fontsize=9, color=INK)
    axes.set_axis_off()


# ---------------------------------------------------------------- shared by all


def _figure(width: float, height: float, title: str = "") -> Figure:
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(_short(title, 200), x=0.01, ha="left", fontsize=11, color=INK)
    return figure


def _save(figure: Figure, path: Path) -> None:
    installed = {font.name for font in fontManager.ttflist}
    family = ["DejaVu Sans", *(name for name in OTHER_FONTS if name in installed)]
    for text in figure.findobj(Text):
        text.set_fontfamily(family)
    with atomic_write(path) as temporary, warnings.catch_warnings():
        # A class name in a script that no font here has is drawn as boxes, not reported 40 times.
        warnings.filterwarnings("ignore", message="Glyph")
        kind = path.suffix.lstrip(".")
        figure.savefig(temporary, format=kind, bbox_inches="tight", pad_inches=0.1)


def _tidy(axes: Axes, x: str, y: str, *, grid: bool = True) -> None:
    """Labels, and no more ink than they need. Colours are set: a notebook may have a dark style."""
    axes.set_facecolor("white")
    axes.set_xlabel(x, fontsize=9.5, color=INK)
    axes.set_ylabel(y, fontsize=9.5, color=INK)
    axes.tick_params(labelsize=9, colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#888888")
    axes.grid(False)
    if grid:
        axes.grid(True, axis="y", color=FAINT, linewidth=0.7)
        axes.set_axisbelow(True)


def _epochs(
    axes: Axes, metric: str, lines: Iterable[tuple[Sequence[int], Sequence[float]]], unit: str
) -> None:
    """An axis of epochs below, and one for the metric: a share, or a number."""
    lines = list(lines)
    name = metric.replace("_", " ")
    _tidy(axes, "epoch", f"{name} ({unit})" if unit and metric == "loss" else name)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    first, last = (end(end(epochs) for epochs, _ in lines) for end in (min, max))
    if first == last:
        axes.set_xticks([first])
    else:
        axes.set_xlim(first, last)
    values = [v for _, line in lines for v in line if math.isfinite(v)]
    if "accuracy" in metric:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    elif values and min(values) > 0 and max(values) / min(values) > 100:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())


def _label_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Texts to the right of the panel, as near to the ends as they can be without overlap."""
    ends = [end for end in ends if math.isfinite(end.y)]
    if not ends:
        return
    axes.set_ylim(axes.get_ylim())  # from now on fixed
    axes.set_xlim(axes.get_xlim())
    inverse = axes.transAxes.inverted()
    places = [float(inverse.transform(axes.transData.transform((e.x, e.y)))[1]) for e in ends]
    figure = axes.get_figure(root=True)
    assert figure is not None
    gap = 13 / 72 / (0.72 * figure.get_figheight() / axes.get_gridspec().nrows)  # type: ignore[union-attr]
    for end, place in zip(ends, spread(places, gap), strict=True):
        axes.annotate(
            end.text, (end.x, end.y), (1.04, place), textcoords="axes fraction", va="center",
            color=end.colour, fontsize=9, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": end.colour, "linewidth": 0.6, "alpha": 0.6,
                        "shrinkA": 1, "shrinkB": 2, "relpos": (0, 0.5)},
        )  # fmt: skip


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Move places in [0, 1] as little as need be until they are `gap` apart."""
    gap = min(gap, 1 / max(1, len(places) - 1))
    order = np.argsort(places, kind="stable")
    moved = np.clip(np.asarray(places)[order], 0, 1)
    for _ in range(200):  # neighbours push each other apart; a few rounds settle it
        push = np.maximum(gap - np.diff(moved), 0) / 2
        moved[1:] += push
        moved[:-1] -= push
        moved = np.clip(moved, 0, 1)
    return [float(moved[list(order).index(i)]) for i in range(len(places))]


def _line_style(index: int) -> tuple[str, str]:
    return COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)]


def _dot(epochs: Sequence[int]) -> str:
    """Points are marked while there are few of them; a single one would be invisible."""
    return "o" if len(epochs) <= 2 else ""


def _short(name: str, most: int) -> str:
    """A name that fits and is shown as it is: to matplotlib a $ would begin a formula."""
    name = re.sub(r"\s+", " ", name)
    name = name if len(name) <= most else name[: most - 1].rstrip() + "…"
    return name.replace("$", r"\$")
