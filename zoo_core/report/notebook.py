"""What a notebook shows of runs, models and predictions: one small piece of HTML each.

It needs no other file, follows the notebook's colours, and has all names from data escaped.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image

from zoo_core.data.images import viewed
from zoo_core.io.console import figure, label, visible
from zoo_core.io.files import temporary_folder
from zoo_core.report.compared import Compared, draw
from zoo_core.report.text import results
from zoo_core.report.write import Report, read_facts
from zoo_core.runs.compare import Comparison
from zoo_core.runs.run import Run
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.settings import as_typed
from zoo_core.train.runner import Result
from zoo_core.use.load import About
from zoo_core.use.predict import SHOWN, Prediction

MOST_CLASSES, MOST_NAMES = 5, 20  # of a prediction, of a model
LONGEST = 300  # letters of a text
WIDEST, THUMB = 1400, 112  # pixels of a plot, and of an image beside its prediction
BAR = "background:#56B4E9;height:.7em;display:inline-block;border-radius:2px"
LINE = "border:0;padding:.1em 1em .1em 0;text-align:left;vertical-align:top;overflow-wrap:anywhere"


def text(value: object) -> str:
    """Escaped, and not endless: names come from strangers."""
    words = "" if value is None else visible(str(value))
    return escape(words if len(words) <= LONGEST else words[: LONGEST - 1] + "\u2026")


def block(title: str, *parts: str) -> str:
    """A piece of HTML with its own title; the parts are HTML, the title is text."""
    head = f"<div style='font-weight:600;margin:.3em 0'>{text(title)}</div>"
    return f"<div style='font-size:.95em'>{head}{''.join(parts)}</div>"


def table(rows: Sequence[Sequence[object]], titles: Sequence[str] = ()) -> str:
    """A table of values, which become text."""
    head = ["".join(f"<th style='{LINE}'>{text(title)}</th>" for title in titles)] * bool(titles)
    return _rows(
        [*head, *("".join(_cell(text(v), i > 0) for i, v in enumerate(row)) for row in rows)]
    )


def _cell(html: str, wrap: bool = True) -> str:
    return f"<td style='{LINE};white-space:{'normal' if wrap else 'nowrap'}'>{html}</td>"


def _rows(rows: Sequence[str]) -> str:
    body = "".join(f"<tr style='background:none'>{row}</tr>" for row in rows)
    return f"<table style='border-collapse:collapse;margin:.3em 0'>{body}</table>"


def plot(draw: Callable[[Path], object], words: str) -> str:
    """What a function draws into a file, or nothing where it cannot; words: for who cannot see."""
    with suppress(Exception), temporary_folder() as folder:
        path = folder / "plot.png"
        draw(path)
        with Image.open(path) as image:
            return _embedded(image.convert("RGB"), WIDEST, words)
    return ""


def _embedded(image: Image.Image, most: int, words: str, scale: float = 0.6) -> str:
    """As PNG with 256 colours, a third of the bytes; scaled down, its letters are as the text's."""
    image.thumbnail((most, most))
    file = io.BytesIO()
    image.quantize(256).save(file, "PNG", optimize=True)
    data = base64.b64encode(file.getvalue()).decode()
    style = f"max-width:100%;width:{round(scale * image.width)}px;border-radius:3px"
    return f"<img alt='{text(words)}' style='{style}' src='data:image/png;base64,{data}'>"


def run_html(shown: Run | Result) -> str:
    """The figures of a run, finished or not, and its curves."""
    run = shown if isinstance(shown, Run) else shown.run
    facts = read_facts(run)
    first = {"run": str(run.path), "status": facts.summary.shown_status}
    rows = [*(first | results(facts)).items()]

    def draw(path: Path) -> None:
        from zoo_core.report.plots import draw_curves

        draw_curves(path, facts.curves, "", facts.summary.units, facts.result.get("best_epoch"))

    return block(facts.title, table(rows), plot(draw, "Metrics by epoch") if facts.curves else "")


def report_html(report: Report) -> str:
    """Where a report is, and its plots."""
    shown = [_drawn(path) for path in report.plots]
    return block(str(report.path), *shown, *(f"<div>{text(one)}</div>" for one in report.remarks))


def _drawn(path: Path) -> str:
    return plot(lambda copy: copy.write_bytes(path.read_bytes()), path.stem)


def compared_html(compared: Compared) -> str:
    """The figures of each group of runs, and its curves."""
    parts = []
    for one in compared.groups:
        further = dict.fromkeys(n for row in one.rows for n in row.summary.figures)
        names = ["loss", "accuracy", *further]
        rows = []
        for row in one.rows:
            settings = (row.settings.get(name, "") for name in one.apart)
            known = ((name, row.summary.figure(name)) for name in names)
            shown = (None if value is None else figure(name, value) for name, value in known)
            rows.append([row.summary.run, *settings, *shown, row.note])
        titles = ["run", *one.apart, *map(label, names), ""]
        curves = plot(partial(_curves, one), "Curves of the runs")
        parts.append(block(one.title, table(rows, titles), curves))
    return "".join(parts)


def _curves(group: Comparison, path: Path) -> None:
    draw(path, 1, group)


def notebook_html(
    title: str,
    rows: Sequence[Sequence[object]] = (),
    draw: Callable[[Path], object] | None = None,
    words: str = "",
    titles: Sequence[str] = (),
) -> str:
    """A table of values and a plot, for the `_repr_html_` of a package's own results."""
    parts = [table(rows, titles)] * bool(rows) + ([plot(draw, words)] if draw else [])
    return block(title, *parts)


def about_html(about: About) -> str:
    """What a loaded model is, and how good."""
    rows = _entry_rows(about.entry, about.config)
    if about.preprocess:
        p = about.preprocess
        rows.append(["input", f"{p.channels} x {p.size} x {p.size}"])
    if about.classes:
        more = len(about.classes) - MOST_NAMES
        names = ", ".join(about.classes[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        rows.append(["classes", f"{len(about.classes)}: {names}"])
    rows += [[label(name), figure(name, value)] for name, value in about.metrics.items()]
    rows += [["trained on", about.dataset], ["weights", about.source], ["sha256", about.digest]]
    return block(about.entry.name, table([row for row in rows if row[1]]))


def entry_html(entry: ModelEntry) -> str:
    """A model that can be trained: what `zoo info` shows first."""
    rows = _entry_rows(entry, entry.options)
    rows += [["dataset", entry.dataset], ["recipes", ", ".join(entry.recipes)]]
    rows += [["capabilities", ", ".join(entry.capabilities)], ["reference", entry.reference]]
    return block(entry.name, table([row for row in rows if row[1]]))


def _entry_rows(entry: ModelEntry, options: Mapping[str, Any]) -> list[list[str]]:
    count = "" if entry.parameters is None else f"{entry.parameters:,}"
    by = entry.provider
    return [
        ["summary", entry.summary],
        ["kind", ", ".join(entry.kinds)],
        ["plugin", f"{by.distribution} {by.version}" if by else ""],
        ["trainable parameters", count if options == entry.options else ""],
        ["options", ", ".join(f"{name}={as_typed(value)}" for name, value in options.items())],
    ]


def predictions_html(shown: Prediction | Sequence[Prediction]) -> str:
    """The first few images, each beside the bars of its classes."""
    predictions = [shown] if isinstance(shown, Prediction) else shown
    cards = []
    for one in predictions[:SHOWN]:
        rows = []
        for name, share in one.classes[:MOST_CLASSES]:
            bar = f"<span style='{BAR};width:{5 * share:.2f}em'></span> {100 * share:.1f} %"
            rows.append(_cell(text(name)) + _cell(bar, wrap=False))
        name = f"<div style='overflow-wrap:anywhere;opacity:.75'>{text(one.image)}</div>"
        cards.append(
            "<div style='display:flex;gap:.8em;align-items:flex-start;width:27em'>"
            f"<div style='width:{THUMB}px;flex:none'>{_thumbnail(one)}</div>"
            f"<div>{name}{_rows(rows)}</div></div>"
        )
    parts = [f"<div style='display:flex;flex-wrap:wrap;gap:1em'>{''.join(cards)}</div>"]
    if len(predictions) > SHOWN:
        parts.append(f"<div>and {len(predictions) - SHOWN:,} more</div>")
    count = len(predictions)
    return block(f"{count:,} prediction{'s' * (count != 1)}", *parts)


def _thumbnail(prediction: Prediction) -> str:
    """The image of a prediction, or nothing: its file may be gone."""
    image = prediction.image if prediction.given is None else prediction.given
    with suppress(Exception):
        shown = viewed(image, 2 * THUMB)
        if min(shown.size) < THUMB // 2:
            shown = shown.resize((THUMB, THUMB * shown.height // shown.width), 0)
        return _embedded(shown, THUMB, prediction.image, 1)
    return ""
