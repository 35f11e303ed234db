"""The start page: the box, accuracy against cost, and a table of all models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zoo_web import plots
from zoo_web.computed import Computed
from zoo_web.model_page import accuracy_of, box_data, runtime
from zoo_web.pages import page
from zoo_web.subjects import Subject

EAGER = 8_000_000  # bytes that a first image may load
COSTS = (
    ("parameters", "parameters", plots.amount),
    ("minutes", "training time", plots.minutes),
    ("milliseconds", "time for an image", plots.milliseconds),
)
Known = Sequence[tuple[Subject, Computed]]


def start_page(known: Known, missing: str) -> str:
    rows = [row_of(*one) for one in known]
    rows.sort(key=lambda row: (row["dataset"], -(row["accuracy"] or 0), row["title"]))
    models = [data for one in known for data in box_data(*one, root="")]
    models.sort(key=lambda one: (-one["colours"], one["dataset"], -one["accuracy"]))
    small = [one for one in models if one["bytes"] <= EAGER] or models
    for one in small[:1]:
        one["chosen"] = True
    return page(
        "index.html",
        title="Zoo: trained image models",
        scripts=["gallery.js"],
        count=len(rows),
        rows=rows,
        costs=costs(rows),
        models=models,
        missing=missing,
        runtime=None if missing else runtime(""),
    )


def row_of(one: Subject, made: Computed) -> dict[str, Any]:
    """A line of the table."""
    found, interval = accuracy_of(one, made)
    measured, file = made.parts.get("measured") or {}, made.parts.get("onnx") or {}
    ms = measured.get("milliseconds")
    return {
        "title": one.title,
        "short": shortened(one.title.removesuffix(f".{one.dataset}")),
        "href": f"models/{one.slug}.html",
        "dataset": one.dataset,
        "accuracy": found,
        "interval": interval,
        "parameters": one.parameters,
        "bytes": file.get("bytes"),
        "minutes": one.minutes,
        "minutes_words": plots.minutes(one.minutes) if one.minutes else "",
        "milliseconds": ms,
        "milliseconds_words": plots.milliseconds(ms) if ms else "",
    }


def shortened(name: str, most: int = 28) -> str:
    """For a label: both ends, because names of runs begin alike."""
    half = most // 2
    return name if len(name) <= most else f"{name[:half]}…{name[1 - half :]}"


def costs(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each cost a panel for each dataset: accuracies on different data say nothing together."""
    found = []
    for name, words, tick in COSTS:
        panels = []
        for dataset in dict.fromkeys(row["dataset"] for row in rows):
            points = [
                plots.Point(
                    row["short"], row["href"], row["accuracy"], row["interval"], row[name],
                    words_of(row, words, tick(row[name])),
                )
                for row in rows
                if row["dataset"] == dataset and row["interval"] and row[name]
            ]  # fmt: skip
            if points:
                panels.append(plots.panel(dataset, words, points, tick))
        panels.sort(key=lambda one: -len(one.dots))
        if panels:
            found.append({"name": name, "words": words, "panels": panels})
    return found


def words_of(row: dict[str, Any], cost: str, amount: str) -> str:
    low, high = row["interval"]
    ends = f"{100 * low:.2f} to {100 * high:.2f}"
    return f"{row['title']}: accuracy {100 * row['accuracy']:.2f} % ({ends}), {cost} {amount}"
