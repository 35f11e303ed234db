"""One plot: what each model reaches against what its training costs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.transforms import ScaledTranslation

INK, QUIET, DOT = "#222222", "#8a8a8a", "#1f5fa8"
TITLES = {"cifar10": "CIFAR-10", "fashion_mnist": "Fashion-MNIST", "mnist": "MNIST"}


class Point(NamedTuple):
    dataset: str
    model: str
    accuracy: float  # in percent
    cpu_minutes: float
    precision: str


def draw_cost(points: list[Point], path: Path) -> None:
    """A panel for each dataset: their accuracies have little in common."""
    datasets = [name for name in TITLES if any(point.dataset == name for point in points)]
    figure, panels = plt.subplots(
        1, len(datasets), figsize=(4.2 * len(datasets), 4.2), layout="constrained", squeeze=False
    )
    for panel, dataset in zip(panels[0], datasets, strict=True):
        shown = sorted(
            (point for point in points if point.dataset == dataset), key=lambda p: p.accuracy
        )
        panel.set_xscale("log")
        for point in shown:
            # Hollow where 16 bits halved the cost: it does not compare with the other minutes.
            fill = DOT if point.precision == "float32" else "white"
            panel.plot(
                point.cpu_minutes, point.accuracy, "o", color=DOT, markerfacecolor=fill,
                markersize=6,
            )  # fmt: skip
        low, high = shown[0].accuracy, shown[-1].accuracy
        gap = max(high - low, 1.0)
        middle = (low + high) / 2
        panel.set_ylim(middle - 0.62 * gap, middle + 0.62 * gap)
        cheap, dear = (f(point.cpu_minutes for point in shown) for f in (min, max))
        panel.set_xlim(cheap / 3, dear * 6)
        centre = (cheap * dear) ** 0.5
        last = {True: -1e9, False: -1e9}  # the highest label on the left of its point, and right
        for point in shown:  # from below; a label that would touch the one below it goes up
            crowded = any(
                abs(other.accuracy - point.accuracy) < 0.05 * gap
                and 1 < point.cpu_minutes / other.cpu_minutes < 8
                for other in shown
            )
            left = point.cpu_minutes > centre and not crowded
            height = max(point.accuracy, last[left] + 0.055 * gap)
            last[left] = height
            beside = ScaledTranslation((-7 if left else 7) / 72, 0, figure.dpi_scale_trans)
            panel.text(
                point.cpu_minutes,
                height,
                point.model,
                ha="right" if left else "left",
                va="center",
                fontsize=9,
                color=INK,
                transform=panel.transData + beside,
            )
        panel.set_title(TITLES[dataset], loc="left", fontsize=11, color=INK)
        panel.set_xlabel("CPU minutes of training", color=INK)
        panel.xaxis.set_major_formatter(lambda minutes, _: f"{minutes:g}")
        panel.xaxis.set_minor_formatter(lambda *_: "")
        panel.grid(color="#e6e6e6", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.tick_params(colors=QUIET, which="both")
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            panel.spines[side].set_color("#cccccc")
    panels[0][0].set_ylabel("test accuracy in percent", color=INK)
    short = sorted({point.precision for point in points} - {"float32"})
    if short:
        figure.supxlabel(f"hollow: computed in {' or '.join(short)}", fontsize=9, color=QUIET)
    figure.savefig(path, dpi=110)
    plt.close(figure)
