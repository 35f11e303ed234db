"""Writes report.md and its plots into a run directory, from the files of the run.

Whatever is missing (matplotlib, the dataset, results so far) costs a line in the report, never the
report. What the report says is in text.py, what its plots look like in plots.py.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.dataset import Dataset, Split
from zoo_core.data.datasets import open_dataset
from zoo_core.data.loader import EVALUATION_BATCH, Loader
from zoo_core.data.sheets import first_page, write_sheet
from zoo_core.io.console import typed
from zoo_core.io.errors import UnknownName, ZooError, os_errors
from zoo_core.io.files import atomic_write
from zoo_core.io.targets import Displayed, describe
from zoo_core.report.text import PLOTS, SHOWN, Facts, markdown, surest_mistakes
from zoo_core.runs.predictions import read_predictions, targets_of
from zoo_core.runs.run import Run
from zoo_core.runs.summary import class_scores, curves_of, final_scores, reading, summarize
from zoo_core.spec.answers import CLASS, CLASSES
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import framework_of
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import registry
from zoo_core.use.generate import sampler_of
from zoo_core.use.load import load

COLUMNS = 8


@dataclass(frozen=True)
class Report(Displayed):
    """A report that was written."""

    path: Path
    plots: list[Path]
    remarks: list[str]  # what had to be left out, and why

    _html = "zoo_core.report.notebook:report_html"


def write_report(run: Run, dataset: Dataset | None = None) -> Path:
    """Write report.md and pictures/ of a run, finished or not, and return report.md's path."""
    return build_report(run, dataset).path


def build_report(run: Run, dataset: Dataset | None = None) -> Report:
    """As write_report; `dataset` is the run's own, or opened from the cache if it is None."""
    facts = read_facts(run)
    path = run.path / "report.md"
    with reading(run), os_errors(f"{path} could not be written"):
        drawn = Plotter(facts, dataset).draw_all()
        with atomic_write(path) as temporary:
            temporary.write_text(markdown(facts, drawn), encoding="utf-8")
    return Report(path, [run.path / "pictures" / name for name in drawn], facts.remarks)


def read_facts(run: Run) -> Facts:
    """Everything in the files of the run, read once."""
    remarks: list[str] = []
    values = labels = None
    names: list[str] = []
    if run.predictions_file.exists():
        try:
            said = read_predictions(run)
            values, labels, names = said.values, said.labels, said.names
        except Exception as error:  # whatever is wrong with the file, the rest can be told
            remarks.append(f"predictions.safetensors cannot be read: {describe(error)}.")
    summary = summarize(run)
    with reading(run):
        document, metrics = run.read(), run.metrics()
        _, scores = final_scores(document.get("result") or {}, metrics)
        targets = targets_of(document)
        curves = curves_of(metrics)
        rates = [(line["epoch"], line["lr"]) for line in metrics if line.get("lr") is not None]
    return Facts(
        run, document, summary, scores, curves, rates, targets, values, labels, names, remarks
    )  # fmt: skip


class Plotter:
    """Draws what can be drawn of a run; remarks say what is missing."""

    def __init__(self, facts: Facts, dataset: Dataset | None) -> None:
        self.facts, self.dataset = facts, dataset
        self.folder = facts.run.path / "pictures"
        self.drawn: list[str] = []

    def draw_all(self) -> list[str]:
        """The names of the files; those of an earlier report go."""
        if importlib.util.find_spec("matplotlib") is None:
            again = typed("zoo report", self.facts.run.path)
            told = f"Plots need matplotlib: `pip install 'zoo-core[report]'`, then `{again}`."
            self.facts.remarks.append(told)
            return []
        self.draw_course()
        self.draw_predictions()
        self.draw_model()
        for file in self.folder.glob("*.png"):
            ours = first_page(file.name) in PLOTS or file.name.startswith("task-")
            if ours and file.name not in self.drawn:
                file.unlink()
        return self.drawn

    def draw(
        self, name: str, function: Callable[..., list[Path] | None], *given: Any, **how: Any
    ) -> None:
        """A function that draws sheets gives the pages that it took."""
        pages = function(self.folder / name, *given, **how)
        self.drawn += [page.name for page in pages] if pages else [name]

    def draw_course(self) -> None:
        """What the numbers of the run say: curves, the learning rate, classes."""
        from zoo_core.report import plots

        facts = self.facts
        if facts.curves:
            units, best = facts.summary.units, facts.result.get("best_epoch")
            self.draw("curves.png", plots.draw_curves, facts.curves, facts.title, units, best)
        if len({rate for _, rate in facts.rates}) > 1:
            self.draw("rate.png", plots.draw_rate, facts.rates)
        if confusion := facts.scores.get("confusion"):
            title, classes = f"{facts.title}, {facts.summary.split} set", facts.targets.names
            self.draw("confusion.png", plots.draw_confusion, classes, confusion, title)
            if scores := class_scores(classes, confusion):
                self.draw("classes.png", plots.draw_classes, scores, f"{title}: accuracy per class")

    def opened(self) -> Dataset:
        self.dataset = data_of(self.facts, self.dataset)
        return self.dataset

    def draw_predictions(self) -> None:
        """A grid of some predictions and one of the surest mistakes."""
        facts, values, labels = self.facts, self.facts.values, self.facts.labels
        if not facts.targets.names or values is None:
            return
        from zoo_core.report import target_plots as draws
        from zoo_core.report.image_plots import draw_grid

        if facts.targets.kind == CLASS and labels is not None:
            given = facts.targets, values, labels
            self.draw("calibration.png", draws.draw_calibration, *given, facts.title)
        elif labels is not None:
            several, given = facts.targets.kind == CLASSES, (facts.targets, values, labels)
            function = draws.draw_precision_recall if several else draws.draw_numbers
            name = "precision.png" if several else "numbers.png"
            self.draw(name, function, *given, f"{facts.title}, {facts.summary.split} set")
        try:
            split = measured_split(facts, self.opened())
        except ZooError as error:
            facts.remarks.append(f"The plots of predictions are left out: {error}.")
            return
        some = chosen_images(split, SHOWN)
        title = f"{len(some)} of {len(split):,} test images, chosen at random"
        if len(some) == len(split):
            title = f"All {len(some)} test images"
        framed = "; mistakes are framed" if labels is not None and facts.targets.classes else ""
        title = f"{facts.title}: {title}{framed}"
        self.draw("predictions.png", draw_grid, split.images[some], facts, some, title)
        wrong = surest_mistakes(facts)
        sure = wrong[:SHOWN]
        if len(sure):
            those = f"the {len(sure)} surest of {len(wrong):,}" if len(sure) < len(wrong) else "all"
            title = f"{facts.title}: {those} mistakes"
            self.draw("mistakes.png", draw_grid, split.images[sure], facts, sure, title)

    def draw_model(self) -> None:
        """Samples of the model of a finished run, and what its task adds."""
        facts, named = self.facts, self.facts.document["model"]
        try:
            entry = registry().models.get(f"{named['plugin']}/{named['name']}")
        except UnknownName:
            return  # the files of the run have told all that can be told without its plugin
        able = "generate" in entry.capabilities
        wanted = able or entry.own_task
        if not wanted or not facts.result or not facts.run.model_file.exists():
            return
        try:
            model = load(facts.run.path.absolute())
            if able:
                sheet, title = sampler_of(model).sheet(), f"{facts.title}: samples"
                how = {"columns": COLUMNS, "title": title}
                self.draw("samples.png", write_sheet, sheet.images, sheet.names, **how)
            if entry.own_task:
                self.draw_task(entry, model)
        except Exception as error:  # a plugin's code may raise anything
            told = str(error) if isinstance(error, ZooError) else describe(error)
            facts.remarks.append(f"The plots of the model are left out: {told}.")

    def draw_task(self, entry: ModelEntry, model: Any) -> None:
        """What the task of a plugin adds."""
        from zoo_core.report import look

        data, framework = self.opened(), framework_of(entry)
        loader = Loader(
            data.test or data.train, batch_size=EVALUATION_BATCH, preprocess=model.zoo.preprocess,
            backend=framework.backend,
        )  # fmt: skip
        how = Recipe(**self.facts.document["recipe"]), loader, self.facts.targets
        for name, figure in framework.plots(entry, model, *how).items():
            file = f"task-{re.sub(r'[^a-z0-9]+', '-', name.lower())}.png"
            self.draw(file, partial(look.save_figure, figure))


def data_of(facts: Facts, dataset: Dataset | None = None) -> Dataset:
    """The dataset of the run, and no other; opened from the cache unless it is given."""
    data = facts.document["dataset"]
    if dataset is None:
        try:
            dataset = open_dataset(data["reference"], data.get("options") or {}, fetch=False)
        except ZooError:
            raise
        except Exception as error:  # a dataset may be a plugin's code, and raise anything
            raise ZooError(f"the dataset cannot be opened: {describe(error)}") from error
    if dataset.digest != data.get("digest"):
        raise ZooError(f"{data['reference']} has changed since the run")
    return dataset


def measured_split(facts: Facts, dataset: Dataset | None = None) -> Split:
    """The test split that the run was measured on; a ZooError says why it is not here."""
    test, name = data_of(facts, dataset).test, facts.summary.dataset
    if test is None:
        raise ZooError(f"{name} has no test set")
    if facts.values is not None and len(facts.values) != len(test):
        raise ZooError(f"{name} has changed since the run")
    return test


def chosen_images(split: Split, most: int) -> np.ndarray:
    """The same images for every run on a dataset, so that reports can be laid side by side."""
    return np.sort(np.random.default_rng(0).permutation(len(split))[:most])
