"""Draws what a model said of the test images, by the kind of their labels."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from zoo_core.report import look
from zoo_core.runs.predictions import reliability
from zoo_core.spec.answers import (
    ClassAnswers,
    Targets,
    average_precision,
    precision_recall,
)

MOST = 12  # curves, or panels, that can be told apart
DOTS = 2000  # points of a panel


def draw_calibration(
    path: Path, targets: Targets, values: np.ndarray, labels: np.ndarray, title: str
) -> None:
    """How often answers are right that are so sure, in bins; and the mistakes among the surest."""
    answers, plain = ClassAnswers(targets), ClassAnswers(replace(targets, temperature=1.0))
    right, before = values.argmax(1) == labels, plain.values(answers.raw(values)).max(1)
    figure, (bars, risks) = look.new_figure(9.4, 3.8, f"{title}: how sure it is", 2)
    sides = [(values.max(1), look.COLOURS[0], "as it answers", "o-")]
    if targets.temperature != 1:
        told = f"before the temperature {targets.temperature:.3g}"
        sides.insert(0, (before, "#999999", told, "o:"))
    for sure, colour, name, style in sides:
        means, shares, ends = zip(*reliability(sure, right), strict=True)
        spread = np.abs(np.array(ends).T - shares)
        bars.errorbar(means, shares, spread, fmt=style, color=colour, markersize=4,
                      linewidth=1.2, elinewidth=0.8, label=name)  # fmt: skip
    bars.plot([0, 1], [0, 1], color=look.INK, linewidth=0.8, linestyle=":")
    look.tidy(bars, "probability of the answer", "right answers, 95 % intervals")
    bars.legend(loc="upper left", frameon=False, fontsize=8.5)
    wrong = ~right[np.argsort(-values.max(1), kind="stable")]
    kept = np.arange(1, len(wrong) + 1)
    risks.plot(kept / len(wrong), np.cumsum(wrong) / kept, color=look.COLOURS[0], linewidth=1.5)
    look.tidy(risks, "images that it answers, the surest first", "mistakes among them")
    risks.set_ylim(bottom=0)
    for axis in (bars.xaxis, bars.yaxis, risks.xaxis, risks.yaxis):
        look.in_percent(axis)
    look.save_figure(figure, path)


def draw_precision_recall(
    path: Path, targets: Targets, values: np.ndarray, labels: np.ndarray, title: str
) -> None:
    """A curve for each class, the best first; of very many, the worst. Dots are the thresholds."""
    there = [i for i in range(len(targets.names)) if labels[:, i].any()]
    scores = {i: average_precision(values[:, i], labels[:, i]) for i in there}
    shown = sorted(there, key=lambda i: scores[i])[:MOST][::-1]
    few = f", the {len(shown)} worst of {len(there)} classes" if len(shown) < len(there) else ""
    figure, (axes,) = look.new_figure(
        6.4, 4.4, f"{title}: precision and recall{few}; dots: the thresholds"
    )
    thresholds = targets.thresholds or (0.5,) * len(targets.names)
    for place, i in enumerate(shown):
        colour = look.CLASS_COLOURS[place % len(look.CLASS_COLOURS)]
        precision, recall, found = precision_recall(values[:, i], labels[:, i])
        told = f"{look.short(targets.names[i], 24)} {100 * scores[i]:.1f} %"
        axes.step(recall, precision, where="pre", color=colour, linewidth=1.4, label=told)
        taken = np.flatnonzero(found >= thresholds[i])
        if len(taken):
            axes.plot(recall[taken[-1]], precision[taken[-1]], "o", color=colour, markersize=5)
    look.tidy(axes, "recall: of the images with a class, those that were found",
              "precision: of those that were named, the right ones")  # fmt: skip
    axes.set_xlim(0, 1.01)
    axes.set_ylim(0, 1.02)
    look.in_percent(axes.xaxis)
    look.in_percent(axes.yaxis)
    axes.legend(
        title="average precision", loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False,
        fontsize=8.5, title_fontsize=8.5,
    )  # fmt: skip
    look.save_figure(figure, path)


def draw_numbers(
    path: Path, targets: Targets, values: np.ndarray, labels: np.ndarray, title: str
) -> None:
    """For each number a panel of predicted against true, and one of the errors."""
    count = min(len(targets.names), MOST)
    figure, panels = look.new_figure(3.6 * count, 6.2, title, count, 2)
    some = np.random.default_rng(0).permutation(len(labels))[:DOTS]
    for i, (name, unit) in enumerate(islice(targets.with_units(), count)):
        name += f" ({unit})" if unit else ""
        true, said = labels[some, i], values[some, i]
        scatter, errors = panels[i], panels[count + i]
        scatter.scatter(true, said, s=8, alpha=0.45, color=look.COLOURS[0], linewidths=0)
        ends = [min(true.min(), said.min()), max(true.max(), said.max())]
        scatter.plot(ends, ends, color=look.INK, linewidth=0.8, linestyle=":")
        look.tidy(scatter, f"true {look.short(name, 40)}", "predicted")
        wrong = values[:, i] - labels[:, i]
        errors.hist(wrong, bins=40, color=look.COLOURS[0])
        errors.axvline(0, color=look.INK, linewidth=0.8, linestyle=":")
        mean, spread = float(wrong.mean()), float(wrong.std())
        look.tidy(errors, f"predicted - true, {look.short(name, 40)}", "images")
        errors.set_title(f"mean {mean:.3g}, deviation {spread:.3g}", fontsize=9, color=look.INK)
    look.save_figure(figure, path)
