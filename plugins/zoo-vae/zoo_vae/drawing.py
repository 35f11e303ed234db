"""What a report shows of an autoencoder: reconstructions, and codes in the plane."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

RECONSTRUCTED, COLUMNS = 24, 8  # images that are shown with their reconstructions, in a row
GAP = 2  # pixels between images
CODES, FEWEST = 2000, 10  # images whose codes are laid out in the plane: at most, at least
SHORTENED = 50  # numbers of a code; t-SNE's time grows with them

INK, FAINT = "#222222", "#dddddd"
# Twelve colours, as far apart as so many can be; with as many markers they tell a hundred apart.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E6B800", "#56B4E9", "#222222", "#8C564B",
    "#7FBF3F", "#7B4FB5", "#F2A3B3", "#8A8A8A",
)  # fmt: skip
MARKERS = "os^DvPX*<"
NAMED = len(MARKERS) * len(COLOURS)
SIDE = 4.8  # inches of a panel


def draw_reconstructions(images: np.ndarray, back: np.ndarray) -> Any:
    """Rows of images (n, c, h, w) from 0 to 1, and below each row the same ones as they are now."""
    from matplotlib.figure import Figure  # only a report needs it

    rows = []
    for start in range(0, len(images), COLUMNS):
        for some in (images, back):
            part = some[start : start + COLUMNS].transpose(0, 2, 3, 1).clip(0, 1)
            padded = np.pad(part, ((0, 0), (GAP, GAP), (GAP, GAP), (0, 0)), constant_values=1.0)
            missing = np.ones((min(COLUMNS, len(images)) - len(part), *padded.shape[1:]))
            rows.append(np.concatenate([*padded, *missing], 1))
    sheet = np.concatenate(rows)
    height, width = sheet.shape[:2]
    figure = Figure(figsize=(10, 10 * height / width + 0.4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(sheet[..., 0] if sheet.shape[2] == 1 else sheet, cmap="gray", vmin=0, vmax=1)
    axes.set_axis_off()
    axes.set_title("Images, each above its reconstruction", loc="left", color=INK)
    return figure


def places_of(codes: np.ndarray) -> np.ndarray:
    """Codes in the plane, (n, 2), where near ones stay near: t-SNE."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    if codes.shape[1] > SHORTENED and len(codes) > SHORTENED:
        codes = PCA(SHORTENED, random_state=0).fit_transform(codes)
    near = min(30, (len(codes) - 1) // 3)
    places = TSNE(perplexity=near, init="pca", random_state=0, max_iter=750).fit_transform(codes)
    # Turned to fit into the smallest square: t-SNE knows no up and no right.
    angles = np.radians(np.arange(0, 90, 3))
    turns = [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles]
    return min((places @ turn for turn in turns), key=lambda turned: np.ptp(turned, axis=0).max())


def draw_codes(
    places: np.ndarray, colourings: Mapping[str, np.ndarray], classes: Sequence[str], title: str
) -> Any:
    """Points in the plane (n, 2), a square panel for each way to colour them by class."""
    from matplotlib.figure import Figure
    from matplotlib.patheffects import withStroke

    font = 9.0 if len(classes) <= 20 else 7.0
    names = [short(name) for name in classes] if len(classes) <= NAMED else []
    numbered = len(names) > len(COLOURS)  # more than colours tell apart at a glance
    if numbered:
        names = [f"{i}  {name}" for i, name in enumerate(names, 1)]
    rows = int(72 * SIDE / (1.6 * font))
    legend = math.ceil(len(names) / rows) * (0.3 + 0.009 * font * max(map(len, names), default=0))
    width, height = len(colourings) * (SIDE + 0.15) + legend, SIDE + 0.65
    figure = Figure(figsize=(width, height), dpi=150, facecolor="white")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, color=INK)
    panels = figure.subplots(1, len(colourings), squeeze=False)[0]
    middle = (places.max(0) + places.min(0)) / 2
    half = 0.53 * float(np.ptp(places, axis=0).max()) or 1.0
    for number, (axes, (name, labels)) in enumerate(zip(panels, colourings.items(), strict=True)):
        left = number * (SIDE + 0.15) / width
        axes.set_position((left, 0.0, SIDE / width, SIDE / height))
        axes.set_title(name, loc="left", fontsize=10, color=INK)
        axes.set(xlim=(middle[0] - half, middle[0] + half), xticks=[], facecolor="white")
        axes.set(ylim=(middle[1] - half, middle[1] + half), yticks=[], aspect="equal")
        axes.spines[:].set_color(FAINT)
        for i, label in enumerate(names or classes):
            colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i // len(COLOURS) % len(MARKERS)]
            some = places[labels == i]
            axes.scatter(some[:, 0], some[:, 1], s=11, linewidths=0, alpha=0.75, c=colour,
                         marker=marker, label=label)  # fmt: skip
            if numbered and len(some):
                halo = withStroke(linewidth=1.8, foreground="white")
                x, y = np.median(some, 0)
                axes.text(x, y, str(i + 1), fontsize=7, ha="center", va="center", color=INK,
                          zorder=3, path_effects=[halo])  # fmt: skip
    if names:
        axes.legend(
            loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=font,
            labelcolor=INK, ncols=math.ceil(len(names) / rows), markerscale=1.8,
            handletextpad=0.2, columnspacing=0.8, labelspacing=0.5,
        )  # fmt: skip
    return figure


def short(name: str, most: int = 22) -> str:
    """A name that fits and is shown as it is: to matplotlib a $ would begin a formula."""
    name = re.sub(r"\s+", " ", name)
    name = name if len(name) <= most else name[: most - 1].rstrip() + "…"
    return name.replace("$", r"\$")
