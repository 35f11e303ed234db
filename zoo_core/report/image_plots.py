"""Draws images and what a model made of them: predictions, attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.patches import Rectangle

from zoo_core.data.sheets import PAGE, page_title, pages
from zoo_core.report import look
from zoo_core.report.text import Facts
from zoo_core.spec.answers import CLASS, CLASSES
from zoo_core.use.predict import Attention

COLUMNS, WIDE, HIGH, INCH = 8, 1.08, 1.36, 1.22  # of a grid: images, and what one takes of each
LINE = 0.14  # that a third line below an image adds
EVEN = 3  # times an even share of the attention is the least that is drawn as the brightest


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
        _show_image(axes, image, 255, x, y)
        colour = look.MISTAKE if framed[i] else look.INK
        if framed[i]:
            axes.add_patch(Rectangle((x, y), 1, 1, fill=False, color=colour, linewidth=3))
        axes.text(x + 0.5, y + 1.05, captions[i], ha="center", va="top", color=colour, fontsize=8.5)
    axes.set_xlim(-0.02, WIDE * columns - 0.05)
    axes.set_ylim(high * rows, -0.02)
    look.save(figure, path)


def _show_image(axes: Axes, image: np.ndarray, white: int, x: float = 0, y: float = 0) -> None:
    """An image with square pixels and sides of 1."""
    shown = image[:, :, 0] if image.shape[2] == 1 else image
    place, how = (x, x + 1, y + 1, y), "nearest" if len(image) < 96 else "auto"
    axes.imshow(shown, cmap="gray", vmin=0, vmax=white, extent=place, interpolation=how)


def draw_attention(path: Path, seen: Attention, heads: bool) -> None:
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
    figure, panels = look.new_figure(*size, title, columns, rows)
    every = list(panels)
    for axes in panels:
        axes.set_axis_off()
    for layer in range(layers if heads else 1):
        axes = panels.pop(layer * across)  # those of the layers before are gone
        _show_image(axes, seen.image, 1)
        axes.set_title(f"layer {layer + 1}" if heads else "image", fontsize=9, color=look.INK)
    shares = maps.reshape(-1, *maps.shape[2:])
    # One scale for all, less than linear, so that faint attention is seen beside strong. But
    # attention that is spread evenly must not look like attention to everything.
    brightest = max(float(shares.max()), EVEN / shares[0].size)
    norm = PowerNorm(0.6, 0, brightest)
    scale = ScalarMappable(norm, "inferno")
    for index, (axes, share) in enumerate(zip(panels, shares, strict=False)):
        layer, head = divmod(index, across)
        _show_image(axes, seen.image, 1)
        title = f"head {head + 1}" if heads else f"layer {layer + 1}"
        axes.set_title(title, fontsize=9, color=look.INK)
        axes.imshow(share, cmap=scale.cmap, norm=norm, alpha=0.6, extent=(0, 1, 1, 0),
                    interpolation="nearest")  # fmt: skip
        most = f"at most {100 * share.max():.1f} %" + ("" if heads else " on a patch")
        axes.text(0.5, -0.04, most, ha="center", va="top", transform=axes.transAxes, fontsize=8,
                  color=look.INK)  # fmt: skip
    bar = figure.colorbar(
        scale, ax=every, aspect=25, pad=0.01, shrink=min(0.8, 2 / rows), alpha=0.6
    )
    look.in_percent(bar.ax.yaxis)
    bar.set_label("share of the attention", color=look.INK, fontsize=9)
    bar.ax.tick_params(labelsize=8, colors=look.INK, length=2)
    bar.outline.set_visible(False)
    look.save(figure, path)
