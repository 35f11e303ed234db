"""Draws the trials of a search and the runs of a sweep."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from zoo_core.report.drawing import (
    COLOURS,
    INK,
    LONGEST,
    MISTAKE,
    End,
    epoch_axes,
    label_ends,
    line_style,
    new_figure,
    save,
    short,
    tidy,
)
from zoo_core.spec.settings import as_typed
from zoo_core.tune.searcher import Trial
from zoo_core.tune.space import Axis

SOURCES = {"recipe": COLOURS[2], "random": COLOURS[0], "tpe": COLOURS[1], "grid": COLOURS[0]}


def draw_trials(path: Path, axes: Sequence[Axis], trials: Sequence[Trial], title: str) -> None:
    """The loss of each trial against each parameter: who suggested it, and what became of it."""
    good = [trial for trial in trials if trial.loss is not None]
    best = min(good, key=lambda trial: trial.loss or 0.0)
    figure = new_figure(5.4 * len(axes), 4.0, title)
    for index, axis in enumerate(axes):
        panel = figure.add_subplot(1, len(axes), index + 1)
        place = _scale(panel, axis)
        tidy(panel, axis.name, "best validation loss" if index == 0 else "")
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
    save(figure, path)


def _scale(panel: Axes, axis: Axis) -> Callable[[Trial], float]:
    """Prepare the axis of a parameter; the function gives a trial's place on it."""
    if axis.kind != "choice":
        if axis.kind == "log":
            panel.set_xscale("log")
        return lambda trial: float(trial.parameters[axis.name])
    panel.set_xticks(range(len(axis.values)), [short(as_typed(v), 16) for v in axis.values])
    panel.set_xlim(-0.5, len(axis.values) - 0.5)
    return lambda trial: axis.values.index(trial.parameters[axis.name])


def draw_trial_curves(path: Path, trials: Sequence[Trial], title: str) -> None:
    """The validation loss of all trials, the best one in front."""
    curves = {t.number: t.losses for t in trials if len(t.losses) and t.loss is not None}
    best = min((t for t in trials if t.number in curves), key=lambda t: t.loss or 0.0)
    figure = new_figure(6.4, 4.0, title)
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
    epoch_axes(axes, "validation_loss", shown, "")
    # One trial that went astray must not press the others into a line.
    values = sorted(loss for _, losses in shown for loss in losses if math.isfinite(loss))
    low, high = values[0], values[int(0.9 * (len(values) - 1))]
    axes.set_ylim(low - 0.05 * (high - low), high + 0.15 * (high - low) + 1e-9)
    axes.plot(best.epoch or 1, best.loss or 0.0, marker="o", color=INK, markersize=6, zorder=4)
    label = f"best: trial {best.number},\nepoch {best.epoch}, {best.loss:.4g}"
    losses = curves[best.number]
    label_ends(axes, [End(len(losses), losses[-1], label, INK)])
    for source in dict.fromkeys(t.source for t in trials):
        axes.plot([], [], color=SOURCES[source], linewidth=1.4, label=source)
    if any(t.status == "pruned" for t in trials):
        axes.plot([], [], color=INK, linewidth=1.1, linestyle="--", marker="o",
                  markerfacecolor="white", markersize=5, label="pruned")  # fmt: skip
    axes.legend(frameon=False, fontsize=8.5, loc="upper right")
    save(figure, path)


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
    figure = new_figure(6.0 * len(axes), 4.2, title)
    for index, axis in enumerate(axes):
        panel = figure.add_subplot(1, len(axes), index + 1)
        tidy(panel, axis.name, y if index == 0 else "")
        panel.set_xticks(range(len(axis.values)), [short(as_typed(v), 16) for v in axis.values])
        others = [other for other in axes if other is not axis]
        lines: dict[str, list[Swept]] = {}
        for run in runs:
            name = " ".join(as_typed(run.parameters[other.name]) for other in others)
            lines.setdefault(name, []).append(run)
        ends = []
        for number, (name, members) in enumerate(lines.items()):
            colour, dash = line_style(number)
            members = [run for run in members if run.accuracy is not None]
            x = [axis.values.index(run.parameters[axis.name]) for run in members]
            values = [run.accuracy or 0.0 for run in members]
            panel.plot(x, values, color=colour, linestyle=dash, linewidth=1.6, marker="o",
                       markersize=4.5)  # fmt: skip
            astray = [(a, b) for a, b, run in zip(x, values, members, strict=True) if run.collapsed]
            panel.scatter([a for a, _ in astray], [b for _, b in astray], marker="x", s=70,
                          color=MISTAKE, linewidths=2, zorder=4)  # fmt: skip
            if values:
                ends.append(End(x[-1], values[-1], short(name or axis.name, LONGEST), colour))
        panel.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        panel.set_xlim(-0.15, len(axis.values) - 0.85)
        if chance:
            panel.axhline(chance, color=INK, linewidth=0.8, linestyle=":")
        label_ends(panel, ends)
    save(figure, path)
