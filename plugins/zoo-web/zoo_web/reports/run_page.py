"""What the page of a run shows, from the facts that its report is made of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo import kit
from zoo_web.charts import Chart, Series, curve_charts
from zoo_web.model_page import matrix
from zoo_web.pages import percent
from zoo_web.reports.images import SMALL, embedded, picture
from zoo_web.tables import Cell, Table, table

SHOWN = 32  # images of a section
MOST_LEFT_OUT = 100  # lines
# Plots that are drawn anew here, or whose images are shown one by one.
REPLACED = {"curves", "rate", "classes", "confusion", "calibration", "predictions", "mistakes"}
HARDWARE = ("device", "processor")


def run_values(facts: kit.Facts) -> dict[str, Any]:
    """The values of templates/report.html."""
    document, summary, result = facts.document, facts.summary, facts.result
    model, data = document["model"], document["dataset"]
    split = _split(facts)
    values: dict[str, Any] = {
        "title": facts.title,
        "lead": _lead(facts),
        "run": summary.run,
        "created": document.get("created") or "",
        "command": document.get("command") or "",
        "results": kit.results(facts),
        "intervals": bool(summary.intervals),
        "curves": _curves(facts),
        "classes": _classes(facts),
        "matrix": _matrix(facts),
        "mixups": _mixups(facts),
        "calibration": _calibration(facts),
        **_images(facts, split),
        "drawn": _drawn(facts),
        "recipe": document.get("recipe_name") or "default",
        "settings": kit.what_it_sets(document["recipe"]),
        "model": f"Model {model['name']} of {model.get('distribution')} {model.get('version')}.",
        "options": kit.what_it_sets({"model": model.get("config") or {}}),
        "structure": (document.get("structure") or "").rstrip(),
        "where": _where(facts.run.path),
        "again": facts.run.again,
        "same": _same(facts),
        "left_out": [reason for _, reason in data.get("left_out") or ()][:MOST_LEFT_OUT],
    }
    notes = [*_unfinished(facts), *result.get("remarks", ()), *data.get("remarks", ())]
    values["notes"] = [*notes, *facts.remarks]
    every = {"result": "Result", "curves": "Curves", "classes": "Classes", "confusion": "Confusion",
             "mistakes": "Mistakes", "settings": "Settings", "reproduce": "Reproduce"}  # fmt: skip
    there = {**values, "result": True, "confusion": values["matrix"], "reproduce": True}
    values["contents"] = [(id_, name) for id_, name in every.items() if there[id_]]
    return values


def _lead(facts: kit.Facts) -> str:
    summary = facts.summary
    if summary.accuracy is None:
        return "" if summary.loss is None else f"Loss {summary.loss:.4f} on the {summary.split} set"
    ends = summary.intervals.get("accuracy")
    sure = f" (95 % interval {percent(ends[0])} to {percent(ends[1])})" if ends else ""
    return f"{percent(summary.accuracy)} of the {summary.split} images are right{sure}."


def _unfinished(facts: kit.Facts) -> list[str]:
    summary = facts.summary
    if summary.status == "complete":
        return []
    done = f"{summary.epochs} of {summary.planned} epochs are done" if summary.planned else ""
    return [f"It is not finished: {', '.join(filter(None, (summary.shown_status, done)))}.",
            *([f"It failed: {summary.error.rstrip('.')}."] if summary.error else [])]  # fmt: skip


def _curves(facts: kit.Facts) -> list[Chart]:
    found = curve_charts([("", facts.curves)], facts.summary.units, kit.label)
    if len({rate for _, rate in facts.rates}) > 1:
        epochs, rates = zip(*facts.rates, strict=True)
        line = Series("learning rate", epochs, rates)
        found.append(Chart("learning rate", "epoch", "learning rate", [line], whole=True))
    return found


def _classes(facts: kit.Facts) -> Table | None:
    """Accuracy and interval of each class; all figures where an image may have several."""
    if facts.targets.kind == "classes":
        columns = ("average_precision", "f1", "precision", "recall", "images")
        several = (facts.scores.get("per_class") or {}).items()
        rows: list[list[Any]] = [
            [name, *(Cell(percent(one[c]), one[c]) for c in columns[:-1]), int(one["images"])]
            for name, one in several
            if one
        ]
        return table(["class", *(f"#{kit.label(c)}" for c in columns)], rows) if rows else None
    confusion = facts.scores.get("confusion")
    if not confusion:
        return None
    rows = []
    for name, share, images in kit.class_scores(facts.targets.names, confusion):
        low, high = kit.wilson(share, images)
        interval = Cell(f"{100 * low:.2f} to {100 * high:.2f}", low)
        rows.append([name, Cell(percent(share), share, share), interval, images])
    return table(("class", "#accuracy", "#95 % interval", "#images"), rows)


def _matrix(facts: kit.Facts) -> dict[str, Any] | None:
    names = [{"name": name} for name in facts.targets.names]
    confusion = facts.scores.get("confusion")
    return matrix({"confusion": confusion, "classes": names}) if confusion else None


def _mixups(facts: kit.Facts) -> Table | None:
    confusion = facts.scores.get("confusion")
    found = kit.mixups(facts.targets.names, confusion)[:SHOWN] if confusion else []
    rows = [[a, b, n, of, Cell(percent(n / of), n / of)] for a, b, n, of in found]
    titles = ("class", "taken for", "#images", "#of", "#share")
    return table(titles, rows) if rows else None


def _calibration(facts: kit.Facts) -> list[Chart]:
    values, labels = facts.values, facts.labels
    if facts.targets.kind != "class" or values is None or labels is None:
        return []
    bins = kit.reliability(values.max(1), values.argmax(1) == labels)
    sure, shares, ends = zip(*bins, strict=True)
    dots = Series("right", sure, shares, ends)
    title = "How often answers are right"
    axes = "probability of the answer", "right answers"
    return [Chart(title, *axes, [dots], True, x_unit="%", y_unit="%", diagonal=True)]


def _split(facts: kit.Facts) -> zoo.Split | None:
    """The images that were measured; a remark where they are not here."""
    if facts.values is None or not facts.targets.names:
        return None
    try:
        return kit.measured_split(facts)
    except zoo.ZooError as error:
        facts.remarks.append(f"Images are left out: {error}.")
        return None


def _images(facts: kit.Facts, split: zoo.Split | None) -> dict[str, Any]:
    """The surest mistakes, and some images chosen at random."""
    found: dict[str, Any] = dict.fromkeys(("mistakes", "predictions"), ())
    found |= dict.fromkeys(("mistakes_of", "predictions_of"), "")
    if split is None:
        return found
    wrong = kit.surest_mistakes(facts)
    some = kit.chosen_images(split, SHOWN)
    framed = ", those in wrong classes framed" if facts.targets.classes else ""
    found["mistakes"] = [_shot(facts, split, i, framed=False) for i in wrong[:SHOWN]]
    found["mistakes_of"] = f"{min(len(wrong), SHOWN)} of {len(wrong):,} mistakes."
    found["predictions"] = [_shot(facts, split, i) for i in some]
    found["predictions_of"] = f"{len(some)} of {len(split):,} test images, at random{framed}."
    return found


def _shot(facts: kit.Facts, split: zoo.Split, place: int, framed: bool = True) -> dict[str, Any]:
    """An image and what was said of it."""
    assert facts.values is not None
    targets, row = facts.targets, facts.values[place]
    given: Any = row
    if targets.kind == "class":
        given = row.argmax()
    elif targets.kind == "classes":
        given = row >= np.array(targets.thresholds or (0.5,))
    said = targets.caption(given)
    true = said if facts.labels is None else targets.caption(facts.labels[place])
    pixels = split.images[np.array([place])][0]
    chance = f" {100 * row.max():.1f} %" if targets.kind == "class" else ""
    name = kit.visible(facts.names[place]) if facts.names else f"image {place}"
    return {
        "src": embedded(pixels),
        "small": max(pixels.shape[:2]) <= SMALL,
        "alt": f"test image {name}",
        "said": f"{said}{chance}",
        "true": true if true != said else "",
        "wrong": framed and true != said and bool(targets.classes),
        "name": name,
    }


def _drawn(facts: kit.Facts) -> list[dict[str, str]]:
    """Plots in the folder that nothing here replaces: samples, and what a task draws."""
    found = []
    for path in sorted((facts.run.path / "pictures").glob("*.png"), key=_order):
        if re.sub(r"-page\d+$", "", path.stem) not in REPLACED and (src := picture(path)):
            found.append({"name": path.stem, "src": src})
    return found


def _order(path: Path) -> tuple[int, str]:
    return len(path.name), path.name  # samples-5 before samples-10


def _where(path: Path) -> str:
    return "In any folder:" if path.is_absolute() else f"In the folder with {path}:"


def _same(facts: kit.Facts) -> dict[str, str]:
    """What has to be the same for the same result."""
    document, weights = facts.document, facts.result.get("model") or {}
    rows = {"dataset": f"{document['dataset']['reference']}, sha256 {facts.summary.digest}"}
    if weights:
        rows[weights["file"]] = f"sha256 {weights['sha256']}"
    environment = (document.get("environment") or {}).items()
    told = {k: " ".join(map(str, v)) if isinstance(v, list | tuple) else str(v)
            for k, v in environment if k not in HARDWARE}  # fmt: skip
    return rows | told
