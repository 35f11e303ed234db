"""Uses trained weights: loads a run, evaluates it on a split, predicts pictures."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.dataset import Dataset, Split
from zoo_core.data.datasets import open_dataset
from zoo_core.data.loader import EVALUATION_BATCH, Loader
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.errors import UsageError
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import Framework, framework_of
from zoo_core.spec.recipe import Recipe
from zoo_core.use.load import in_memory, load_run
from zoo_core.use.metrics import ClassificationTotals, softmax


@dataclass(frozen=True)
class Prediction:
    """The most likely classes of one picture, best first."""

    picture: str
    classes: tuple[tuple[str, float], ...]  # (name, probability)


def measure_model(
    trainer: Framework,
    entry: ModelEntry,
    model: Any,
    preprocess: Preprocess,
    data: Dataset,
    split: str,
    recipe: Recipe,
    scores: np.ndarray | None = None,
) -> tuple[dict[str, Any], np.ndarray | None, float | None]:
    """Figures of a split, whatever the task is; for what classifies, as evaluate_model.

    The loss is the task's. That of a classifier is always cross-entropy. scores: of a classifier,
    where somebody has them already.
    """
    figures: dict[str, Any] = {}
    if entry.task != "classification":
        loader = in_order(trainer, preprocess, _part(data, split))
        figures |= trainer.measure(entry, model, recipe, loader, data.classes)
    if not entry.classifies:
        return figures, None, None
    named, probabilities, ms = evaluate_model(trainer, model, preprocess, data, split, scores)
    return {**named, **figures, **_without_loss(named)}, probabilities, ms


def _without_loss(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if name != "loss"}


def _part(data: Dataset, split: str) -> Split:
    part = data.split(split)
    assert part is not None
    return part


def in_order(trainer: Framework, preprocess: Preprocess, split: Split) -> Loader:
    return Loader(
        split,
        batch_size=EVALUATION_BATCH,
        preprocess=preprocess,
        shuffle=False,
        backend=trainer.backend,
    )


def evaluate_model(
    trainer: Framework,
    model: Any,
    preprocess: Preprocess,
    data: Dataset,
    split: str,
    scores: np.ndarray | None = None,
) -> tuple[dict[str, Any], np.ndarray, float]:
    """Figures of a split, the probabilities of every picture, and milliseconds for each."""
    labels = _part(data, split).labels
    cached = trainer.score_split(model, preprocess, data, split)
    logits, ms = cached or _score_split(trainer, model, preprocess, data, split, scores)
    totals = ClassificationTotals(len(data.classes))
    if labels is not None:
        for start in range(0, len(logits), EVALUATION_BATCH):
            part = slice(start, start + EVALUATION_BATCH)
            totals.add(logits[part], labels[part])
    figures = totals.summary() | totals.details(data.classes)
    return figures, softmax(logits).astype(np.float32), ms


def _score_split(
    trainer: Framework,
    model: Any,
    preprocess: Preprocess,
    data: Dataset,
    split: str,
    scores: np.ndarray | None,
) -> tuple[np.ndarray, float]:
    """What a model says of every image of a split, and milliseconds for each.

    Where the scores are known, one batch is enough to tell the time.
    """
    found: list[np.ndarray] = []
    seconds, images = 0.0, 0
    for batch in in_order(trainer, preprocess, _part(data, split)).epoch(0):
        started = time.perf_counter()
        found.append(trainer.predict_batch(model, batch.images))
        seconds += time.perf_counter() - started
        images += len(batch)
        if scores is not None:
            break
    return np.concatenate(found) if scores is None else scores, 1000 * seconds / images


def evaluate_run(
    reference: str, dataset: str = "", *, split: str = "test", runs: Path | None = None
) -> dict[str, Any]:
    """Measure a trained run again, on its own dataset or another one with the same classes."""
    loaded = load_run(reference, runs)
    if not (dataset or loaded.dataset):
        raise UsageError(
            f"{reference} does not say what it was trained on", "--dataset NAME chooses the data"
        )
    data = open_dataset(dataset) if dataset else open_dataset(loaded.dataset, **loaded.options)
    named = loaded.entry.classifies  # what gives no classes needs no labels
    if named and data.classes != loaded.classes:
        raise UsageError(
            f"{reference} knows other classes than {data.name}: {', '.join(loaded.classes[:5])}...",
            "--dataset takes one with the same classes",
        )
    pictures = data.split(split)
    if pictures is None or not len(pictures) or (named and pictures.labels is None):
        raise UsageError(f"{data.name} has no {'labelled ' if named else ''}{split} split")
    figures, _, ms = measure_model(
        loaded.trainer, loaded.entry, loaded.model, loaded.preprocess, data, split,
        Recipe(task=loaded.task),
    )  # fmt: skip
    return {
        "run": loaded.source if loaded.run else reference,
        "dataset": data.name,
        "split": split,
        "images": len(pictures),
        **figures,
        **({} if ms is None else {"inference_ms_per_image": round(ms, 4)}),
    }


def measure(
    model: Any, dataset: str, options: Mapping[str, Any], task: Mapping[str, Any]
) -> dict[str, Any]:
    """Figures of a model that zoo.load returned, on the test split of a dataset."""
    about, data = model.zoo, open_dataset(dataset, **options)
    if data.test is None or (about.entry.classifies and data.test.labels is None):
        raise UsageError(f"{dataset} has no labelled test split")
    return measure_model(
        framework_of(about.entry), about.entry, model, about.preprocess, data, "test",
        Recipe(task=task),
    )[0]  # fmt: skip


def predict_pictures(
    reference: Any, pictures: Sequence[Any], *, top: int = 5, runs: Path | None = None
) -> list[Prediction]:
    """Classify files, folders, PIL images or arrays, in batches."""
    if top < 1:
        raise UsageError(f"top must be at least 1, not {top}")
    if isinstance(reference, str):
        loaded = load_run(reference, runs)
    else:
        loaded = in_memory(reference)
    if not loaded.entry.classifies:
        raise UsageError(
            f"model {loaded.entry.name!r} does not classify pictures", "zoo list shows what does"
        )
    if not loaded.classes:
        raise UsageError(
            f"model {loaded.entry.name!r} has no names for its classes: it is untrained, or has "
            "a new head",
            "zoo train gives it some; call the model itself for its scores",
        )
    found = list(_pictures(pictures))
    predictions: list[Prediction] = []
    for start in range(0, len(found), EVALUATION_BATCH):
        chunk = found[start : start + EVALUATION_BATCH]
        images = loaded.preprocess.batch([p for _, p in chunk], backend=loaded.trainer.backend)
        for (name, _), row in zip(
            chunk, softmax(loaded.trainer.predict_batch(loaded.model, images)), strict=True
        ):
            best = row.argsort()[::-1][:top]
            predictions.append(
                Prediction(name, tuple((loaded.classes[i], float(row[i])) for i in best))
            )
    return predictions


def _pictures(given: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """(name, picture), with folders replaced by the pictures in them."""
    from zoo_core.data.images import SUFFIXES

    for number, picture in enumerate(given):
        if not isinstance(picture, str | Path):
            _check_picture(name := f"picture {number + 1}", picture)
            yield name, picture
            continue
        path = Path(picture)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES)
            if not inside:
                raise UsageError(
                    f"there are no pictures in {path}",
                    f"a picture's name ends in {', '.join(SUFFIXES)}",
                )
            yield from ((str(p), p) for p in inside)
        elif path.exists():
            yield str(path), path
        else:
            raise UsageError(
                f"there is no picture {picture}", "it must be a file on this machine, or a folder"
            )


def _check_picture(name: str, picture: Any) -> None:
    """A PIL image, or an array as a picture is kept: uint8, (h, w) or (h, w, 1, 3 or 4)."""
    if isinstance(picture, np.ndarray):
        shaped = picture.ndim == 2 or (picture.ndim == 3 and picture.shape[2] in (1, 3, 4))
        if picture.dtype == np.uint8 and shaped and picture.size:
            return
        what = f"an array of {picture.dtype}, {picture.shape}"
    elif hasattr(picture, "convert") and hasattr(picture, "getbands"):
        return
    else:
        what = f"a {type(picture).__name__}"
    raise UsageError(
        f"{name} is {what}, which is no picture",
        "give files, folders, PIL images, or uint8 arrays of (h, w) or (h, w, 3)",
    )
