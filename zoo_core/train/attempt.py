"""One training among many that are compared: images outside the test set alone judge it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from zoo_core.data.dataset import Dataset
from zoo_core.data.datasets import open_dataset
from zoo_core.io.documents import document_digest
from zoo_core.runs.run import Run
from zoo_core.spec.framework import Framework
from zoo_core.spec.registry import registry
from zoo_core.spec.settings import choose_recipe, override
from zoo_core.train.builder import begin_run, build_job, open_data
from zoo_core.train.display import Display
from zoo_core.train.job import honoured, trainer_of
from zoo_core.train.runner import completed, execute
from zoo_core.use.evaluate import measure_model
from zoo_core.use.load import load


@dataclass(frozen=True)
class Attempt:
    """A training that has ended, and what its model says of the images that judge it."""

    document: Mapping[str, Any]  # run.json
    figures: Mapping[str, Any]  # as zoo.evaluate gives them
    values: np.ndarray | None  # (judges, targets): probabilities, or numbers
    labels: np.ndarray | None  # of the judges
    ms: float | None  # for an image
    framework: Framework


def attempt(
    model: str,
    dataset: str,
    run: Run,
    *,
    recipe: str = "default",
    settings: Mapping[str, Any] | None = None,
    epochs: int = 0,
    learn: int = 0,
    judge: int = 0,
    device: str = "auto",
    checkpoint_seconds: float = 30.0,
) -> Attempt:
    """Train in this directory, go on if that has begun, and measure on the validation images.

    settings: with a validation_fraction. epochs: in place of the recipe's, where the trainer counts
    them. learn, judge: at most so many images to learn from, and to be judged by; 0: all. With
    more, the ones before are among them. The test set stays out.
    """
    entry = registry().models.get(model)
    chosen = override(choose_recipe(entry, recipe), settings or {})
    if epochs and "epochs" in honoured(trainer_of(entry)):
        warmup = chosen.warmup * min(1.0, epochs / chosen.epochs)
        chosen = replace(chosen, epochs=epochs, warmup=warmup)
    data, chosen = open_data(entry, chosen, dataset, lambda _: None, _opened)
    parts = data.parts(chosen)
    draw = np.random.default_rng(chosen.seed)
    learned, judged = (draw.permutation(part) for part in parts)
    data, parts = _cut(data, learned[: learn or None], judged[: judge or None])
    run.path.mkdir(parents=True, exist_ok=True)
    with run.locked():
        begun = run if run.settings_file.exists() else None
        how: dict[str, Any] = {"device": device, "checkpoint_seconds": checkpoint_seconds}
        if not completed(run):
            job = build_job(entry, chosen, data, Display(quiet=True), run=begun, parts=parts, **how)
            job = job if begun else begin_run(job, run, recipe_name=recipe, command="")
            execute(job, calibrates=False)
        made, document = load(run.path.absolute(), device=device), run.read()
    about = made.zoo
    figures, values, ms = measure_model(
        entry, made, about.preprocess, data, chosen, split="train", rows=parts[1]
    )
    labels = data.train.labels
    known = None if labels is None else labels[parts[1]]
    return Attempt(document, figures, values, known, ms, about.framework)


@lru_cache(maxsize=2)
def _kept(reference: Any, options: str, fit: str) -> Dataset:
    return open_dataset(reference, json.loads(options), fit=fit, report=lambda _: None)


def _opened(reference: Any, options: Mapping[str, Any], *, fit: str, report: Any) -> Dataset:
    """As open_dataset: the next model mostly wants the same images in the same size."""
    return _kept(reference, json.dumps(dict(options), sort_keys=True), fit)


def _cut(
    data: Dataset, learn: np.ndarray, judge: np.ndarray
) -> tuple[Dataset, tuple[np.ndarray, np.ndarray]]:
    """The data without its test set and other images: a frozen backbone sees all there are."""
    learn, judge = np.sort(learn), np.sort(judge)
    data, every = replace(data, test=None), np.sort(np.concatenate([learn, judge]))
    if len(every) < len(data.train):
        digest = document_digest([data.digest, every.tolist()])
        data = replace(data, train=data.train.part(every), digest=digest)
    return data, (np.searchsorted(every, learn), np.searchsorted(every, judge))
