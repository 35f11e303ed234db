"""Draws the trials of a search and the runs of a sweep."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from zoo import kit
from zoo.kit import (
    COLOURS,
    INK,
    MISTAKE,
    End,
    as_typed,
    epoch_axes,
    in_percent,
    label_ends,
    line_style,
    new_figure,
    panels_of,
    short,
    tidy,
)
from zoo_tune.search import Trial
from zoo_tune.space import Axis

PLACES = {"recipe": 2, "random": 0, "tpe": 1, "grid": 0}
SOURCES = {source: COLOURS[place] for source, place in PLACES.items()}
CUT: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "markersize": 5}  # of a curve


def draw_trials(path: Path, axes: Sequence[Axis], trials: Sequence[Trial], title: str) -> None:
    """The loss of each trial against each parameter: who suggested it, and what became of it."""
    good = [trial for trial in trials if trial.loss is not None]
    best = min(good, key=lambda trial: trial.loss or 0.0)
    figure, panels = panels_of(len(axes), 5.4, 3.7, title)
    for panel, axis in zip(panels, axes, strict=True):
        place = _scale(panel, axis)
        tidy(panel, axis.name, "best validation loss" if axis is axes[0] else "")
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
        if failed := [place(trial) for trial in trials if trial.loss is None]:
            panel.scatter(failed, [0.98] * len(failed), marker="x", color=MISTAKE, s=42,
                          zorder=3, transform=panel.get_xaxis_transform(),
                          label="failed")  # fmt: skip
    panel.legend(frameon=False, fontsize=8.5, loc="best")
    kit.save_figure(figure, path)


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
    good = [trial for trial in trials if trial.losses and trial.loss is not None]
    best = min(good, key=lambda trial: trial.loss or 0.0)
    figure, (axes,) = new_figure(6.4, 4.0, title)
    shown = []
    for trial in good:
        losses, colour = trial.losses, SOURCES[trial.source]
        epochs = list(range(1, len(losses) + 1))
        pruned = trial.status == "pruned"
        how: dict[str, Any] = {"color": colour, "linewidth": 1.1, "alpha": 0.6, "zorder": 2}
        if trial is best:
            how = {"color": INK, "linewidth": 2.2, "zorder": 3}
        axes.plot(epochs, losses, linestyle="--" if pruned else "-", **how)
        if pruned:  # any other curve ends where patience or the epochs ran out
            axes.plot(epochs[-1], losses[-1], color=colour, **CUT)
        shown.append((epochs, losses))
    epoch_axes(axes, "validation_loss", shown, "")
    # One trial that went astray must not press the others into a line.
    values = sorted(loss for _, losses in shown for loss in losses if math.isfinite(loss))
    low, high = values[0], values[int(0.9 * (len(values) - 1))]
    axes.set_ylim(low - 0.05 * (high - low), high + 0.15 * (high - low) + 1e-9)
    axes.plot(best.epoch or 1, best.loss or 0.0, marker="o", color=INK, markersize=6, zorder=4)
    label = f"best: trial {best.number},\nepoch {best.epoch}, {best.loss:.4g}"
    label_ends(axes, [End(len(best.losses), best.losses[-1], label, INK)])
    for source in dict.fromkeys(trial.source for trial in trials):
        axes.plot([], [], color=SOURCES[source], linewidth=1.4, label=source)
    if any(trial.status == "pruned" for trial in trials):
        axes.plot([], [], color=INK, linewidth=1.1, linestyle="--", label="pruned", **CUT)
    axes.legend(frameon=False, fontsize=8.5, loc="upper right")
    kit.save_figure(figure, path)


def draw_sweep(
    path: Path, axes: Sequence[Axis], trials: Sequence[Trial], title: str, classes: int, y: str
) -> None:
    """A panel for each axis; a line joins the runs that differ in this axis alone."""
    title += "; dotted: chance, x: collapsed" if classes else ""
    figure, panels = panels_of(len(axes), 6.0, 3.9, title)
    for panel, axis in zip(panels, axes, strict=True):
        tidy(panel, axis.name, y if axis is axes[0] else "")
        place = _scale(panel, axis)
        lines: dict[str, list[Trial]] = {}
        for trial in trials:
            others = [as_typed(v) for name, v in trial.parameters.items() if name != axis.name]
            lines.setdefault(" ".join(others), []).append(trial)
        ends = []
        for number, (name, members) in enumerate(lines.items()):
            colour, dash = line_style(number)
            ended = [t for t in members if t.status != "failed" and t.accuracy is not None]
            points = [(place(trial), trial.accuracy or 0.0) for trial in ended]
            astray = [p for p, t in zip(points, ended, strict=True) if t.collapsed(classes)]
            panel.plot(*zip(*points, strict=True), color=colour, linestyle=dash, linewidth=1.6,
                       marker="o", markersize=4.5)  # fmt: skip
            panel.scatter([x for x, _ in astray], [y for _, y in astray], marker="x", s=70,
                          color=MISTAKE, linewidths=2, zorder=4)  # fmt: skip
            if points:
                ends.append(End(*points[-1], short(name or axis.name), colour))
        in_percent(panel.yaxis)
        panel.set_xlim(-0.15, len(axis.values) - 0.85)
        if classes:
            panel.axhline(1 / classes, color=INK, linewidth=0.8, linestyle=":")
        label_ends(panel, ends)
    kit.save_figure(figure, path)
