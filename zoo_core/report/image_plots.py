"""Draws images and what a model made of them: predictions, codes in the plane, attention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from zoo_core.data.sheets import PAGE, page_title, pages
from zoo_core.report import look
from zoo_core.report.text import Facts
from zoo_core.use.predict import Attention

COLUMNS, WIDE, HIGH, INCH = 8, 1.08, 1.36, 1.22  # of a grid: images, and what one takes of each
LINE = 0.14  # that a third line below an image adds
MARKERS = "os^DvPX*<"  # with twelve colours they tell a hundred classes apart
NAMED = len(MARKERS) * len(look.CLASS_COLOURS)
SIDE = 4.8  # inches of a panel of codes
EVEN = 3  # times an even share of the attention is the least that is drawn as the brightest


def draw_grid(
    path: Path, images: np.ndarray, facts: Facts, chosen: np.ndarray, title: str
) -> list[Path]:
    """Images (n, height, width, channels), predicted classes below, mistakes framed unless all."""
    assert facts.values is not None
    probabilities = facts.values[chosen]
    labels = None if facts.labels is None else facts.labels[chosen]
    guesses = probabilities.argmax(1)
    wrong = np.zeros(len(images), bool) if labels is None else guesses != labels
    framed = wrong & (not wrong.all())
    captions = []
    for i, guess in enumerate(guesses):
        told = f"{look.short(facts.classes[guess], 11)}, {100 * probabilities[i].max():.0f} %"
        if labels is not None and wrong[i]:
            told += f"\nis {look.short(facts.classes[labels[i]], 15)}"
        if facts.names:
            told += f"\n{look.short(Path(facts.names[chosen[i]]).name, 18)}"
        captions.append(told)
    high = HIGH + LINE * bool(facts.names)
    rows = int(PAGE / look.DPI / (INCH * high))
    parts = pages(path, len(images), COLUMNS * rows)
    for number, (file, part) in enumerate(parts, 1):
        told = page_title(title, number, len(parts))
        _draw_page(file, images[part], captions[part], framed[part], told, high)
    return [file for file, _ in parts]


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


def draw_codes(
    path: Path, places: np.ndarray, colourings: Mapping[str, np.ndarray], classes: Sequence[str],
    title: str,
) -> None:  # fmt: skip
    """Points in the plane (n, 2), a square panel for each way to colour them by class."""
    font = 9.0 if len(classes) <= 20 else 7.0
    names = [look.short(name, 22) for name in classes] if len(classes) <= NAMED else []
    numbered = len(names) > len(look.CLASS_COLOURS)  # more than colours tell apart at a glance
    if numbered:
        names = [f"{i}  {name}" for i, name in enumerate(names, 1)]
    rows = int(72 * SIDE / (1.6 * font))
    legend = math.ceil(len(names) / rows) * (0.3 + 0.009 * font * max(map(len, names), default=0))
    width, height = len(colourings) * (SIDE + 0.15) + legend, SIDE + 0.65
    figure, panels = look.new_figure(width, height, title, len(colourings))
    figure.set_layout_engine("none")  # which would make room for the legend inside the panels
    places = _turned(places)
    middle = (places.max(0) + places.min(0)) / 2
    half = 0.53 * float(np.ptp(places, axis=0).max()) or 1.0
    for number, (axes, (name, labels)) in enumerate(zip(panels, colourings.items(), strict=True)):
        left = number * (SIDE + 0.15) / width
        axes.set_position((left, 0.0, SIDE / width, SIDE / height))
        axes.set_title(name, loc="left", fontsize=10, color=look.INK)
        axes.set(xlim=(middle[0] - half, middle[0] + half), xticks=[], facecolor="white")
        axes.set(ylim=(middle[1] - half, middle[1] + half), yticks=[], aspect="equal")
        axes.spines[:].set_color(look.FAINT)
        for i, label in enumerate(names or classes):
            colour = look.CLASS_COLOURS[i % len(look.CLASS_COLOURS)]
            marker = MARKERS[i // len(look.CLASS_COLOURS) % len(MARKERS)]
            some = places[labels == i]
            axes.scatter(some[:, 0], some[:, 1], s=11, linewidths=0, alpha=0.75, c=colour,
                         marker=marker, label=label)  # fmt: skip
            if numbered and len(some):
                halo = withStroke(linewidth=1.8, foreground="white")
                x, y = np.median(some, 0)
                axes.text(x, y, str(i + 1), fontsize=7, ha="center", va="center",
                          color=look.INK, zorder=3, path_effects=[halo])  # fmt: skip
    if names:
        axes.legend(
            loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=font,
            labelcolor=look.INK, ncols=math.ceil(len(names) / rows), markerscale=1.8,
            handletextpad=0.2, columnspacing=0.8, labelspacing=0.5,
        )  # fmt: skip
    look.save(figure, path)


def _turned(places: np.ndarray) -> np.ndarray:
    """The points, turned to fit into the smallest square: t-SNE knows no up and no right."""
    angles = np.radians(np.arange(0, 90, 3))
    turns = [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles]
    return min((places @ turn for turn in turns), key=lambda turned: np.ptp(turned, axis=0).max())


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
