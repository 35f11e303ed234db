"""What can be compared with what: runs in groups, the best first, and the settings that differ.

Runs of two datasets, or of tasks that measure nothing in common, are in different groups; runs that
differ by their seed alone are a team. Plain Python, as summary.py is; predictions are read on use.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from zoo_core.runs.run import Run
from zoo_core.runs.statistics import (
    ALPHA,
    Difference,
    Spread,
    across_seeds,
    holm,
    independent,
    mean,
    spread,
    wilson,
)
from zoo_core.runs.summary import Curves, Summary, curves_of, reading, summarize
from zoo_core.spec.settings import FIELDS, SECTIONS, flat

# The same images in another resolution; any other option of a dataset may choose other images.
SHAPES = ("data.image_size", "data.channels")
OBJECTIVE = ("label_smoothing", "class_weights")  # and task.NAME: what a loss is made of
DECIDES_NOTHING = ("evaluate_subset",)  # neither the weights nor the figures of their end
MOST_WORDS = 3  # settings in the label of a run


@dataclass(frozen=True)
class Row:
    """One run of a comparison, or weights, which have no curves."""

    summary: Summary
    settings: Mapping[str, str]  # all that decide something, as one types them after --set
    sha256: str = ""  # of the weights; "" until they are finished
    curves: Curves | None = None
    run: Run | None = None
    note: str = ""

    @property
    def measured(self) -> bool:
        return self.summary.split in ("test", "")


@dataclass(frozen=True)
class Team:
    """Runs that differ by their seed alone, or one row."""

    rows: tuple[Row, ...]
    rank: int | None = None  # 1 + how many are better for sure; None: nothing can be tested
    note: str = ""

    @cached_property
    def summary(self) -> Summary:
        """The means over the seeds, with the interval for other images where there is one seed."""
        first, every = self.rows[0].summary, [row.summary for row in self.rows]
        if len(every) == 1:
            return first

        def middle(values: Iterable[float | None]) -> float | None:
            known = [value for value in values if value is not None]
            return mean(known) if known else None

        names = ("loss", "accuracy", "merit", "seconds", "images_per_second")
        means: dict[str, Any] = {n: middle(getattr(s, n) for s in every) for n in names}
        means["figures"] = {n: middle(s.figures.get(n) for s in every) for n in first.figures}
        accuracy, images = means["accuracy"], first.images
        sure = {"accuracy": wilson(accuracy, images)} if images and accuracy is not None else {}
        return replace(first, run=f"{len(every)} seeds", intervals=sure, **means)

    @property
    def values(self) -> list[float]:
        """Of the figure that ranks, one for each seed."""
        known = (row.summary.figure(row.summary.ranks) for row in self.rows)
        return [value for value in known if value is not None]

    @property
    def seeds(self) -> Spread | None:
        """Over the seeds, where there are several."""
        return spread(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Pair:
    """Two teams of a comparison, by place, and what tells them apart."""

    places: tuple[int, int]
    figure: str
    images: Difference | None  # for other images
    seeds: Difference | None  # for other seeds
    p: float  # of both: the larger one, after Holm over all pairs

    @property
    def different(self) -> bool:
        return self.p < ALPHA


@dataclass(frozen=True)
class Comparison:
    """Runs whose figures compare, best first."""

    title: str
    teams: tuple[Team, ...]
    pairs: tuple[Pair, ...] = ()

    @cached_property
    def rows(self) -> list[Row]:
        return [replace(row, note=team.note) for team in self.teams for row in team.rows]

    def label(self, place: int) -> str:
        """Of a team."""
        before = sum(len(team.rows) for team in self.teams[:place])
        label, team = self.labels[before], self.teams[place]
        if len(team.rows) == 1:
            return label
        words = " ".join(word for word in label.split() if not word.startswith("seed="))
        alone = words if words and words != label else team.summary.model
        return f"{alone} ({len(team.rows)} seeds)"

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
        settings = deciding({**document["recipe"], **{k: v for k, v in options.items() if v}})
        sha256 = ((document.get("result") or {}).get("model") or {}).get("sha256", "")
        return Row(summary, settings, sha256, curves_of(run.metrics()), run)


def row_of_weights(
    summary: Summary, recipe: Mapping[str, Any], config: Mapping[str, Any], sha256: str
) -> Row:
    """recipe: what differs from a plain one, as a manifest has it."""
    plain = {name: value for name, value in FIELDS.items() if name not in SECTIONS}
    return Row(summary, deciding({**plain, "model": config, **recipe}), sha256)


def deciding(recipe: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in flat(recipe).items() if name not in DECIDES_NOTHING}


def compare(rows: Iterable[Row]) -> list[Comparison]:
    """Rows by what they can be compared with, in the order of the first of each group."""
    rows = list(rows)
    family = families(rows)
    found: dict[tuple[str, str], list[Row]] = {}
    for row, data in zip(rows, datasets(rows), strict=True):
        found.setdefault((data, family[row.summary.task]), []).append(row)
    several = len({words for _, words in found}) > 1
    return [
        decided(f"{data}, {words}" if several else data, members)
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


def decided(title: str, rows: Sequence[Row]) -> Comparison:
    """The best first, by what ranks their task, then by loss where losses are alike; with ranks
    that tests support, and notes."""
    alike = not Comparison("", (Team(tuple(rows)),)).unlike

    def order(team: Team) -> tuple[bool, float, float]:
        one = team.summary
        merit = math.inf if one.merit is None else -one.merit
        loss = one.loss if alike and one.loss is not None else math.inf
        return not team.rows[0].measured, merit, loss

    teams = sorted(teams_of(rows), key=order)
    pairs = pairs_of(teams)
    lost = [
        sum(pair.different and pair.places[1] == i for pair in pairs) for i in range(len(teams))
    ]
    won = sum(pair.different and pair.places[0] == 0 for pair in pairs)
    tested = {place for pair in pairs for place in pair.places}
    for i, team in enumerate(teams):
        one, words = team.summary, []
        if one.status != "complete":
            words.append(one.shown_status)
        if not team.rows[0].measured and one.loss is not None:
            words.append(f"measured on {one.split}")
        if i == 0 and won == len(tested) - 1 > 0:
            words.append("best")
        if any(row.summary.selected for row in team.rows):
            words.append("chosen on the test set")
        rank = lost[i] + 1 if i in tested else None
        teams[i] = replace(team, rank=rank, note=", ".join(words))
    return Comparison(title, tuple(teams), tuple(pairs))


def teams_of(rows: Iterable[Row]) -> list[Team]:
    """Finished runs with other seeds and all else the same are a team."""
    found: dict[Any, list[Row]] = {}
    for number, row in enumerate(rows):
        one, settings = row.summary, dict(row.settings)
        seed = settings.pop("seed", "")
        alike = (one.model, one.task, one.split, tuple(sorted(settings.items())))
        whole = row.run and row.measured and one.status == "complete"
        team = found.setdefault(alike if whole else number, [])
        known = {other.settings.get("seed", "") for other in team}
        found.setdefault(number, []).append(row) if seed in known else team.append(row)
    return [Team(tuple(members)) for members in found.values() if members]


def pairs_of(teams: Sequence[Team]) -> list[Pair]:
    """Each pair that a test can decide: for other images and, where seeds differ, other seeds."""
    able = [i for i, team in enumerate(teams) if team.values and team.rows[0].measured
            and team.summary.status == "complete"]  # fmt: skip
    read: dict[Path, Any] = {}
    found = []
    for i, j in itertools.combinations(able, 2):
        one, other = teams[i], teams[j]
        if one.summary.ranks != other.summary.ranks:
            continue
        images = _for_images(one, other, read)
        seeds = across_seeds(one.values, other.values)
        if known := [test.p for test in (images, seeds) if test]:
            found.append(Pair((i, j), one.summary.ranks, images, seeds, max(known)))
    adjusted = holm([pair.p for pair in found])
    return [replace(pair, p=p) for pair, p in zip(found, adjusted, strict=True)]


def _for_images(one: Team, other: Team, read: dict[Path, Any]) -> Difference | None:
    """On the same images by what each model said of each, else as shares of other images."""
    from zoo_core.runs import predictions

    figure, runs = one.summary.ranks, [row.run for team in (one, other) for row in team.rows]
    for run in runs:
        if run and run.path not in read:
            read[run.path] = predictions.of_run(run)
    said = [read[run.path] for run in runs if run and read[run.path]]
    if len(said) == len(runs) and all(predictions.same_images(said[0], each) for each in said):
        count = len(one.rows)
        if test := predictions.compared(figure, said[:count], said[count:]):
            return test
    ours, theirs = one.summary, other.summary
    if figure != "accuracy" or not (ours.images and theirs.images):
        return None
    assert ours.accuracy is not None and theirs.accuracy is not None
    return independent(ours.accuracy, ours.images, theirs.accuracy, theirs.images)
