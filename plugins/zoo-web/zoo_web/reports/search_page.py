"""What the page of a search or a sweep shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zoo import kit
from zoo_web.charts import Chart, Series, curve_charts
from zoo_web.tables import table


def search_values(facts: kit.SearchFacts) -> dict[str, Any]:
    """The values of templates/search.html."""
    document, plan = facts.document, facts.plan
    titles, rows = facts.table
    status = document["status"]
    unfinished = [] if status == "complete" else [f"It is not finished: {status}."]
    named = [(f"{trial.number}", kit.curves_of(trial.curve)) for trial in facts.trials]
    return {
        "title": facts.title,
        "run": facts.search.name,
        "created": document.get("created") or "",
        "command": document.get("command") or "",
        "notes": [*unfinished, *(f"{remark}." for remark in facts.remarks)],
        "figures": {name: value.replace("`", "") for name, value in facts.figures.items()},
        "them": "Runs" if plan.kind == "sweep" else "Trials",
        "trials": table(titles, rows),
        "axes": _axes(facts),
        "curves": curve_charts([one for one in named if one[1]], UNITS, kit.label),
        "recipe": facts.recipe,
        "train": facts.train,
    }


UNITS = {"accuracy": "%"}


def _axes(facts: kit.SearchFacts) -> list[Chart]:
    """The loss of each trial against each setting that has numbers."""
    ended = [trial for trial in facts.trials if trial.loss is not None]
    charts = []
    for axis in facts.plan.axes:
        values: list[Any] = [trial.parameters.get(axis.name) for trial in ended]
        if len(ended) < 2 or not all(map(_number, values)) or len(set(values)) < 2:
            continue
        words = [f"number {trial.number}: {_settings(trial.parameters)}," for trial in ended]
        losses = [float(trial.loss or 0) for trial in ended]
        numbers = [float(value) for value in values]
        dots = Series("loss", numbers, losses, words=words)
        far = min(numbers) > 0 and max(numbers) / min(numbers) > 20
        title = f"Loss by {axis.name}"
        charts.append(Chart(title, axis.name, "loss", [dots], dots=True, logarithmic=far))
    return charts


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _settings(parameters: Mapping[str, Any]) -> str:
    found = (f"{v:.3g}" if isinstance(v, float) else f"{v}" for v in parameters.values())
    return " ".join(f"{name}={text}" for name, text in zip(parameters, found, strict=True))
