"""Draws where a model looks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from zoo_core.report.drawing import INK, new_figure, save
from zoo_core.train.attention import Attention

EVEN = 3  # times an even share of the attention is the least that is drawn as the brightest


def draw_attention(path: Path, seen: Attention, name: str, heads: bool) -> None:
    """The picture, and for each layer (and head) what is attended to, laid over it."""
    maps = seen.maps if heads else seen.maps.mean(1, keepdims=True)  # (layers, heads, rows, cols)
    layers, across = maps.shape[:2]
    verdict = f": {seen.label}, {100 * seen.probability:.0f} %" if seen.label else ""
    if heads:
        figure = new_figure(1.5 * (across + 1), 1.9 * layers + 0.4, f"{name}{verdict}")
        grid = figure.subplots(layers, across + 1, squeeze=False)
    else:
        columns = min(layers + 1, 5)
        rows = math.ceil((layers + 1) / columns)
        figure = new_figure(2.3 * columns, 2.7 * rows + 0.4, f"{name}{verdict}")
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
        most = f"at most {100 * share.max():.1f} %" + ("" if heads else " on a patch")
        axes.text(0.5, -0.04, most, ha="center", va="top", transform=axes.transAxes, fontsize=8,
                  color=INK)  # fmt: skip
    save(figure, path)


def _show(axes: Axes, picture: np.ndarray, title: str) -> None:
    """A picture with square pixels and no axes."""
    shown = picture[:, :, 0] if picture.shape[2] == 1 else picture
    axes.imshow(shown, cmap="gray", vmin=0, vmax=1, extent=(0, 1, 1, 0), interpolation="nearest")
    axes.set_title(title, fontsize=9, color=INK)
    axes.set_axis_off()
