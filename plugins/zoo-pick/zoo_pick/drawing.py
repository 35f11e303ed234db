"""The plot of a pick; nothing else imports matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

from zoo import kit
from zoo_pick.verdict import COSTS, error, pareto, rows

if TYPE_CHECKING:
    from zoo_pick.pick import Picked

BLUE, GREY, RED, INK = "#0072B2", "#bbbbbb", "#D55E00", "#222222"
LETTER, LINE, GAP = 4.4, 10.0, 6.0  # points: of a name, and between it and its dot


def draw_front(found: Picked, path: Path) -> None:
    """Error against each cost; below the line there is nothing."""
    every = [row for row in rows(found.race) if math.isfinite(error(row))]
    if not every:
        return
    exact = every[0]["accuracy"] is not None
    title = f"{found.document['name']}: {len(every)} trainings; hollow: only a part of the training"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, panels = kit.new_figure(15.6, 4.8, title, columns=3)
    for panel, (cost, words) in zip(panels, COSTS.items(), strict=True):
        front = pareto(every, cost)
        panel.step([row[cost] for row in front], [error(row) for row in front], where="post",
                   color=BLUE, linewidth=1.0, zorder=1)  # fmt: skip
        for place, row in enumerate(every):
            _draw_point(panel, row, cost, RED if place == 0 else BLUE if row in front else GREY)
        panel.set_xscale("log")
        least, most = (end(row[cost] for row in every) for end in (min, max))
        wide = most > 1000 * least
        panel.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.margins(x=0.12)
        panel.set_xlabel(words)
        panel.set_ylabel(("errors" if exact else "loss") if panel is panels[0] else "")
        if exact:
            panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        panel.spines[["top", "right"]].set_visible(False)
    figure.draw_without_rendering()  # so that every panel knows its place
    for panel, cost in zip(panels, COSTS, strict=True):
        front = [row for row in pareto(every, cost) if row is not every[0]]
        _name_points(panel, 72 / figure.get_dpi(), [every[0], *reversed(front)], cost)
    kit.save_figure(figure, path)


def _name_points(panel: Axes, point: float, some: Sequence[Mapping[str, Any]], cost: str) -> None:
    """Names beside their points, the first one nearest; where one is in the way, further up.

    point: of the pixels of the figure.
    """
    taken: list[tuple[float, float, float]] = []
    left, _, right, _ = (float(end) * point for end in panel.bbox.extents)
    for row in some:
        x, y = panel.transData.transform((row[cost], error(row))) * point
        width = LETTER * len(row["candidate"])
        start = x + GAP if x < (left + right) / 2 else x - GAP - width
        level = y + GAP
        while any(abs(level - b) < LINE and start < c and a < start + width for a, b, c in taken):
            level += LINE
        taken.append((start, level, start + width))
        panel.annotate(row["candidate"], (row[cost], error(row)), xytext=(start - x, level - y),
                       textcoords="offset points", fontsize=8, color=INK, zorder=5)  # fmt: skip


def _draw_point(panel: Axes, row: Mapping[str, Any], cost: str, colour: str) -> None:
    low, high = row["interval"] or (1 - error(row), 1 - error(row))
    bars = [[max(0.0, error(row) - (1 - high))], [max(0.0, 1 - low - error(row))]]
    panel.errorbar([row[cost]], [error(row)], bars if row["interval"] else None, fmt="o",
                   color=colour, markerfacecolor=colour if row["share"] > 0.995 else "white",
                   markersize=6, elinewidth=0.9, zorder=2 if colour == GREY else 3)  # fmt: skip
