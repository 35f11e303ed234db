"""Draws explanations: each image, and beside it the same with the map over it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from zoo import kit
from zoo_explain.explain import Explanation, resized

ROWS, SIDE, LINE = 4, 3.3, 0.17  # of a page; inches of an image, and of a line of text
WIDE, LONGEST = 46, 40  # letters of a line below an image, of its name
INK = "#222222"
SMOOTH = 256  # pixels of a side of a map that is laid over an image
NAMES = {"cam": "Grad-CAM", "attention": "attention", "occlusion": "occlusion"}
NORM = Normalize(0, 1)
SCALE = ScalarMappable(NORM, "inferno")


def draw_explanations(path: Path, shown: Sequence[Explanation]) -> list[Path]:
    """A row for each image: it, and the map over it. A colour means the same in all of them."""
    found = kit.pages(path, len(shown), ROWS)
    with kit.os_errors(f"{path} could not be written"):
        for file, part in found:
            _draw_page(file, shown[part])
    return [file for file, _ in found]


def _draw_page(path: Path, shown: Sequence[Explanation]) -> None:
    told = [[*wrap(one.answer, WIDE), *wrap(one.sentence, WIDE)] for one in shown]
    # Of each image as much room as its shape needs.
    shapes = [min(1.6, max(0.5, one.pixels.shape[0] / one.pixels.shape[1])) for one in shown]
    heights = [SIDE * h + LINE * len(lines) + 0.5 for h, lines in zip(shapes, told, strict=True)]
    figure, panels = kit.new_figure(2 * SIDE + 1.0, sum(heights), "", 2, len(shown))
    panels[0].get_gridspec().set_height_ratios(heights)  # type: ignore[union-attr]
    rows = zip(shown, told, panels[::2], panels[1::2], strict=True)
    for one, lines, plain, over in rows:
        shape = _show(plain, one.pixels, Path(one.image).name)
        _show(over, one.pixels, NAMES[one.method])
        plain.set_xlabel("\n".join(lines), loc="left", fontsize=8.5, color=INK, parse_math=False)
        left, top, right, bottom = one.box
        over.imshow(resized(one.map, SMOOTH), cmap=SCALE.cmap, norm=NORM, alpha=0.55,
                    extent=(left, right, bottom, top), aspect=shape)  # fmt: skip
        over.set(xlim=(0, 1), ylim=(1, 0))
    bar = figure.colorbar(SCALE, ax=list(panels), aspect=30, shrink=min(0.7, 1.8 / len(shown)),
                          pad=0.02, alpha=0.55)  # fmt: skip
    words = "importance (1: the most important place)"
    bar.set_label(words, fontsize=8.5, color=INK)
    bar.ax.tick_params(labelsize=8, colors=INK, length=2)
    bar.outline.set_visible(False)
    kit.save_figure(figure, path)


def _show(axes: Axes, pixels: np.ndarray, title: str) -> float:
    """An image with sides of 1; how many times as high as wide it is drawn."""
    shape = float(pixels.shape[0] / pixels.shape[1])
    how = "nearest" if min(pixels.shape[:2]) < 96 else "auto"
    axes.imshow(pixels, extent=(0, 1, 1, 0), aspect=shape, interpolation=how)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    title = " ".join(title.split())
    name = title if len(title) <= LONGEST else f"{title[: LONGEST - 1]}\u2026"
    axes.set_title(name, loc="left", fontsize=9.5, color=INK, parse_math=False)
    return shape


def explanations_html(shown: Sequence[Explanation]) -> str:
    """The first page of the plot."""
    words = "; ".join(f"{one.image}: {one.answer}. {one.sentence}" for one in shown[:ROWS])
    more = [[f"and {len(shown) - ROWS:,} more"]] * (len(shown) > ROWS)
    draw = lambda path: _draw_page(path, shown[:ROWS])  # noqa: E731
    return kit.notebook_html("Explanations", more, draw, words)
