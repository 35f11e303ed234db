"""Draws images and what a model made of them: predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from zoo_core.data.sheets import PAGE, page_title, pages
from zoo_core.report import look
from zoo_core.report.text import Facts
from zoo_core.spec.answers import CLASS, CLASSES

COLUMNS, WIDE, HIGH, INCH = 8, 1.08, 1.36, 1.22  # of a grid: images, and what one takes of each
LINE = 0.14  # that a third line below an image adds


def draw_grid(
    path: Path, images: np.ndarray, facts: Facts, chosen: np.ndarray, title: str
) -> list[Path]:
    """Images (n, h, w, channels), what was said of each below it; mistakes framed unless all."""
    captions, wrong = zip(*(_said(facts, i) for i in chosen), strict=True)
    framed = np.array(wrong) & (not all(wrong))
    high = HIGH + LINE * bool(facts.names)
    rows = int(PAGE / look.DPI / (INCH * high))
    parts = pages(path, len(images), COLUMNS * rows)
    for number, (file, part) in enumerate(parts, 1):
        told = page_title(title, number, len(parts))
        _draw_page(file, images[part], captions[part], framed[part], told, high)
    return [file for file, _ in parts]


def _said(facts: Facts, image: int) -> tuple[str, bool]:
    """What was said of an image, where it differs what is true; whether it is in a wrong class."""
    assert facts.values is not None
    targets, said = facts.targets, facts.values[image]
    chance = f", {100 * said.max():.0f} %" if targets.kind == CLASS else ""
    if targets.kind == CLASS:
        said = said.argmax()
    elif targets.kind == CLASSES:
        said = said >= np.array(targets.thresholds or (0.5,))
    told = targets.caption(said)
    true = told if facts.labels is None else targets.caption(facts.labels[image])
    words = look.short(told, 11 if chance else 18) + chance
    words += f"\nis {look.short(true, 15)}" if true != told else ""
    words += f"\n{look.short(Path(facts.names[image]).name, 18)}" if facts.names else ""
    return words, true != told and bool(targets.classes)


def _draw_page(
    path: Path, images: np.ndarray, captions: Sequence[str], framed: np.ndarray, title: str,
    high: float,
) -> None:  # fmt: skip
    columns = min(COLUMNS, len(images))
    rows = math.ceil(len(images) / columns)
    # One axis for all, where an image has side 1: forty small ones would take seconds to lay out.
    figure, (axes,) = look.new_figure(INCH * WIDE * columns, INCH * high * rows + 0.4, title)
    axes.set_axis_off()
    for i, image in enumerate(images):
        x, y = WIDE * (i % columns), high * (i // columns)
        _show_image(axes, image, x, y)
        colour = look.MISTAKE if framed[i] else look.INK
        if framed[i]:
            axes.add_patch(Rectangle((x, y), 1, 1, fill=False, color=colour, linewidth=3))
        axes.text(x + 0.5, y + 1.05, captions[i], ha="center", va="top", color=colour, fontsize=8.5)
    axes.set_xlim(-0.02, WIDE * columns - 0.05)
    axes.set_ylim(high * rows, -0.02)
    look.save_figure(figure, path)


def _show_image(axes: Axes, image: np.ndarray, x: float, y: float) -> None:
    """An image with square pixels and sides of 1."""
    shown = image[:, :, 0] if image.shape[2] == 1 else image
    place, how = (x, x + 1, y + 1, y), "nearest" if len(image) < 96 else "auto"
    axes.imshow(shown, cmap="gray", vmin=0, vmax=255, extent=place, interpolation=how)
