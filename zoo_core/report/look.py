"""How all plots look: colours, figures, axes, labels.

Nothing touches pyplot or matplotlib's settings, so that a notebook's own plots stay as they are.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator, NullFormatter, PercentFormatter

from zoo_core.io.console import visible
from zoo_core.io.files import atomic_write

INK, FAINT, MISTAKE = "#222222", "#dddddd", "#D55E00"
# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Twelve more, as far apart as so many can be, for points of as many classes.
CLASS_COLOURS = (
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
LONGEST = 44  # letters of a run's label
DPI = 150


class End(NamedTuple):
    """The end of a line or a dot, and what is written beside it."""

    x: float
    y: float
    text: str
    colour: str


def new_figure(
    width: float, height: float, title: str = "", columns: int = 1, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, row by row."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(short(title, 200), x=0.01, ha="left", fontsize=11, color=INK)
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def panels_of(count: int, width: float, height: float, title: str) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels of a size, in inches, in rows of at most three."""
    columns = min(count, 2 if count in (2, 4) else 3)
    rows = math.ceil(count / columns)
    figure, panels = new_figure(width * columns, height * rows + 0.3, title, columns, rows)
    for axes in panels[count:]:
        axes.remove()
    return figure, panels[:count]


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all, with fonts for the names of classes."""
    installed = {font.name for font in fontManager.ttflist}
    family = ["DejaVu Sans", *(name for name in OTHER_FONTS if name in installed)]
    for text in figure.findobj(Text):
        text.set_fontfamily(family)
    with atomic_write(path) as temporary, warnings.catch_warnings():
        # A class name in a script that no font here has is drawn as boxes, not reported 40 times.
        warnings.filterwarnings("ignore", message="Glyph")
        kind = path.suffix.lstrip(".")
        figure.savefig(temporary, format=kind, bbox_inches="tight", pad_inches=0.1)


def tidy(axes: Axes, x: str, y: str, *, grid: bool = True) -> None:
    """Labels, and no more ink than they need. Colours are set: a notebook may have a dark style."""
    axes.set_facecolor("white")
    axes.set_xlabel(x, fontsize=9.5, color=INK)
    axes.set_ylabel(y, fontsize=9.5, color=INK)
    axes.tick_params(labelsize=9, colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#888888")
    axes.grid(False)
    if grid:
        axes.grid(True, axis="y", color=FAINT, linewidth=0.7)
        axes.set_axisbelow(True)


def in_percent(axis: XAxis | YAxis) -> None:
    """The numbers of an axis are shares."""
    axis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))


def epoch_axes(
    axes: Axes, metric: str, lines: Collection[tuple[Sequence[int], Sequence[float]]], unit: str
) -> None:
    """An axis of epochs below, and one for the metric: a share, or a number."""
    name = metric.replace("_", " ")
    tidy(axes, "epoch", f"{name} ({unit})" if unit not in ("", "%") else name)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    first, last = (end(end(epochs) for epochs, _ in lines) for end in (min, max))
    if first == last:
        axes.set_xticks([first])
    else:
        axes.set_xlim(first, last)
    values = [v for _, line in lines for v in line if math.isfinite(v)]
    if unit == "%":
        in_percent(axes.yaxis)
    elif values and min(values) > 0 and max(values) / min(values) > 100:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())


def label_ends(axes: Axes, ends: Sequence[End]) -> None:
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


def line_style(index: int) -> tuple[str, str]:
    """Colour and dashes of a line."""
    return COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)]


def dot(epochs: Sequence[int]) -> str:
    """Points are marked while there are few of them; a single one would be invisible."""
    return "o" if len(epochs) <= 2 else ""


def short(name: str, most: int = LONGEST) -> str:
    """A name that fits and is shown as it is: to matplotlib a $ would begin a formula."""
    name = re.sub(r"\s+", " ", name)
    name = name if len(name) <= most else name[: most - 1].rstrip() + "…"
    return visible(name).replace("$", r"\$")
