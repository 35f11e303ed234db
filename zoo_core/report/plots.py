"""Draws the pictures of a run: its course, its classes, what it saw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter

from zoo_core.io.console import percent
from zoo_core.report.drawing import (
    COLOURS,
    COLOURS_OF_CLASSES,
    INK,
    MISTAKE,
    SPLIT_STYLE,
    End,
    dot,
    epoch_axes,
    label_ends,
    new_figure,
    save,
    short,
    tidy,
)
from zoo_core.runs.summary import ClassScore, Confusion, Curves

# ---------------------------------------------------------------- the course of a run


def draw_curves(path: Path, curves: Curves, title: str, unit: str, best_epoch: int | None) -> None:
    """A panel for each metric, with a line for each split that has it; `unit` is the loss's."""
    columns = min(len(curves), 2 if len(curves) in (2, 4) else 3)
    rows = math.ceil(len(curves) / columns)
    figure = new_figure(4.6 * columns, 3.3 * rows + 0.3, title)
    for index, (metric, splits) in enumerate(curves.items()):
        axes = figure.add_subplot(rows, columns, index + 1)
        ends = []
        for split, (epochs, values) in splits.items():
            style = SPLIT_STYLE[split]
            axes.plot(epochs, values, marker=dot(epochs), markersize=4, **style)
            value = f"{100 * values[-1]:.1f} %" if "accuracy" in metric else f"{values[-1]:.4g}"
            ends.append(End(epochs[-1], values[-1], f"{split} {value}", style["color"]))
        epoch_axes(axes, metric, splits.values(), unit)
        if best_epoch:
            top = "accuracy" not in metric  # away from where the lines end
            late = best_epoch > np.mean(axes.get_xlim())
            axes.axvline(best_epoch, color=INK, linewidth=0.8, linestyle=":")
            axes.annotate(
                f" best epoch: {best_epoch} ", (best_epoch, 0.98 if top else 0.02), color=INK,
                xycoords=("data", "axes fraction"), fontsize=8.5, va="top" if top else "bottom",
                ha="right" if late else "left",
            )  # fmt: skip
        label_ends(axes, ends)
    save(figure, path)


def draw_rate(path: Path, points: Sequence[tuple[int, float]]) -> None:
    """The learning rate at each epoch."""
    epochs, rates = zip(*points, strict=True)
    figure = new_figure(5.2, 2.5, "Learning rate")
    axes = figure.add_subplot()
    axes.plot(epochs, rates, color=COLOURS[0], marker=dot(epochs), markersize=4)
    axes.set_ylim(bottom=0)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2), useMathText=True)
    tidy(axes, "epoch", "learning rate")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    save(figure, path)


# ---------------------------------------------------------------- classes


def draw_confusion(path: Path, classes: Sequence[str], confusion: Confusion, title: str) -> None:
    """Rows are true classes; colours are shares of a row, figures are pictures."""
    counts = np.asarray(confusion, dtype=np.int64)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = float(np.clip(0.48 * len(classes), 2.4, 8.5))
    cell = 72 * side / len(classes)  # in points, as font sizes are
    font = float(np.clip(0.8 * cell, 5.0, 9.5))
    step = math.ceil(font / (0.95 * cell))  # where names would touch, some are left out
    names = [short(name, 22) for name in classes]
    longest = 0.62 * font * max(map(len, names))
    flat = longest < cell
    figure = new_figure(side + longest / 72 + 1.5, side + (font if flat else longest) / 72 + 0.9)
    figure.set_layout_engine("compressed")  # made for pictures, whose sides are fixed
    axes = figure.add_subplot()
    axes.set_title(short(title, 80), loc="left", fontsize=11, color=INK)
    # Less than linear, because the mistakes are what one looks for and each is a small share.
    image = axes.imshow(shares, cmap="Blues", norm=PowerNorm(0.6, 0, 1), interpolation="nearest")
    tidy(axes, "predicted class", "true class", grid=False)
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
    save(figure, path)


MANY = 50  # classes that fit into one picture of bars


def draw_classes(path: Path, scores: Sequence[ClassScore], title: str) -> None:
    """A bar for each class, best on top; of very many, the ends."""
    shown: list[ClassScore | None] = list(scores)
    if len(scores) > MANY:
        shown[15:-15] = [None]
    figure = new_figure(6.4, 0.2 * len(shown) + 1.1, title)
    axes = figure.add_subplot()
    for place, score in enumerate(shown):
        if score is None:
            text = f"{len(scores) - 30} classes between these"
            axes.text(0.01, place, text, va="center", fontsize=8.5, style="italic", color=INK)
            continue
        axes.barh(place, score.accuracy, height=0.72, color=COLOURS[0])
        value = f"{100 * score.accuracy:.1f} %"
        axes.text(1.1, place, value, va="center", ha="right", fontsize=8.5, color=INK)
    names = ["" if score is None else short(score.name, 30) for score in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, 1.1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    tidy(axes, "accuracy", "", grid=False)
    axes.tick_params(axis="y", length=0)
    pictures = sum(score.pictures for score in scores)
    mean = sum(score.accuracy * score.pictures for score in scores) / pictures
    axes.axvline(mean, color=INK, linewidth=1, linestyle=":")
    axes.annotate(f"all: {percent(mean)}", (mean, 1), xycoords=("data", "axes fraction"),
                  xytext=(0, 2), textcoords="offset points", ha="center", fontsize=8.5,
                  color=INK)  # fmt: skip
    save(figure, path)


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
    figure = new_figure(1.22 * wide * columns, 1.22 * high * rows + 0.4, title)
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
        caption = f"{short(classes[guesses[i]], 13)}, {100 * probabilities[i].max():.0f} %"
        if labels is not None and wrong[i]:
            caption += f"\nis {short(classes[labels[i]], 15)}"
        axes.text(x + 0.5, y + 1.05, caption, ha="center", va="top", color=colour, fontsize=8.5)
    axes.set_xlim(-0.02, wide * columns - 0.05)
    axes.set_ylim(high * rows, -0.02)
    save(figure, path)


def draw_codes(
    path: Path, places: np.ndarray, colourings: Mapping[str, np.ndarray], classes: Sequence[str],
    title: str,
) -> None:  # fmt: skip
    """Points in the plane (n, 2), a panel for each way to colour them by class."""
    figure = new_figure(5.2 * len(colourings) + 1.6, 5.4, title)
    palette = [COLOURS_OF_CLASSES[i % len(COLOURS_OF_CLASSES)] for i in range(len(classes))]
    for index, (name, labels) in enumerate(colourings.items()):
        axes = figure.add_subplot(1, len(colourings), index + 1)
        axes.set_title(name, loc="left", fontsize=10, color=INK)
        axes.set_aspect("equal", "datalim")
        axes.set_axis_off()
        axes.scatter(places[:, 0], places[:, 1], s=9, linewidths=0, alpha=0.75,
                     c=[palette[i] for i in labels])  # fmt: skip
    for name, colour in zip(classes, palette, strict=True):
        axes.scatter([], [], s=36, color=colour, label=short(name, 22))
    if len(classes) <= 30:
        axes.legend(
            loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9,
            labelcolor=INK, ncols=math.ceil(len(classes) / 15),
        )  # fmt: skip
    save(figure, path)
