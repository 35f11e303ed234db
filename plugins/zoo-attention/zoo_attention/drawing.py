"""Draws attention over the image."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from zoo import kit

if TYPE_CHECKING:
    from zoo_attention.attention import Attention

INK = "#222222"
EVEN = 3  # times an even share of the attention is the least that is drawn as the brightest


def plot(seen: Attention, heads: bool) -> Figure:
    """The image, and for each layer (and head) what is attended to, laid over it; one scale."""
    maps = seen.maps if heads else seen.maps.mean(1, keepdims=True)  # (layers, heads, rows, cols)
    layers, across = maps.shape[:2]
    if heads:  # a row for each layer, which begins with the image
        rows, columns, width, height = layers, across + 1, 1.5, 1.9
    else:
        columns, width, height = min(layers + 1, 5), 2.3, 2.7
        rows = math.ceil((layers + 1) / columns)
    title = seen.name
    if seen.label:
        title += f": {seen.label}, {100 * seen.probability:.0f} %"
    size = width * columns + 0.8, height * rows + 0.4
    figure, panels = kit.new_figure(*size, title, columns, rows)
    every = list(panels)
    for axes in panels:
        axes.set_axis_off()
    for layer in range(layers if heads else 1):
        axes = panels.pop(layer * across)  # those of the layers before are gone
        _show(axes, seen.image)
        axes.set_title(f"layer {layer + 1}" if heads else "image", fontsize=9, color=INK)
    shares = maps.reshape(-1, *maps.shape[2:])
    # One scale for all, less than linear, so that faint attention is seen beside strong. But
    # attention that is spread evenly must not look like attention to everything.
    brightest = max(float(shares.max()), EVEN / shares[0].size)
    norm = PowerNorm(0.6, 0, brightest)
    scale = ScalarMappable(norm, "inferno")
    for index, (axes, share) in enumerate(zip(panels, shares, strict=False)):
        layer, head = divmod(index, across)
        _show(axes, seen.image)
        axes.set_title(f"head {head + 1}" if heads else f"layer {layer + 1}", fontsize=9, color=INK)
        axes.imshow(share, cmap=scale.cmap, norm=norm, alpha=0.6, extent=(0, 1, 1, 0),
                    interpolation="nearest")  # fmt: skip
        most = f"at most {100 * share.max():.1f} %" + ("" if heads else " on a patch")
        axes.text(0.5, -0.04, most, ha="center", va="top", transform=axes.transAxes, fontsize=8,
                  color=INK)  # fmt: skip
    bar = figure.colorbar(
        scale, ax=every, aspect=25, pad=0.01, shrink=min(0.8, 2 / rows), alpha=0.6
    )
    bar.ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    bar.set_label("share of the attention", color=INK, fontsize=9)
    bar.ax.tick_params(labelsize=8, colors=INK, length=2)
    bar.outline.set_visible(False)
    return figure


def _show(axes: Axes, image: np.ndarray) -> None:
    """An image with square pixels and sides of 1."""
    how = "nearest" if len(image) < 96 else "auto"
    axes.imshow(image, vmin=0, vmax=1, extent=(0, 1, 1, 0), interpolation=how)
