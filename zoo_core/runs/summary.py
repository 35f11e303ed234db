"""What the files of a run or a search say: a summary for tables, curves, scores by class.

Plain Python on purpose: `zoo runs` reads hundreds of runs and waits for no numpy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zoo_core.io.console import UNITS, matches
from zoo_core.io.errors import ZooError
from zoo_core.io.targets import describe
from zoo_core.runs.run import Directory, Run, SearchFolder
from zoo_core.runs.statistics import Interval, mean, wilson

SPLITS = ("train", "validation", "test")
# Figures that runs without a word about them have.
OLDER = {name: {"unit": unit, "better": "higher"} for name, unit in UNITS.items()}
AT_THE_END = ("macro_f1", "auc", "ece", "aurc")  # figures of one class that epochs do not have
QUIET = 600  # seconds without a written byte after which a running run may be a dead one

Curves = dict[str, dict[str, tuple[list[int], list[float]]]]  # metric -> split -> epochs, values
Confusion = Sequence[Sequence[int]]  # rows are true classes, columns predicted ones


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One run or search as one row. None is what it does not say, or not yet."""

    run: str
    path: str
    kind: str = "run"  # or search, or sweep
    status: str = "damaged"
    model: str = ""
    dataset: str = ""
    digest: str = ""  # of the dataset
    epochs: int | None = None  # done
    planned: int | None = None  # epochs, of a search trials; None: it is trained in one go
    trials: int | None = None  # of a search, ended
    best: Mapping[str, Any] | None = None  # the parameters of its best trial, once it is complete
    parameters: int | None = None  # all, frozen ones too, as `zoo list` counts them
    bytes: int | None = None
    seconds: float | None = None  # of training
    images_per_second: float | None = None
    inference_ms_per_image: float | None = None
    split: str = ""  # that loss and accuracy were measured on
    loss: float | None = None
    accuracy: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)  # what else the task measures
    units: Mapping[str, str] = field(default_factory=lambda: UNITS)  # of all of these
    images: int | None = None  # of the split
    intervals: Mapping[str, Interval] = field(default_factory=dict)  # for other images, of figures
    ranks: str = ""  # the figure that ranks runs of a task
    merit: float | None = None  # its value: more is better
    selected: bool = False  # chosen by its figures of the test set: they are too good
    task: str = ""
    quiet_seconds: float | None = None  # since a running run wrote anything
    error: str = ""

    def figure(self, name: str) -> float | None:
        """By its name, whichever it is."""
        named = {"loss": self.loss, "accuracy": self.accuracy}
        return named.get(name, self.figures.get(name))

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
def reading(run: Directory) -> Iterator[None]:
    """Whatever is wrong with the files of a run or search becomes a sentence."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ZooError(f"the files in {run.path} are damaged: {describe(error)}") from error


def summarize(run: Run) -> Summary:
    """Read a run, finished or not."""
    with reading(run):
        document, metrics = run.read(), run.metrics()
        result = document.get("result") or {}
        sizes = document.get("parameters") or {}
        split, scores = final_scores(result, metrics)
        known = document.get("figures") or OLDER
        ranks = (n for n, f in known.items() if n != "loss" and f["better"] and n in scores)
        first = next(ranks, "")
        merit = number(scores.get(first))
        if merit is not None and known[first]["better"] == "lower":
            merit = -merit
        images = scores.get("images") or (split and document["dataset"].get(split)) or None
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
            parameters=sizes.get("total"),
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
                if name not in ("loss", "accuracy", "top5", "images")
                and (found := number(value)) is not None
            },
            units={name: figure["unit"] for name, figure in known.items()},
            images=images,
            intervals=intervals_of(scores, images),
            ranks=first,
            merit=merit,
            selected=_selected(run),
            task=document["model"].get("task") or "classification",
            quiet_seconds=_quiet(run) if document["status"] == "running" else None,
            error=document.get("error") or "",
        )


def summarize_search(search: SearchFolder) -> Summary:
    """Read a search or a sweep, finished or not: its figures are those of the best trial."""
    with reading(search):
        document, trials = search.read(), search.trial_lines()
        plan, number_of_best = document["plan"], document.get("best")
        judged = (plan.get("recipe") or {}).get("validation_fraction", 1)
        repeats = all(text.startswith("seed=") for text in plan.get("space", [""]))
        judged = judged and not repeats
        if number_of_best is None and judged and document["status"] != "complete":  # so far
            ended = [(t["loss"], t["number"]) for t in trials if number(t.get("loss")) is not None]
            number_of_best = min(ended)[1] if ended else None
        best: dict[str, Any] = next((t for t in trials if t["number"] == number_of_best), {})
        at_best = [line for line in best.get("curve", ()) if line["epoch"] == best["epoch"]]
        if repeats and (ends := [t["curve"][-1] for t in trials if t["curve"]]):  # their means
            shared = [name for name in ends[0] if all(number(end.get(name)) for end in ends)]
            at_best = [{name: mean([end[name] for end in ends]) for name in shared}]
        split, scores = final_scores({}, at_best)
        return Summary(
            run=search.name,
            path=str(search.path),
            kind="sweep" if plan["kind"] == "sweep" else "search",
            status=document["status"],
            model=plan["model"].rpartition("/")[2],
            dataset=document["dataset"]["name"],
            digest=document["dataset"].get("digest") or "",
            planned=plan["trials"],
            trials=len(trials),
            best=best.get("parameters"),
            seconds=sum(trial["seconds"] for trial in trials) or None,
            split=split,
            loss=number(scores.get("loss")),
            accuracy=number(scores.get("accuracy")),
            selected=selected_on_test(document),
            quiet_seconds=_quiet(search) if document["status"] == "running" else None,
        )


def intervals_of(scores: Mapping[str, Any], images: int | None) -> dict[str, Interval]:
    """Those that were kept with figures; of an older run that of the accuracy at least."""
    accuracy = number(scores.get("accuracy"))
    known = {"accuracy": wilson(accuracy, images)} if accuracy is not None and images else {}
    return known | {name: (low, high) for name, (low, high) in scores.get("intervals", {}).items()}


def selected_on_test(search: Mapping[str, Any]) -> bool:
    """Whether the best of a sweep was chosen by figures of the test set, as it once was."""
    plan = search["plan"]
    judged = (plan.get("recipe") or {}).get("validation_fraction")
    return bool(plan["kind"] == "sweep" and search.get("best") and not judged)


def _selected(run: Run) -> bool:
    search = SearchFolder(run.path.absolute().parent.parent)
    if "/trials/" not in run.name or not search.settings_file.exists():
        return False
    document = search.read()
    return selected_on_test(document) and str(document["best"]) == run.path.name.lstrip("0")


def summarize_any(found: Run | SearchFolder) -> Summary:
    """As above, but what cannot be read is a row as well."""
    try:
        return summarize(found) if isinstance(found, Run) else summarize_search(found)
    except ZooError as error:
        return Summary(run=found.name, path=str(found.path), kind=found.kind, error=str(error))


def matching(text: str, every: Sequence[Summary]) -> list[Summary]:
    """Those whose name fits a pattern, or that have a word in their model, dataset or status."""
    words = [(s.run, s.model, s.dataset, s.shown_status, s.kind) for s in every]
    return [s for s, said in zip(every, words, strict=True) if matches(text, [s.run], said)]


def _quiet(found: Run | SearchFolder) -> float:
    """Seconds since a run, or a search and its trials, wrote anything."""
    names = ("run.json", "metrics.jsonl", "checkpoints/*", "search.json", "trials.jsonl")
    folders = [found.path, *found.path.glob("trials/*")]
    files = [file for folder in folders for name in names for file in folder.glob(name)]
    return max(0.0, time.time() - max(file.stat().st_mtime for file in files))


def final_scores(
    result: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """The split that counts and its scores: the result's, or the latest so far."""
    for split in reversed(SPLITS):
        if result.get(split):
            return split, dict(result[split])
    for split in reversed(SPLITS):
        start = f"{split}_"
        for line in reversed(metrics):  # not every epoch measures every split
            if found := {k.removeprefix(start): v for k, v in line.items() if k.startswith(start)}:
                return split, found
    return "", {}


def curves_of(metrics: Iterable[Mapping[str, Any]]) -> Curves:
    """All of train_X, validation_X, test_X but what says no more; loss and accuracy first."""
    curves: Curves = {}
    for line in metrics:
        for key, value in line.items():
            split, _, metric = key.partition("_")
            told = metric not in ("", "top5", "balanced_accuracy", *AT_THE_END)
            if split in SPLITS and told and isinstance(value, int | float):
                epochs, values = curves.setdefault(metric, {}).setdefault(split, ([], []))
                epochs.append(line["epoch"])
                values.append(float(value))
    first = {"loss": 0, "accuracy": 1}
    return dict(sorted(curves.items(), key=lambda item: first.get(item[0], 2)))


class ClassScore(NamedTuple):
    name: str
    accuracy: float
    images: int


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


def number(value: Any) -> float | None:
    """The value if it is a finite number: NaN is neither a result nor JSON."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if good else None
