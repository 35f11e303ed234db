"""The plot of a pick; nothing else imports matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

from zoo import kit
from zoo_pick.verdict import COSTS, error, pareto, rows

if TYPE_CHECKING:
    from zoo_pick.pick import Picked

BLUE, GREY, RED, INK = "#0072B2", "#bbbbbb", "#D55E00", "#222222"


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
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.margins(x=0.12)
        middle = math.sqrt(math.prod(panel.get_xlim()))
        for row in [every[0], *(row for row in front if row is not every[0])]:
            left = row[cost] < middle
            panel.annotate(row["candidate"], (row[cost], error(row)), fontsize=8, color=INK,
                           xytext=(6 if left else -6, 6), textcoords="offset points",
                           ha="left" if left else "right", zorder=5)  # fmt: skip
        panel.set_xlabel(words)
        panel.set_ylabel(("errors" if exact else "loss") if panel is panels[0] else "")
        if exact:
            panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        panel.spines[["top", "right"]].set_visible(False)
    kit.save_figure(figure, path)


def _draw_point(panel: Axes, row: Mapping[str, Any], cost: str, colour: str) -> None:
    low, high = row["interval"] or (1 - error(row), 1 - error(row))
    bars = [[max(0.0, error(row) - (1 - high))], [max(0.0, 1 - low - error(row))]]
    panel.errorbar([row[cost]], [error(row)], bars if row["interval"] else None, fmt="o",
                   color=colour, markerfacecolor=colour if row["share"] > 0.995 else "white",
                   markersize=6, elinewidth=0.9, zorder=2 if colour == GREY else 3)  # fmt: skip
