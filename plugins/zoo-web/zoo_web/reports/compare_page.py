"""What the page of a comparison shows: a table and plots for each group."""

from __future__ import annotations

from typing import Any

from zoo import kit
from zoo_web.charts import Chart, Series, curve_charts
from zoo_web.tables import table


def compare_values(compared: Any) -> dict[str, Any]:
    """The values of templates/compare.html; compared: what zoo.compare gives."""
    count = sum(len(one.rows) for one in compared.groups)
    return {"title": f"Comparison of {count}", "groups": [_group(one) for one in compared.groups]}


def _group(one: Any) -> dict[str, Any]:
    columns, rows, _ = kit.comparison_table(one)
    unlike = ""
    if one.unlike and any(row.summary.loss is not None for row in one.rows):
        verb = "differs" if len(one.unlike) == 1 else "differ"
        unlike = f"The loss has no column, because {', '.join(one.unlike)} {verb}."
    curves = []
    for label, row in zip(one.labels, one.rows, strict=True):
        kept = {m: c for m, c in (row.curves or {}).items() if m != "loss" or not one.unlike}
        if kept:
            curves.append((label, kept))
    units = one.rows[0].summary.units
    charts = curve_charts(curves, units, kit.label) if len(curves) > 1 else []
    if len(curves) == 1:  # as of several: one line for each metric
        charts = curve_charts([*curves, ("", {})], units, kit.label)
    return {
        "title": one.title,
        "table": table(sorted((c for c in columns if c != "dataset"), key=_place), rows),
        "ties": kit.verdicts(one),
        "unlike": unlike,
        "charts": [*charts, *_cost(one, "seconds", "training time", "s"),
                   *_cost(one, "parameters", "parameters", "count")],
    }  # fmt: skip


def _place(column: str) -> int:
    """What people look for first stands where no table is cut; the title says the dataset."""
    return FIRST.index(column) if column in FIRST else len(FIRST)


FIRST = ("#rank", "model", "run", "#accuracy", "interval", "over seeds", "their mean", "#loss")


def _cost(one: Any, cost: str, words: str, unit: str) -> list[Chart]:
    """What the accuracy cost, with its interval."""
    dots = []
    for number, (label, row) in enumerate(zip(one.labels, one.rows, strict=True)):
        summary = row.summary
        x, y = getattr(summary, cost), summary.accuracy
        if x and y is not None:
            ends = summary.intervals.get("accuracy")
            dots.append(Series(label, [x], [y], [ends] if ends else (), colour=number))
    if len(dots) < 2:
        return []
    far = max(dot.xs[0] for dot in dots) > 10 * min(dot.xs[0] for dot in dots)
    title = f"Accuracy by {words}"
    return [Chart(title, words, "accuracy", dots, True, unit, "%", logarithmic=far)]
