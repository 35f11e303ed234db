"""What can be compared with what: runs in groups, the best first, and the settings that differ.

Runs of two datasets, or of tasks that measure nothing in common, are in different groups. Plain
Python, as summary.py is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from zoo_core.runs.run import Run
from zoo_core.runs.summary import Curves, Summary, curves_of, reading, summarize
from zoo_core.spec.settings import FIELDS, SECTIONS, flat

# The same images in another resolution; any other option of a dataset may choose other images.
SHAPES = ("data.image_size", "data.channels")
OBJECTIVE = ("label_smoothing", "class_weights")  # and task.NAME: what a loss is made of
MOST_WORDS = 3  # settings in the label of a run


@dataclass(frozen=True)
class Row:
    """One run of a comparison, or weights, which have no curves."""

    summary: Summary
    settings: Mapping[str, str]  # all, as one types them after --set
    curves: Curves | None = None
    note: str = ""

    @property
    def measured(self) -> bool:
        return self.summary.split in ("test", "")


@dataclass(frozen=True)
class Comparison:
    """Runs whose figures compare, best first."""

    title: str
    rows: tuple[Row, ...]

    @cached_property
    def apart(self) -> list[str]:
        """The settings that differ. Options of a model are compared with runs of that model."""
        names = dict.fromkeys(name for row in self.rows for name in row.settings)
        found = {name for name in names if self._differs(name)}
        # The size of a model's images is mostly that of the dataset's: once is enough.
        found -= {name.replace("data.", "model.") for name in found if name.startswith("data.")}
        return [name for name in names if name in found]

    def _differs(self, name: str) -> bool:
        section, dot, _ = name.partition(".")
        found: dict[str, set[str]] = {}
        for row in self.rows:
            owner = {"model": row.summary.model, "task": row.summary.task}.get(section, "")
            # Another trainer has no such field; an option that is not set has its default.
            if name in row.settings or (dot and section != "model"):
                found.setdefault(owner, set()).add(row.settings.get(name, ""))
        return any(len(values) > 1 for values in found.values())

    @property
    def unlike(self) -> list[str]:
        """What makes their losses different things; empty: the losses compare."""
        tasks = {row.summary.task for row in self.rows}
        names = [n for n in self.apart if n in OBJECTIVE or n.startswith("task.")]
        return ["task"] * (len(tasks) > 1) + names

    @property
    def labels(self) -> list[str]:
        """A short name for each: the model and, if need be, what sets it apart."""
        models = [row.summary.model for row in self.rows]
        told = []
        for model, row in zip(models, self.rows, strict=True):
            words = [f"{key}={row.settings[key]}" for key in self.apart if key in row.settings]
            told.append(" ".join(words if words and len(set(models)) == 1 else [model, *words]))
        names = [row.summary.run for row in self.rows]
        choices = [models, told if len(self.apart) <= MOST_WORDS else names]
        return next((one for one in choices if len(set(one)) == len(one)), names)


def row_of(run: Run) -> Row:
    """A run, finished or not."""
    summary = summarize(run)
    with reading(run):
        document = run.read()
        options = {
            "model": document["model"].get("config"),
            "data": document["dataset"].get("options"),
        }
        settings = flat({**document["recipe"], **{k: v for k, v in options.items() if v}})
        return Row(summary, settings, curves_of(run.metrics()))


def row_of_weights(summary: Summary, recipe: Mapping[str, Any], config: Mapping[str, Any]) -> Row:
    """recipe: what differs from a plain one, as a manifest has it."""
    plain = {name: value for name, value in FIELDS.items() if name not in SECTIONS}
    return Row(summary, flat({**plain, "model": config, **recipe}))


def compare(rows: Iterable[Row]) -> list[Comparison]:
    """Rows by what they can be compared with, in the order of the first of each group."""
    rows = list(rows)
    family = families(rows)
    found: dict[tuple[str, str], list[Row]] = {}
    for row, data in zip(rows, datasets(rows), strict=True):
        found.setdefault((data, family[row.summary.task]), []).append(row)
    several = len({words for _, words in found}) > 1
    return [
        Comparison(f"{data}, {words}" if several else data, ranked(members))
        for (data, words), members in found.items()
    ]


def families(rows: Iterable[Row]) -> dict[str, str]:
    """Words for the tasks that each task is compared with: those that measure the same things."""
    measured: dict[str, set[str]] = {}
    for row in rows:
        names = [*row.summary.figures, *["accuracy"] * (row.summary.accuracy is not None)]
        measured.setdefault(row.summary.task, set()).update(names)
    groups: list[tuple[list[str], set[str]]] = []
    for task, figures in measured.items():
        near = [group for group in groups if group[1] & figures]
        tasks = [one for group in near for one in group[0]] + [task]
        groups = [group for group in groups if group not in near]
        groups.append((tasks, figures.union(*(group[1] for group in near))))
    return {
        task: " and ".join(one.rpartition(":")[2].removesuffix("Task") for one in tasks)
        for tasks, _ in groups  # zoo_vae.vae:VAETask is the VAE
        for task in tasks
    }


def datasets(rows: Sequence[Row]) -> list[str]:
    """Words for the images that each row was measured on: equal words, equal images.

    A digest alone does not say that: it changes with the resolution, and a manifest has none.
    """
    words: list[str] = []
    known: dict[tuple[str, str], str] = {}  # by name and digest
    taken = set()
    for row in rows:
        name, digest = row.summary.dataset, row.summary.digest
        chosen = {k: v for k, v in row.settings.items() if k.startswith("data.")}
        shape = tuple(chosen.pop(option, "") for option in SHAPES)
        base = " ".join([name, *(f"{k}={v}" for k, v in chosen.items())])
        word, version = known.get((name, digest), base), 1
        if digest and (name, digest) not in known:
            while (word, shape) in taken:
                version += 1
                word = f"{base}, version {version}"
            taken.add((word, shape))
            known[name, digest] = word
        words.append(word)
    return words


def ranked(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The best first, by what ranks their task, then by loss where losses are alike; with notes."""
    alike = not Comparison("", tuple(rows)).unlike

    def rank(row: Row) -> tuple[bool, float, float]:
        one = row.summary
        merit = math.inf if one.merit is None else -one.merit
        return not row.measured, merit, one.loss if alike and one.loss is not None else math.inf

    ordered, best = sorted(rows, key=rank), True
    for i, row in enumerate(ordered):
        one = row.summary
        words = [] if one.status == "complete" else [one.shown_status]
        if not row.measured and one.loss is not None:
            words.append(f"measured on {one.split}")
        elif one.status == "complete" and one.merit is not None and len(rows) > 1:
            words += ["best"] * best
            best = False
        ordered[i] = replace(row, note=", ".join(words))
    return tuple(ordered)
