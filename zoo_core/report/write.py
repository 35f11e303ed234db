"""Writes report.md and its plots into a run directory, from the files of the run.

Whatever is missing (matplotlib, the dataset, results so far) costs a line in the report, never the
report. What the report says is in text.py, what its plots look like in plots.py.
"""

from __future__ import annotations

import importlib.util
import json
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
from zoo_core.io.targets import describe
from zoo_core.io.tensors import read
from zoo_core.report.text import PLOTS, SHOWN, Facts, markdown, surest_mistakes
from zoo_core.runs.run import Run
from zoo_core.runs.summary import class_scores, curves_of, final_scores, reading, summarize
from zoo_core.spec.answers import CLASS, CLASSES, Targets
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import framework_of
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import registry
from zoo_core.use.generate import sampler_of, to_pixels
from zoo_core.use.load import as_input, capability, load

RECONSTRUCTED = 24  # images and their reconstructions
COLUMNS = 8
CODES = 2000  # images whose codes are laid out in the plane
NEEDED = ("generate", "reconstruct", "latent")  # capabilities that plots of a model need


@dataclass(frozen=True)
class Report:
    path: Path
    plots: list[Path]
    remarks: list[str]  # what had to be left out, and why


def write_report(run: Run, dataset: Dataset | None = None) -> Path:
    """Write report.md and pictures/ of a run, finished or not, and return report.md's path."""
    return build_report(run, dataset).path


def build_report(run: Run, dataset: Dataset | None = None) -> Report:
    """As write_report; `dataset` is the run's own, or opened from the cache if it is None."""
    facts = read_facts(run)
    path = run.path / "report.md"
    with os_errors(f"{path} could not be written"):
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
            arrays = read(run.predictions_file.read_bytes())
            values, labels = arrays["probabilities"], arrays.get("labels")
            names = json.loads(bytes(arrays["names"])) if "names" in arrays else []
        except Exception as error:  # whatever is wrong with the file, the rest can be told
            remarks.append(f"predictions.safetensors cannot be read: {describe(error)}.")
    summary = summarize(run)
    with reading(run):
        document, metrics = run.read(), run.metrics()
        _, scores = final_scores(document.get("result") or {}, metrics)
        confusion = scores.get("confusion")
        data = document["dataset"]
        classes = list(data.get("classes") or ())
        targets = Targets.from_dict(classes, data.get("targets") or {})
        one = targets.kind == CLASS
        if confusion is None and one and values is not None and labels is not None:
            size = values.shape[1]
            counts = np.bincount(size * labels + values.argmax(1), minlength=size**2)
            confusion = counts.reshape(size, size).tolist()
        if one:  # a model may have room for more classes than the data has names
            outputs = 0 if values is None else values.shape[1]
            outputs = max(outputs, len(confusion or ()))
            classes += [f"class {i}" for i in range(len(classes), outputs)]
        curves = curves_of(metrics)
        rates = [(line["epoch"], line["lr"]) for line in metrics if line.get("lr") is not None]
    return Facts(
        run, document, summary, scores, curves, rates, classes, confusion, targets, values,
        labels, names, remarks,
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
        if facts.classes and facts.confusion:
            title = f"{facts.title}, {facts.summary.split} set"
            classes = facts.classes[: len(facts.confusion)]
            self.draw("confusion.png", plots.draw_confusion, classes, facts.confusion, title)
            if scores := class_scores(classes, facts.confusion):
                self.draw("classes.png", plots.draw_classes, scores, f"{title}: accuracy per class")

    def opened(self) -> Dataset:
        """The dataset of the run, and no other."""
        data, dataset = self.facts.document["dataset"], self.dataset
        if dataset is None:
            options = data.get("options") or {}
            try:
                dataset = open_dataset(data["reference"], options, fetch=False)
            except ZooError:
                raise
            except Exception as error:  # a dataset may be a plugin's code, and raise anything
                raise ZooError(f"the dataset cannot be opened: {describe(error)}") from error
        if dataset.digest != data.get("digest"):
            raise ZooError(f"{data['reference']} has changed since the run")
        self.dataset = dataset
        return dataset

    def test_split(self, count: int | None = None) -> Split:
        """The test split that the run was measured on; count: its images."""
        test = self.opened().test
        if test is None:
            raise ZooError(f"{self.facts.summary.dataset} has no test set")
        if count not in (None, len(test)):
            raise ZooError(f"{self.facts.summary.dataset} has changed since the run")
        return test

    def draw_predictions(self) -> None:
        """A grid of some predictions and one of the surest mistakes."""
        facts, values, labels = self.facts, self.facts.values, self.facts.labels
        if not facts.targets.names or values is None:
            return
        from zoo_core.report.image_plots import draw_grid

        one = facts.targets.kind == CLASS
        if not one and labels is not None:
            from zoo_core.report import target_plots as draws

            several, given = facts.targets.kind == CLASSES, (facts.targets, values, labels)
            function = draws.draw_precision_recall if several else draws.draw_numbers
            name = "precision.png" if several else "numbers.png"
            self.draw(name, function, *given, f"{facts.title}, {facts.summary.split} set")
        try:
            split = self.test_split(len(values))
        except ZooError as error:
            facts.remarks.append(f"The plots of predictions are left out: {error}.")
            return
        some = chosen_images(split, SHOWN)
        title = f"{len(some)} of {len(split):,} test images, chosen at random"
        if len(some) == len(split):
            title = f"All {len(some)} test images"
        if not one:
            captions = [said_and_true(facts, i) for i in some]
            how = {"columns": COLUMNS, "title": f"{facts.title}: {title}"}
            self.draw("predictions.png", write_sheet, split.images[some], captions, **how)
            return
        title = f"{facts.title}: {title}" + ("" if labels is None else "; mistakes are framed")
        self.draw("predictions.png", draw_grid, split.images[some], facts, some, title)
        if labels is None:
            return
        wrong = surest_mistakes(facts)
        sure = wrong[:SHOWN]
        if len(sure):
            those = f"the {len(sure)} surest of {len(wrong):,}" if len(sure) < len(wrong) else "all"
            title = f"{facts.title}: {those} mistakes"
            self.draw("mistakes.png", draw_grid, split.images[sure], facts, sure, title)

    def draw_model(self) -> None:
        """What the model of a finished run is able to draw itself, as its capabilities say."""
        facts, named = self.facts, self.facts.document["model"]
        try:
            entry = registry().models.get(f"{named['plugin']}/{named['name']}")
        except UnknownName:
            return  # the files of the run have told all that can be told without its plugin
        able = [name for name in NEEDED if name in entry.capabilities]
        wanted = able or entry.own_task
        if not wanted or not facts.result or not facts.run.model_file.exists():
            return
        try:
            model = load(facts.run.path.absolute())
            if "generate" in able:
                sheet, title = sampler_of(model).sheet(), f"{facts.title}: samples"
                how = {"columns": COLUMNS, "title": title}
                self.draw("samples.png", write_sheet, sheet.images, sheet.names, **how)
            if facts.document["dataset"].get("test") and {*able} - {"generate"}:
                split = self.test_split()
                if "reconstruct" in able:
                    title = f"{facts.title}: images of the test set, each above its reconstruction"
                    how = {"columns": min(COLUMNS, len(split)), "title": title}
                    images = reconstructions(model, split)
                    self.draw("reconstructions.png", write_sheet, images, **how)
                if "latent" in able:
                    self.draw_latent(model, split)
            if entry.own_task:
                self.draw_task(entry, model)
        except Exception as error:  # a capability is a plugin's code, and may raise anything
            told = str(error) if isinstance(error, ZooError) else describe(error)
            facts.remarks.append(f"The plots of the model are left out: {told}.")

    def draw_task(self, entry: ModelEntry, model: Any) -> None:
        """What the task of a plugin adds."""
        from zoo_core.report import look

        data, framework = self.opened(), framework_of(entry)
        loader = Loader(
            data.test or data.train, batch_size=EVALUATION_BATCH, preprocess=model.zoo.preprocess,
            shuffle=False, backend=framework.backend,
        )  # fmt: skip
        how = Recipe(**self.facts.document["recipe"]), loader, self.facts.targets
        for name, figure in framework.plots(entry, model, *how).items():
            file = f"task-{re.sub(r'[^a-z0-9]+', '-', name.lower())}.png"
            self.draw(file, partial(look.save, figure))

    def draw_latent(self, model: Any, split: Split) -> None:
        """t-SNE of the codes, coloured by true and by predicted class."""
        from zoo_core.report.image_plots import draw_codes

        facts = self.facts
        if split.labels is None or facts.targets.kind != CLASS or len(split) < 10:
            return
        try:
            from sklearn.decomposition import PCA
            from sklearn.manifold import TSNE
        except ImportError:
            told = "The plot of the codes needs scikit-learn: `pip install 'zoo-core[report]'`."
            facts.remarks.append(told)
            return
        chosen = chosen_images(split, CODES)
        parts = np.array_split(chosen, -(-len(chosen) // 256))
        codes = np.concatenate([call(model, "latent", split, some) for some in parts])
        if codes.shape[1] > 50:  # t-SNE's time grows with the numbers in a code
            codes = PCA(50, random_state=0).fit_transform(codes)
        near = min(30, (len(chosen) - 1) // 3)
        tsne = TSNE(perplexity=near, init="pca", random_state=0, max_iter=750)
        colourings = {"true class": split.labels[chosen]}
        if facts.values is not None:
            colourings["predicted class"] = facts.values.argmax(1)[chosen]
        title = f"{facts.title}: t-SNE of the codes of {len(chosen):,} test images"
        places = tsne.fit_transform(codes)
        self.draw("latent.png", draw_codes, places, colourings, facts.classes, title)


def chosen_images(split: Split, most: int) -> np.ndarray:
    """The same images for every run on a dataset, so that reports can be laid side by side."""
    return np.sort(np.random.default_rng(0).permutation(len(split))[:most])


def reconstructions(model: Any, split: Split) -> np.ndarray:
    """Rows of images, and below each row the same ones as they come back."""
    chosen = chosen_images(split, RECONSTRUCTED)
    preprocess = model.zoo.preprocess
    before = to_pixels(np.asarray(as_input(model, split.images[chosen])), preprocess)
    after = to_pixels(call(model, "reconstruct", split, chosen), preprocess)
    starts = range(0, len(chosen), COLUMNS)
    return np.concatenate([some[i : i + COLUMNS] for i in starts for some in (before, after)])


def call(model: Any, name: str, split: Split, chosen: np.ndarray) -> np.ndarray:
    """What a capability of the model gives for some images."""
    labels = None if split.labels is None else split.labels[chosen]
    images = as_input(model, split.images[chosen])
    found: np.ndarray = capability(model.zoo.entry, name)(model, images, labels)
    return found


def said_and_true(facts: Facts, image: int) -> str:
    """What was said of an image, and where it differs what is true."""
    assert facts.values is not None
    said: Any = facts.values[image]
    if facts.targets.kind == CLASSES:
        said = said >= np.array(facts.targets.thresholds or (0.5,))
    told = facts.targets.caption(said)
    true = "" if facts.labels is None else facts.targets.caption(facts.labels[image])
    told = told if true in ("", told) else f"{told} | is {true}"
    return f"{Path(facts.names[image]).name}: {told}" if facts.names else told
