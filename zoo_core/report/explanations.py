"""Draws explanations: each image, and beside it the same with the map over it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from zoo_core.data.sheets import pages
from zoo_core.io.errors import os_errors
from zoo_core.report import look, notebook
from zoo_core.use.explain import Explanation, resized

ROWS, SIDE, LINE = 4, 3.3, 0.17  # of a page; inches of an image, and of a line of text
WIDE = 46  # letters of a line below an image
SMOOTH = 256  # pixels of a side of a map that is laid over an image
NAMES = {"cam": "Grad-CAM", "attention": "attention", "occlusion": "occlusion"}
NORM = Normalize(0, 1)
SCALE = ScalarMappable(NORM, "inferno")


def draw_explanations(path: Path, shown: Sequence[Explanation]) -> list[Path]:
    """A row for each image: it, and the map over it. A colour means the same in all of them."""
    found = pages(path, len(shown), ROWS)
    with os_errors(f"{path} could not be written"):
        for file, part in found:
            _draw_page(file, shown[part])
    return [file for file, _ in found]


def _draw_page(path: Path, shown: Sequence[Explanation]) -> None:
    told = [[*wrap(look.short(one.answer), WIDE), *wrap(one.sentence, WIDE)] for one in shown]
    # Of each image as much room as its shape needs.
    shapes = [min(1.6, max(0.5, one.pixels.shape[0] / one.pixels.shape[1])) for one in shown]
    heights = [SIDE * h + LINE * len(lines) + 0.5 for h, lines in zip(shapes, told, strict=True)]
    figure, panels = look.new_figure(2 * SIDE + 1.0, sum(heights), "", 2, len(shown))
    panels[0].get_gridspec().set_height_ratios(heights)  # type: ignore[union-attr]
    rows = zip(shown, told, panels[::2], panels[1::2], strict=True)
    for one, lines, plain, over in rows:
        shape = _show(plain, one.pixels, Path(one.image).name)
        _show(over, one.pixels, NAMES[one.method])
        plain.set_xlabel("\n".join(lines), loc="left", fontsize=8.5, color=look.INK)
        left, top, right, bottom = one.box
        over.imshow(resized(one.map, SMOOTH), cmap=SCALE.cmap, norm=NORM, alpha=0.55,
                    extent=(left, right, bottom, top), aspect=shape)  # fmt: skip
        over.set(xlim=(0, 1), ylim=(1, 0))
    bar = figure.colorbar(SCALE, ax=list(panels), aspect=30, shrink=min(0.7, 1.8 / len(shown)),
                          pad=0.02, alpha=0.55)  # fmt: skip
    words = "importance (1: the most important place)"
    bar.set_label(words, fontsize=8.5, color=look.INK)
    bar.ax.tick_params(labelsize=8, colors=look.INK, length=2)
    bar.outline.set_visible(False)
    look.save_figure(figure, path)


def _show(axes: Axes, pixels: np.ndarray, title: str) -> float:
    """An image with sides of 1; how many times as high as wide it is drawn."""
    shape = float(pixels.shape[0] / pixels.shape[1])
    how = "nearest" if min(pixels.shape[:2]) < 96 else "auto"
    axes.imshow(pixels, extent=(0, 1, 1, 0), aspect=shape, interpolation=how)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_title(look.short(title, 40), loc="left", fontsize=9.5, color=look.INK)
    return shape


def explanations_html(shown: Explanation | Sequence[Explanation]) -> str:
    """The first page of the plot."""
    every = [shown] if isinstance(shown, Explanation) else shown
    words = "; ".join(f"{one.image}: {one.answer}. {one.sentence}" for one in every[:ROWS])
    parts = [notebook.plot(lambda path: _draw_page(path, every[:ROWS]), words)]
    parts += [f"<div>and {len(every) - ROWS:,} more</div>"] * (len(every) > ROWS)
    return notebook.block("Explanations", *parts)
