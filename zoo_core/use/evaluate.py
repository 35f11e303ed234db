"""What a trained model is worth: its figures on a split of a dataset."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.dataset import Dataset, Split
from zoo_core.data.datasets import find_dataset, named_or, open_dataset
from zoo_core.data.loader import EVALUATION_BATCH, Loader
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.errors import UsageError
from zoo_core.io.process import keep_freed_memory, together
from zoo_core.runs.predictions import intervals
from zoo_core.runs.summary import SPLITS
from zoo_core.spec.answers import CLASS, NUMBERS, Targets
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import Config, Framework, framework_of
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import as_reference
from zoo_core.use.load import blocks, load_model
from zoo_core.weights.references import obtain

Measured = tuple[dict[str, Any], np.ndarray | None, float | None]


def measure_model(
    entry: ModelEntry,
    model: Any,
    preprocess: Preprocess,
    data: Dataset,
    recipe: Recipe,
    *,
    split: str = "test",
    rows: np.ndarray | None = None,
    scores: np.ndarray | None = None,
    shard: tuple[int, int] = (0, 1),
) -> Measured:
    """Figures of a split; of what answers also all answers, and milliseconds per image.

    The loss is the task's own, or else that of the answers. rows: only these images. scores: if
    known already. shard: this process, of so many that measure together.
    """
    images, framework = data.split(split), framework_of(entry)
    assert images is not None
    loader = Loader(
        images, batch_size=min(EVALUATION_BATCH, preprocess.at_once), preprocess=preprocess,
        indices=rows, shuffle=False, backend=framework.backend, shard=shard,
    )  # fmt: skip
    figures: dict[str, Any] = {}
    if entry.own_task:
        figures = framework.measure(entry, model, recipe, loader, data.targets)
    answers = framework.answers(entry, data.targets)
    if answers is None or answers.targets != data.targets:  # or answers of another question
        return figures, None, None
    outputs, ms = score(framework, model, data, split, loader, scores)
    values, named = answers.values(outputs).astype(np.float32), dict[str, Any]()
    if images.labels is not None:
        labels = images.labels[loader.indices]
        for part in blocks(len(outputs), EVALUATION_BATCH):
            answers.add(outputs[part], labels[part])
        named = answers.summary() | answers.details(outputs, labels)
        ends = intervals(answers, values, labels).items()
        sure = {name: [*both] for name, both in ends if name in named}  # as JSON has them
        if "loss" in figures:  # the task's own
            del sure["loss"]
        named |= {"images": len(labels), "intervals": sure}
    without_loss = {name: value for name, value in named.items() if name != "loss"}
    return named | figures | without_loss, values, ms


def score(
    framework: Framework,
    model: Any,
    data: Dataset,
    split: str,
    loader: Loader,
    known: np.ndarray | None = None,
) -> tuple[np.ndarray, float]:
    """Outputs of the images of a split that a loader has, from a cache where a framework has one,
    and milliseconds for each. known: the outputs, of which one batch tells the time."""
    if cached := framework.score_split(model, loader.preprocess, data, split):
        return cached[0][loader.indices], cached[1]
    found: list[tuple[np.ndarray, np.ndarray]] = []
    seconds, images = 0.0, 0
    for batch in filter(len, loader.epoch(0)):
        started = time.perf_counter()
        found.append((batch.indices, framework.predict_batch(model, batch.images)))
        seconds += time.perf_counter() - started
        images += len(batch)
        if known is not None:
            break
    rows, outputs = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    if loader.world > 1:  # each process has some rows, in the order of all
        whole = np.zeros((len(loader.indices), *outputs.shape[1:]), outputs.dtype)
        whole[np.isin(loader.indices, rows)] = outputs
        outputs = together("summed")(whole).astype(outputs.dtype)
    return outputs if known is None else known, 1000 * seconds / images


def measure(
    model: Any, dataset: Any, options: Config, task: Config, split: str = "test",
    name: str = "", run: Mapping[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Figures of a model that zoo.load returned, on a split of a dataset; name: what to call it.

    run: the run.json of its training on this dataset, which knows what was kept for validation.
    """
    if split not in SPLITS:
        raise UsageError(f"there is no split {split!r}", f"choose one of {', '.join(SPLITS)}")
    about = model.zoo
    data = open_dataset(dataset, options, fit=about.preprocess.fit)
    answers = framework_of(about.entry).answers(about.entry, about.targets)
    named = answers is not None and answers.targets == about.targets
    if named:
        data = as_known(data, about.targets, name or about.source)
    part, rows = "test" if split == "test" else "train", None
    if run and part == "train" and run["dataset"]["digest"] == data.digest:
        rows = data.parts(Recipe(**run["recipe"]))[split == "validation"]
    elif split == "validation":
        what = f"{name or about.source} does not say which images of {data.name} were kept back"
        raise UsageError(f"{what} for validation", "name a run and the dataset of its training")
    keep_freed_memory()
    images = data.split(part)
    count = 0 if images is None else len(images if rows is None else rows)
    if not images or not count or (named and images.labels is None):
        hint = "--split train measures the images that it was trained on" * (split == "test")
        what = f"{data.name} has no {'labelled ' if named else ''}{split} split"
        raise UsageError(what, hint)
    how = about.preprocess, data, Recipe(task=task)
    figures, _, ms = measure_model(about.entry, model, *how, split=part, rows=rows)
    if ms is not None:
        figures["inference_ms_per_image"] = round(ms, 4)
    told = {"left_out": data.left_out} if data.left_out else {}
    return {"dataset": data.name, "split": split, **told, **figures, "images": count}


def as_known(data: Dataset, ours: Targets, name: str) -> Dataset:
    """The data with labels as a model has learned them: of its classes some may be missing."""
    theirs = data.targets
    unknown = [one for one in theirs.names if one not in ours.names]
    same = theirs.names == ours.names if ours.kind == NUMBERS else not unknown
    if theirs.kind != ours.kind or not same:
        known, given = (
            ", ".join((*names[:5], *["..."] * (len(names) > 5)))
            for names in (ours.names, unknown or theirs.names)
        )
        word = "classes" if ours.classes else "numbers"
        what = f"{name} has other {word} than {data.name}: it knows {known}"
        raise UsageError(f"{what}; {data.name} has {given or 'no labels'}")
    if theirs.names == ours.names:
        return replace(data, targets=ours)
    places = np.array([ours.names.index(one) for one in theirs.names])

    def known_labels(split: Split) -> Split:
        assert split.labels is not None
        if ours.kind == CLASS:
            return replace(split, labels=places[split.labels])
        labels = np.zeros((len(split), len(ours.names)), split.labels.dtype)
        labels[:, places] = split.labels
        return replace(split, labels=labels)

    test = data.test and known_labels(data.test)
    return replace(data, targets=ours, train=known_labels(data.train), test=test)


def evaluate(
    run: str | Path,
    dataset: Any = "",
    *,
    split: str = "test",
    options: Mapping[str, Any] | None = None,
    device: str = "auto",
    runs: Path | None = None,
) -> dict[str, Any]:
    """Loss, accuracy, accuracy per class and confusion matrix of a run or of weights.

    A model with another task has that task's figures, and the accuracy only if it classifies.
    dataset: another one whose classes it knows; images of other folders are stored as its own were,
    and a folder without train and test folders is measured whole. split: "test", "train" (what it
    was trained on) or "validation". options: of the data.
    """
    weights = obtain(as_reference(run), runs)
    located, given = weights.located, dict(options or {})
    dataset = named_or(dataset, located.dataset)
    if isinstance(dataset, str) and not dataset:
        what = f"{located.name} does not say what it was trained on"
        raise UsageError(what, "--dataset NAME chooses the data")
    model = load_model(weights, device=device)
    choice = find_dataset(dataset)
    if choice.reference == located.dataset:
        given = {**located.data_options, **given}
    elif choice.entry.originals:
        how = model.zoo.preprocess
        stored = {"image_size": how.stored_size, "channels": how.stored_channels, "fit": how.fit}
        given = {**stored, "test_fraction": 1.0, **given}
    elif "test_fraction" in choice.options:  # arrays
        given = {"test_fraction": 1.0, **given}
    trained = located.task_options, split, located.name, located.run
    figures = measure(model, dataset, given, *trained)
    return {"run": located.name, **figures}
