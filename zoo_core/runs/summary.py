"""What the files of a run say: a summary for tables, curves, scores by class.

Plain Python on purpose: `zoo runs` reads hundreds of runs and waits for no numpy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zoo_core.io.errors import ZooError
from zoo_core.io.targets import describe
from zoo_core.runs.run import Run
from zoo_core.spec.settings import what_it_sets

SPLITS = ("train", "validation", "test")
QUIET = 600  # seconds without a written byte after which a running run may be a dead one

Curves = dict[str, dict[str, tuple[list[int], list[float]]]]  # metric -> split -> epochs, values
Confusion = Sequence[Sequence[int]]  # rows are true classes, columns predicted ones


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One run as one row. None is what the run does not say, or not yet."""

    run: str
    path: str
    status: str = "damaged"
    model: str = ""
    dataset: str = ""
    digest: str = ""  # of the dataset
    epochs: int | None = None  # done
    planned: int | None = None  # None: it is trained in one go
    parameters: int | None = None  # trainable
    bytes: int | None = None
    seconds: float | None = None  # of training
    images_per_second: float | None = None
    inference_ms_per_image: float | None = None
    split: str = ""  # that loss and accuracy were measured on
    loss: float | None = None
    accuracy: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)  # what else the task measures
    task: str = ""
    quiet_seconds: float | None = None  # since a running run wrote anything
    error: str = ""

    @property
    def shown_status(self) -> str:
        """A process that died cannot say so; all that can be seen is that nothing happens."""
        return "running?" if (self.quiet_seconds or 0) > QUIET else self.status

    @property
    def shown_epochs(self) -> str | None:
        if self.epochs is None or not self.planned:
            return None
        return f"{self.epochs}/{self.planned}"


@contextmanager
def reading(run: Run) -> Iterator[None]:
    """Whatever is wrong with the files of a run becomes a sentence."""
    try:
        yield
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ZooError(f"the files in {run.path} are damaged: {describe(error)}") from error


def summarize(run: Run) -> Summary:
    """Read a run, finished or not."""
    with reading(run):
        document, metrics = run.read(), run.metrics()
        result = document.get("result") or {}
        sizes = document.get("parameters") or {}
        split, scores = final_scores(result, metrics)
        speeds = [n for line in metrics if (n := number(line.get("images_per_second")))]
        return Summary(
            run=run.name,
            path=str(run.path),
            status=document["status"],
            model=document["model"]["name"],
            dataset=document["dataset"]["name"],
            digest=document["dataset"].get("digest") or "",
            epochs=result.get("epochs") or (metrics[-1]["epoch"] if metrics else 0),
            planned=document["recipe"].get("epochs"),
            parameters=sizes.get("trainable"),
            bytes=(result.get("model") or {}).get("bytes") or sizes.get("bytes"),
            seconds=number(result.get("seconds"))
            or sum(number(line.get("seconds")) or 0.0 for line in metrics)
            or None,
            images_per_second=number(result.get("images_per_second"))
            or (sum(speeds) / len(speeds) if speeds else None),
            inference_ms_per_image=number(result.get("inference_ms_per_image")),
            split=split,
            loss=number(scores.get("loss")),
            accuracy=number(scores.get("accuracy")),
            figures={
                name: found
                for name, value in scores.items()
                if name not in ("loss", "accuracy", "top5") and (found := number(value)) is not None
            },
            task=document["model"].get("task") or "classification",
            quiet_seconds=_quiet(run) if document["status"] == "running" else None,
            error=document.get("error") or "",
        )


def summarize_any(run: Run) -> Summary:
    """As summarize, but a run that cannot be read is a row as well."""
    try:
        return summarize(run)
    except ZooError as error:
        return Summary(run=run.name, path=str(run.path), error=str(error))


def _quiet(run: Run) -> float:
    files = [run.settings_file, run.metrics_file, *run.checkpoints.glob("*")]
    return max(0.0, time.time() - max(f.stat().st_mtime for f in files if f.exists()))


def final_scores(
    result: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """The split that counts and its scores: the result's, or those of the last epoch so far."""
    last = metrics[-1] if metrics else {}
    for split in reversed(SPLITS):
        if result.get(split):
            return split, dict(result[split])
    for split in reversed(SPLITS):
        start = f"{split}_"
        if found := {k.removeprefix(start): v for k, v in last.items() if k.startswith(start)}:
            return split, found
    return "", {}


def curves_of(metrics: Iterable[Mapping[str, Any]]) -> Curves:
    """All of train_X, validation_X, test_X but top-5, which says no more; loss, accuracy first."""
    curves: Curves = {}
    for line in metrics:
        for key, value in line.items():
            split, _, metric = key.partition("_")
            if split in SPLITS and metric not in ("", "top5") and isinstance(value, int | float):
                epochs, values = curves.setdefault(metric, {}).setdefault(split, ([], []))
                epochs.append(line["epoch"])
                values.append(float(value))
    first = {"loss": 0, "accuracy": 1}
    return dict(sorted(curves.items(), key=lambda item: first.get(item[0], 2)))


def read_curves(run: Run) -> Curves:
    with reading(run):
        return curves_of(run.metrics())


class ClassScore(NamedTuple):
    name: str
    accuracy: float
    pictures: int


def class_scores(classes: Sequence[str], confusion: Confusion) -> list[ClassScore]:
    """Best class first; a class without images has no score."""
    scores = [
        ClassScore(name, row[i] / sum(row), sum(row))
        for i, (name, row) in enumerate(zip(classes, confusion, strict=False))
        if sum(row)
    ]
    return sorted(scores, key=lambda score: -score.accuracy)


def mixups(classes: Sequence[str], confusion: Confusion) -> list[tuple[str, str, int, int]]:
    """Which class was taken for which, how often, of how many; the most common first."""
    found = [
        (classes[i], classes[j], count, sum(row))
        for i, row in enumerate(confusion)
        for j, count in enumerate(row)
        if count and i != j
    ]
    return sorted(found, key=lambda mixup: -mixup[2])


def labels(documents: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """A short name for each run of a comparison: the model and, if need be, what sets it apart."""
    models = [document["model"]["name"] for document in documents]
    placed = [f"{m} on {d['dataset']['name']}" for m, d in zip(models, documents, strict=True)]
    recipes = [what_it_sets(document["recipe"]) for document in documents]
    keys = dict.fromkeys(key for recipe in recipes for key in recipe)
    apart = [key for key in keys if len({recipe.get(key) for recipe in recipes}) > 1]
    told = []
    for model, recipe in zip(models, recipes, strict=True):
        words = [f"{key}={recipe[key]}" for key in apart if key in recipe]
        told.append(" ".join(words if len(set(models)) == 1 else [model, *words]))
    choices = [models, placed, told if len(apart) <= 3 else names]
    return next((list(c) for c in choices if len(set(c)) == len(c)), list(names))


def number(value: Any) -> float | None:
    """The value if it is a finite number: NaN is neither a result nor JSON."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if good else None
