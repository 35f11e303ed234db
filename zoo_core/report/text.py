"""What report.md says, as Markdown, from the facts about one run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.sheets import first_page
from zoo_core.io.console import (
    duration,
    interval_text,
    label,
    percent,
    typed,
    visible,
    with_interval,
)
from zoo_core.runs.run import Run
from zoo_core.runs.statistics import wilson
from zoo_core.runs.summary import SPLITS, Curves, Summary, class_scores, mixups, number
from zoo_core.spec.answers import CLASS, CLASSES, Targets
from zoo_core.spec.settings import what_it_sets

SHOWN = 32  # images in a grid, lines of a list
HARDWARE = ("device", "processor")
SAMPLES = re.compile(r"samples-(\d+)\.png")  # of an epoch; training itself writes them
SURE = "In brackets: 95 % intervals, for other images of this kind. Another seed changes more."
# The plots that a report can have, and what is said about them where they cannot be seen.
PLOTS = {
    "curves.png": "Metrics after each epoch",
    "rate.png": "Learning rate after each epoch",
    "classes.png": "Accuracy of each class",
    "confusion.png": "Confusion matrix",
    "calibration.png": "How often answers of a probability are right; mistakes among the surest",
    "precision.png": "Precision and recall of each class",
    "numbers.png": "Predicted and true numbers, and the errors",
    "predictions.png": "Predictions for some test images",
    "mistakes.png": "The mistakes that the model was surest of",
    "samples.png": "Samples at the end of training",
}


@dataclass(frozen=True)
class Facts:
    """All that the files of a run say."""

    run: Run
    document: Mapping[str, Any]  # run.json
    summary: Summary
    scores: Mapping[str, Any]  # of summary.split
    curves: Curves
    rates: Sequence[tuple[int, float]]  # epoch, learning rate
    targets: Targets
    values: np.ndarray | None  # (n, targets), of the test split: probabilities, or numbers
    labels: np.ndarray | None  # of the test split
    names: Sequence[str]  # of its images, where they have some
    remarks: list[str]  # what had to be left out, and why

    @property
    def result(self) -> Mapping[str, Any]:
        return self.document.get("result") or {}

    @property
    def title(self) -> str:
        return f"{self.summary.model} on {self.summary.dataset}"


def markdown(facts: Facts, drawn: Collection[str]) -> str:
    """The report, section by section; a section without content is left out."""

    def show(*names: str) -> list[str]:
        pages = ((name, page) for name in names for page in drawn if first_page(page) == name)
        return [f"![{PLOTS[name]}](pictures/{page})" for name, page in pages]

    caption = "Below each image: the predicted class and its probability; for a mistake, also "
    sections = {
        "Result": [
            markdown_table(results(facts).items()),
            *([SURE] if facts.summary.intervals else ()),
        ],
        "What went wrong": [f"- {escaped(remark)}" for remark in facts.result.get("remarks", ())],
        "Curves": [*measured_part(facts), *show("curves.png", "rate.png")],
        "Classes": [
            *map(escaped, facts.document["dataset"].get("remarks", ())),
            *class_tables(facts),
            *show("classes.png", "confusion.png", "precision.png"),
        ],
        "Calibration": show("calibration.png"),
        "Numbers": show("numbers.png"),
        "Samples": [*show("samples.png"), *samples_by_epoch(facts.run)],
        "Plots": [
            *([caption + "the true class."] if "predictions.png" in drawn else ()),
            *show("predictions.png", "mistakes.png"),
            *mistakes(facts),
            *plots_of_others(facts.run),
        ],
        "Hyper-parameters": [
            f"Recipe `{facts.document.get('recipe_name') or 'default'}`; settings that are not "
            "listed have their defaults.",
            markdown_table(what_it_sets(facts.document["recipe"]).items()),
        ],
        "Structure": structure(facts),
        "Reproduce": reproduce(facts),
        "Images left out": left_out(facts.document["dataset"].get("left_out") or ()),
        "Left out": facts.remarks,
    }
    parts = opening(facts)
    for title, content in sections.items():
        if content:
            parts += [f"## {title}", *content]
    return visible("\n\n".join(parts) + "\n")


def opening(facts: Facts) -> list[str]:
    summary, document, head = facts.summary, facts.document, facts.title
    if summary.status != "complete":
        head += ": not finished"
    elif summary.accuracy is not None:
        head += f": {percent(summary.accuracy)} on the {summary.split} set"
    command = f"`{document.get('command')}`"
    parts = [
        f"# {escaped(head)}",
        f"Run `{summary.run}`, {document.get('created')}: {command}",
    ]
    if summary.status != "complete":
        done = f": {summary.epochs} of {summary.planned} epochs done" if summary.planned else ""
        end = f". `{typed('zoo train --resume', summary.path)}` continues it."
        end = ", still running." if summary.shown_status == "running" else end
        parts.append(f"**Not finished**{done}{end}")
    if summary.error:
        parts.append(f"It failed: {escaped(summary.error).rstrip('.')}.")
    return parts


def results(facts: Facts) -> dict[str, str]:
    """The figures that people look for first."""
    summary, result, data = facts.summary, facts.result, facts.document["dataset"]
    sizes = facts.document.get("parameters") or {}
    environment = facts.document.get("environment") or {}
    epochs = f"{summary.epochs} of {summary.planned}" if summary.planned else "trained in one go"
    epochs += ", stopped early" if result.get("stopped_early") else ""
    epochs += f", best: {result['best_epoch']}" if result.get("best_epoch") else ""

    def known(value: float | None, form: str) -> str:
        return "" if value is None else form.format(value)

    found = {
        f"{summary.split} {label(name)}": with_interval(
            name, value, summary.intervals, summary.units
        )
        for name, value in facts.scores.items()
        if name != "images" and number(value) is not None
    }
    if temperature := result.get("temperature"):
        found["temperature"] = f"{temperature:.3g}, that the validation images decided"
    found |= {
        "trainable parameters": known(sizes.get("trainable"), "{:,}"),
        "all parameters": known(sizes.get("total"), "{:,}"),
        "size": known(summary.bytes, "{:,} bytes"),
        "epochs": epochs,
        "fine-tuning": (result.get("finetune") or {}).get("told", ""),
        "training time": "" if summary.seconds is None else duration(summary.seconds),
        "training speed": known(summary.images_per_second, "{:,.0f} images/s"),
        "inference time": known(summary.inference_ms_per_image, "{:.3g} ms per image"),
        "device": ", ".join(str(environment[k]) for k in HARDWARE if k in environment),
        "images": ", ".join(f"{data[part]:,} {part}" for part in SPLITS if data.get(part)),
    }
    return {name: value for name, value in found.items() if value}


def measured_part(facts: Facts) -> list[str]:
    """A sentence on how many test images the curves are of, where that is not all."""
    asked, tests = facts.document["recipe"].get("evaluate_subset", 1), facts.document["dataset"]
    images = round(asked * tests["test"] if asked <= 1 else asked)
    if not 0 < images < tests["test"] or not facts.curves:
        return []
    return [f"Test figures before the last epoch are those of {images:,} images."]


def class_tables(facts: Facts) -> list[str]:
    """Best and worst classes, and what was most often taken for what."""
    if facts.targets.kind == CLASSES:
        return several_tables(facts)
    classes, confusion = facts.targets.names, facts.scores.get("confusion")
    if not confusion:
        return []
    scores = class_scores(classes, confusion)
    rows = [
        (escaped(s.name), percent(s.accuracy),
         interval_text("accuracy", wilson(s.accuracy, s.images)) or "", f"{s.images:,}")
        for s in scores
    ]  # fmt: skip
    if len(rows) > 12:
        rows[5:-5] = [("...",) * 4]
    found = mixups(classes, confusion)[:10]
    lines = [f"- {escaped(a)} taken for {escaped(b)}: {n:,} (of {of:,})" for a, b, n, of in found]
    confusions = ["Most common confusions:", "\n".join(lines)] if lines else []
    return [markdown_table(rows, ("class", "#accuracy", "95 % interval", "#images")), *confusions]


def several_tables(facts: Facts) -> list[str]:
    """The figures of each class, where an image may have several."""
    found = [(name, one) for name, one in (facts.scores.get("per_class") or {}).items() if one]
    columns = ("average_precision", "f1", "precision", "recall")
    rows = [
        (
            escaped(name),
            *(percent(one[column]) for column in columns),
            f"{int(one['images']):,}",
        )
        for name, one in sorted(found, key=lambda item: -item[1]["average_precision"])
    ]
    titles = ("class", "#average precision", "#F1", "#precision", "#recall", "#images")
    return [markdown_table(rows, titles)] if rows else []


def mistakes(facts: Facts) -> list[str]:
    """The files of the mistakes that the model was surest of."""
    classes, values, labels = facts.targets.names, facts.values, facts.labels
    if not facts.names or values is None or labels is None:
        return []
    rows = [
        (f"`{facts.names[i]}`", escaped(classes[values[i].argmax()]),
         percent(float(values[i].max())), escaped(classes[labels[i]]))
        for i in surest_mistakes(facts)[:SHOWN]
    ]  # fmt: skip
    return [markdown_table(rows, ("file", "predicted", "#probability", "class"))] if rows else []


def surest_mistakes(facts: Facts) -> np.ndarray:
    """The numbers of the test images that are taken for another class, the surest first."""
    if facts.targets.kind != CLASS or facts.values is None or facts.labels is None:
        return np.arange(0)
    wrong = np.flatnonzero(facts.values.argmax(1) != facts.labels)
    return wrong[np.argsort(-facts.values[wrong].max(1), kind="stable")]


def left_out(found: Sequence[tuple[str, str]]) -> list[str]:
    """The images that could not be used."""
    lines = [f"- {escaped(reason)}" for _, reason in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"- and {len(found) - SHOWN:,} more; run.json names them all")
    return ["\n".join(lines)] if lines else []


def plots_of_others(run: Run) -> list[str]:
    """What somebody else put there: a plugin, for example."""
    names = [path.name for path in (run.path / "pictures").glob("*.png")]
    names = [n for n in names if first_page(n) not in PLOTS and not SAMPLES.fullmatch(n)]
    names.sort(key=lambda name: (len(name), name))  # epoch-5 before epoch-10
    return [f"![{name.removesuffix('.png')}](pictures/{name})" for name in names]


def samples_by_epoch(run: Run) -> list[str]:
    """Samples from the same noise in the course of the training, in rows of three."""
    names = (p.name for p in (run.path / "pictures").glob("samples-*.png"))
    epochs = sorted((int(m[1]), name) for name in names if (m := SAMPLES.fullmatch(name)))
    tables = []
    for row in (epochs[start : start + 3] for start in range(0, len(epochs), 3)):
        shown = [f"![Samples after epoch {epoch}](pictures/{name})" for epoch, name in row]
        tables.append(markdown_table([shown], [f"after epoch {epoch}" for epoch, _ in row]))
    return ["The same noise earlier in the training:", *tables] if tables else []


def structure(facts: Facts) -> list[str]:
    model = facts.document["model"]
    options = what_it_sets({"model": model.get("config") or {}})
    text = (facts.document.get("structure") or "").rstrip()
    return [
        f"Model `{model['name']}` of {model.get('distribution')} {model.get('version')}.",
        markdown_table(options.items()),
        *([f"```\n{text}\n```"] if text else ()),
    ]


def reproduce(facts: Facts) -> list[str]:
    """The command, and what has to be the same for the same result."""
    document, weights = facts.document, facts.result.get("model") or {}
    rows = {"dataset": f"{document['dataset']['reference']}, sha256 `{facts.summary.digest}`"}
    if weights:
        rows[weights["file"]] = f"sha256 `{weights['sha256']}`"
    environment = (document.get("environment") or {}).items()
    rows |= {key: str(value) for key, value in environment if key not in HARDWARE}
    return [*to_type(facts.run.path, facts.run.again), markdown_table(rows.items())]


def to_type(path: Path, line: str) -> list[str]:
    """A command with this path in it, and where to type it."""
    where = "In any folder:" if path.is_absolute() else f"In the folder with `{path}`:"
    return [where, f"```\n{line}\n```"]


def markdown_table(rows: Iterable[Sequence[str]], titles: Sequence[str] = ("", "")) -> str:
    """A Markdown table. Columns with a title #NAME are aligned to the right."""
    rule = ["---:" if title.startswith("#") else "---" for title in titles]
    names = [title.removeprefix("#") for title in titles]
    return "\n".join(f"| {' | '.join(line)} |" for line in (names, rule, *rows))


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    text = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in "\\`*<|[" else letter for letter in text)
