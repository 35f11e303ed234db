"""The page of one model, and what the box must know of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from zoo import kit
from zoo_web import plots, vendoring
from zoo_web.charts import curve_charts
from zoo_web.computed import Computed
from zoo_web.pages import page, percent
from zoo_web.subjects import Subject
from zoo_web.tables import Cell, Table, table

UNITS = {"accuracy": "%"}
MOST_CLASSES = 100  # whose matrix is shown
LEGIBLE = 20  # classes whose counts can be read in it
MOST_TOLD = 20  # names of classes on the card


def model_page(one: Subject, made: Computed, missing: str) -> str:
    folder = f"../files/{one.slug}/"
    measured = made.parts.get("measured")
    models = box_data(one, made, root="../")
    for data in models:
        data["chosen"] = True
    return page(
        "model.html",
        title=one.title,
        root="../",
        scripts=["gallery.js"],
        summary=one.entry.summary,
        facts=facts(one, made),
        problems=list(dict.fromkeys(made.problems.values())),
        dataset=one.dataset,
        folder=folder,
        files=dict.fromkeys(("measured", "explained"), folder),
        models=models,
        missing=missing,
        runtime=None if missing else runtime("../"),
        walk=walk(made.parts.get("walk")),
        measured=measured,
        figures=measured and figures(measured),
        classes=measured and classes(measured),
        matrix=matrix(measured),
        explained=made.parts.get("explained"),
        curves=curve_charts([("", kit.curves_of(one.curves))], UNITS, kit.label),
        training=training(one),
        use=use(one),
        card=card(one),
    )


def box_data(one: Subject, made: Computed, root: str) -> list[dict[str, Any]]:
    """What onnx.js takes; [] for a model that does not compute in a page."""
    file = made.parts.get("onnx")
    if not file:
        return []
    found, _ = accuracy_of(one, made)
    return [
        {
            "title": one.title,
            "dataset": one.dataset,
            "file": f"{root}files/{one.slug}/model.onnx",
            "sha256": file["sha256"],
            "bytes": file["bytes"],
            "size": kit.size(file["bytes"]),
            "classes": list(one.located.classes),
            "colours": int((one.located.preprocess or {}).get("stored_channels") or 3),
            "accuracy": found or 0.0,
            "chosen": False,
        }
    ]


def runtime(root: str) -> dict[str, str]:
    """Where onnxruntime is in the site, and what it must hash to."""
    path = vendoring.VENDOR / vendoring.PROGRAM
    return {
        "script": f"{root}vendor/{vendoring.SCRIPT}",
        "program": f"{root}vendor/{vendoring.PROGRAM}",
        "sha256": kit.file_digest(path),
        "size": kit.size(path.stat().st_size),
    }


def accuracy_of(one: Subject, made: Computed) -> tuple[float | None, tuple[float, float] | None]:
    """Measured here, or as it was published; with its interval where the images are counted."""
    if measured := made.parts.get("measured"):
        low, high = measured["intervals"]["accuracy"]
        return measured["figures"]["accuracy"], (low, high)
    found = one.located.metrics.get("test_accuracy")
    if found is None or not one.test_images:
        return found, None
    return found, kit.wilson(found, one.test_images)


def facts(one: Subject, made: Computed) -> list[str]:
    """The line below the title."""
    found, interval = accuracy_of(one, made)
    told = [", ".join(one.entry.kinds), f"trained on {one.dataset}"]
    if found is not None:
        ends = f" ({100 * interval[0]:.2f} to {100 * interval[1]:.2f})" if interval else ""
        told.append(f"accuracy {100 * found:.2f} %{ends}")
    if one.parameters:
        told.append(f"{one.parameters:,} parameters")
    if one.minutes:
        told.append(f"trained in {plots.minutes(one.minutes)}")
    return told


def figures(measured: Mapping[str, Any]) -> Table:
    rows = []
    for name, value in measured["figures"].items():
        ends = kit.interval_text(name, measured["intervals"].get(name))
        rows.append((kit.label(name), Cell(kit.figure(name, value)), Cell(ends or "")))
    return table(("figure", "#value", "#interval"), rows)


def classes(measured: Mapping[str, Any]) -> Table:
    titles = ["class", "#images", "#found", "#95 % interval", "#right where said", "#95 % interval"]
    rows = []
    for one in measured["classes"]:
        row = [one["name"], one["images"]]
        for figure in ("recall", "precision"):
            if known := one.get(figure):
                value, low, high = known
                spread = f"{100 * low:.1f} to {100 * high:.1f}"
                row += [Cell(percent(value, 1), value), Cell(spread, low)]
            else:
                row += [Cell(""), Cell("")]
        rows.append(row)
    return table(titles, rows)


def matrix(measured: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The confusion matrix with a class of colour for each cell, by its share of the row."""
    if not measured or not 1 < len(measured["confusion"]) <= MOST_CLASSES:
        return None
    names, rows = [one["name"] for one in measured["classes"]], []
    for place, counts in enumerate(measured["confusion"]):
        whole = max(sum(counts), 1)
        cells = []
        for column, count in enumerate(counts):
            degree = math.ceil(6 * math.sqrt(count / whole)) if count else 0
            right = "right" if place == column else "wrong"
            cells.append({"count": count, "heat": f"{right} h{degree}"})
        rows.append({"name": names[place], "cells": cells})
    return {"names": names, "rows": rows, "small": len(names) > LEGIBLE}


def walk(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The walk, and a few samples that are shown beside it: each class at two places."""
    if not found:
        return None
    frames, classes = found["frames"], found["classes"]
    stops = range(0, frames, max(1, frames // (2 if classes else 10)))
    shown = [
        {"place": row * frames + stop, "name": name}
        for row, name in enumerate(classes or [""])
        for stop in list(stops)[: 2 if classes else 10]
    ]
    return {**found, "shown": shown}


def training(one: Subject) -> list[str]:
    """Sentences of how it was trained, as far as it is on record."""
    found = one.training
    if not found:
        return ["There is no record of its training."]
    data, recipe = found.get("dataset") or {}, found.get("recipe") or {}
    result, place = found.get("result") or {}, found.get("environment") or {}
    told = "One run"
    if "seed" in recipe:
        told += f" with seed {recipe['seed']}"
    if data.get("train"):
        told += f", on {data['train']:,} images"
    if result.get("epochs"):
        told += f" for {result['epochs']:,} epochs"
    if one.minutes:
        told += f", in {plots.minutes(one.minutes)} on {place.get('device', '?')}"
        told += f" ({place['processor']})" if place.get("processor") else ""
    sentences = [f"{told}. How much another seed would change its figures is not known from it."]
    if one.located.metrics and not one.curves:
        sentences.append("Its curves were not recorded with its weights.")
    return sentences


def use(one: Subject) -> str:
    lines = [f"pip install {one.located.distribution}"] if one.located.distribution else []
    if one.classifies:
        lines.append(f"zoo predict {one.typed} image.jpg")
    if one.draws:
        lines.append(f"zoo generate {one.typed}")
    return "\n".join([*lines, f"python -c \"import zoo; zoo.load('{one.typed}')\""])


def card(one: Subject) -> list[tuple[str, str]]:
    """Rows of the card; what nobody said is left out."""
    place, provider = one.located, one.entry.provider
    names = ", ".join(place.classes[:MOST_TOLD]) + ", ..." * (len(place.classes) > MOST_TOLD)
    result = one.training.get("recipe_name")
    options = ", ".join(f"{name} {value}" for name, value in place.config.items())
    recipe = ", ".join(f"{n} {shown(v)}" for n, v in one.recipe.items() if told(n, v))
    published = ", ".join(f"{kit.label(n)} {kit.figure(n, v)}" for n, v in place.metrics.items())
    rows = [
        ("model", place.model),
        ("package", f"{provider.distribution} {provider.version}" if provider else ""),
        ("classes", names),
        ("options", options),
        ("recipe", f"{result}: {recipe}" if result else recipe),
        ("figures as published", published),
        ("license of the weights", one.license),
        ("from", "" if place.run else place.source),
        ("size of the weights", kit.size(place.bytes) if place.bytes else ""),
        ("sha256", place.sha256),
        ("reference", one.entry.reference),
    ]
    return [(name, value) for name, value in rows if value]


def told(name: str, value: Any) -> bool:
    """Whether a setting says anything; `init` may be a path on somebody's disk."""
    empty = value is False or value in ("", [], (), None, 0)
    return name != "init" and not isinstance(value, dict) and (name == "seed" or not empty)


def shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
