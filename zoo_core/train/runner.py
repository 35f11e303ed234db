"""From a decided job to a finished run: trains, evaluates, writes what came out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.dataset import Dataset
from zoo_core.data.datasets import named_or
from zoo_core.io.console import duration, named, typed
from zoo_core.io.errors import (
    FULL,
    Interrupted,
    TrainingError,
    WeightsError,
    ZooError,
    signal_of,
)
from zoo_core.io.process import joined, process, shared
from zoo_core.io.targets import Displayed, describe
from zoo_core.io.tensors import write_tensors
from zoo_core.runs.run import Run, new_run, runs_root
from zoo_core.runs.summary import final_scores, reading
from zoo_core.spec.answers import CLASS, CLASSES
from zoo_core.spec.framework import Config
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import origin, qualified_name, registry
from zoo_core.spec.settings import as_typed, choose_recipe, merge, override
from zoo_core.train.builder import (
    asked_for,
    begin_run,
    build_job,
    check_same,
    follow_data,
    open_data,
    remarks_on,
    spare_tests,
)
from zoo_core.train.checkpoint import Checkpoints
from zoo_core.train.display import Display, open_display
from zoo_core.train.job import Fitted, Job, Say, refuse_ignored, trainer_of
from zoo_core.use.evaluate import Measured, measure_model, score
from zoo_core.weights.manifest import find_model
from zoo_core.weights.verify import Located, check

# Writes the report of a run; reports stand above training, so the caller brings it.
Reporter = Callable[[Run, Dataset], Path]

FEW = 20  # images with a class: fewer say little about its threshold


@dataclass(frozen=True, repr=False)
class Result(Displayed):
    """A finished run, for Python."""

    run: Run
    metrics: Mapping[str, Any]  # of the split that `split` names
    seconds: float
    report: Path | None

    _html = "zoo_core.report.notebook:run_html"

    def __repr__(self) -> str:
        told = [named(n, v) for n, v in self.metrics.items() if isinstance(v, float)][:4]
        return f"Result({self.path}: {', '.join([*told, duration(self.seconds)])})"

    @property
    def path(self) -> Path:
        return self.run.path

    @property
    def split(self) -> str:
        """What the metrics are of: test, or else validation, or else train."""
        return final_scores(self.run.read()["result"], ())[0]

    @property
    def accuracy(self) -> float | None:
        return self.metrics.get("accuracy")


def train(
    model: str,
    dataset: Any = "",
    *,
    recipe: str = "",
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    runs: Path | None = None,
    quiet: bool = False,
    checkpoint_seconds: float = 30.0,
    command: str = "",
    report: Reporter | None = None,
    name: str = "",
) -> Result:
    """Train a model in a new run directory; recipe "": `default`, or what fits the data better.

    name: of the run, which goes on if it has begun, and is given back if it is complete.
    """
    entry, settings = find_model(model), dict(settings or {})
    trainer = trainer_of(entry)
    recipe_name = recipe or trainer.default_recipe(entry, settings)
    chosen = override(choose_recipe(entry, recipe_name), settings)
    refuse_ignored(entry, trainer, chosen)  # before a dataset is fetched
    display, dataset = open_display(quiet), named_or(dataset, entry.dataset)
    asked = asked_for(entry, chosen, dataset)
    how: dict[str, Any] = {"runs": runs, "checkpoint_seconds": checkpoint_seconds}
    with joined(), ExitStack() as held:
        if name:
            run, document = _opened(lambda: Run.named(runs_root(runs), name), held, asked)
            if document:
                device = "" if device == "auto" else device
                return _go_on(run, document, display, device, dataset, report, **how)
        data, chosen = open_data(entry, chosen, dataset, display.say)
        given = {*settings, *(("recipe",) if recipe else ())}
        said: list[str] = []
        stored = {"data": chosen.data, "preprocess": chosen.preprocess}

        def build(recipe_name: str, more: Mapping[str, Any]) -> Job:
            wanted = merge(settings | stored, more)
            chosen = override(choose_recipe(entry, recipe_name), wanted)
            chosen = spare_tests(entry, chosen, given, data, said.append)
            return build_job(entry, chosen, data, display, device=device, **how)

        recipe_name = follow_data(entry, chosen, given, data, said.append) or recipe_name
        job = build(recipe_name, {})
        if not recipe:
            job, longer = trainer.further(job, recipe_name, settings, build, said.append)
            if longer != recipe_name:  # what was said of the recipe before does not hold any more
                recipe_name, said = longer, said[-1:]
        if process()[0]:
            return execute(job, report)
        if not name:
            run = held.enter_context(new_run(runs_root(runs), entry.name, data.name))
        job = begin_run(job, run, recipe_name=recipe_name, command=command, asked=asked)
        display.say("\n".join([f"{run.path}", *said, *remarks_on(job)]))
        return execute(job, report)


def resume(
    reference: str,
    *,
    runs: Path | None = None,
    device: str = "",
    quiet: bool = False,
    checkpoint_seconds: float = 30.0,
    report: Reporter | None = None,
    dataset: Any = "",
) -> Result:
    """Go on with a run that was interrupted or killed, to the same end."""
    how: dict[str, Any] = {"runs": runs, "checkpoint_seconds": checkpoint_seconds}
    with joined(), ExitStack() as held:
        run, document = _opened(lambda: Run.find(reference, runs), held)
        return _go_on(run, document, open_display(quiet), device, dataset, report, **how)


def _opened(
    find: Callable[[], Run], held: ExitStack, asked: Mapping[str, Any] | None = None
) -> tuple[Run, dict[str, Any]]:
    """A run, locked until `held` ends unless it is complete, and its run.json: {} in a new run."""

    def look() -> bytes:  # only the first of several processes need reach it
        run = find()
        held.callback(run.forget)
        if not completed(run):  # that is for ever: it needs no lock, nor the right to write
            held.enter_context(run.locked())
        document = run.read() if run.settings_file.exists() else {}
        if document and asked is not None:
            run.refuse_others(asked)
        return json.dumps([str(run.path), document]).encode()

    path, document = json.loads(shared(look))
    return Run(Path(path)), document


def _go_on(
    run: Run, document: Config, display: Display, device: str, dataset: Any,
    report: Reporter | None, **how: Any,
) -> Result:  # fmt: skip
    """Train a run to its end, from its last checkpoint on; `how` is for build_job."""
    if document["status"] == "complete":
        if process()[0]:
            raise SystemExit(0)
        Checkpoints(run.checkpoints).clear()  # a kill at the very end left them
        _say_complete(run, document, display.say)
        return _result(run, document)
    with reading(run):
        model, data = document["model"], document["dataset"]
        recipe = Recipe(**document["recipe"])
        device = device or document["environment"]["device"]
        dataset = named_or(dataset, data["reference"])
    entry = registry().models.get(f"{model['plugin']}/{model['name']}")
    data, recipe = open_data(entry, recipe, dataset, display.say)
    check_same(run, document, data, entry, device, display)
    how |= {"device": device, "run": run, "document": document}
    return execute(build_job(entry, recipe, data, display, **how), report)


def _say_complete(run: Run, document: Mapping[str, Any], say: Say) -> None:
    data = document["dataset"]
    words = [run.path, "--dataset", data["reference"]]
    for name, value in (data.get("options") or {}).items():
        words += ["--set", f"data.{name}={as_typed(value)}"]
    further = typed(f"zoo train {document['model']['name']} --init", *words)
    say(f"{run.path} is complete; there is nothing to resume.")
    say(f"{further} trains it further; zoo runs lists other runs.")


def completed(run: Run) -> Result | None:
    """What came out of a run; None where it did not reach its end yet."""
    document = run.read() if run.settings_file.exists() else {}
    return _result(run, document) if document.get("status") == "complete" else None


def _result(run: Run, document: Config) -> Result:
    with reading(run):
        result, page = document["result"], run.path / "report.md"
        _, scores = final_scores(result, [])
        return Result(run, scores, result["seconds"], page if page.exists() else None)


def execute(job: Job, report: Reporter | None = None, *, calibrates: bool = True) -> Result:
    """Train a job in its run directory, whose lock the caller has, and write what came out."""
    run = job.run
    if run is None:  # one of the other processes: it computes, and writes nothing
        ended = job.trainer.fit(job)
        job = replace(job, config={**job.config, **ended.config})
        _measured(*_calibrated(job, ended))
        raise SystemExit(0)
    if job.resume_from:
        run.update(status="running", error="")
        if not Checkpoints(run.checkpoints).latest_path():
            run.keep_metrics(0)
            job.display.say(f"Resuming {run.path} at the beginning.")
    try:
        job.events.send("zoo_run_started", run=run)
        started, processed = time.perf_counter(), time.process_time()
        fitted: Any = job.trainer.fit(job)
        if not isinstance(fitted, Fitted):
            given = f"returned {type(fitted).__name__}, not zoo.Fitted"
            raise TrainingError(f"fit of trainer {job.entry.trainer!r} {given}")
        if not fitted.seconds:
            seconds, cpu = time.perf_counter() - started, time.process_time() - processed
            rate = fitted.epochs * len(job.parts[0]) / max(seconds, 1e-9)
            fitted = replace(fitted, seconds=seconds, cpu_seconds=cpu, images_per_second=rate)
        result = _finish(job, run, fitted, report, calibrates)
        job.events.send("zoo_run_ended", run=run, result=result)
        return result
    except BaseException as error:
        if (said := _failed(job, run, error)) is error:
            raise
        raise said from error


def _failed(job: Job, run: Run, error: BaseException) -> BaseException:
    """Note in run.json how the run ended, tell the listeners, and say it in a sentence."""
    interrupted = isinstance(error, Interrupted | KeyboardInterrupt)
    again, finished = typed("zoo train --resume", run.path), False
    with suppress(OSError, ZooError):
        finished = run.read().get("status") == "complete"
    if finished:  # what came after that, a listener say, undoes nothing
        Checkpoints(run.checkpoints).clear()
        what = f"stopped after the end of the training; {run.path} is complete"
        stopped = isinstance(error, KeyboardInterrupt)
        return Interrupted(what, signal=signal_of(error)) if stopped else error
    if isinstance(error, KeyboardInterrupt):  # before the first step, after the last, in one go
        error = Interrupted("the training was stopped", again, signal_of(error))
    elif isinstance(error, OSError) and run.concerns(error):
        last = Checkpoints(run.checkpoints).latest_path()
        saved = f"; the last checkpoint is {last}" if last else ""
        what = f"{run.path} could not be written: {error.strerror or error}"
        first = "make room" if error.errno in FULL else "allow this user to write there"
        error = TrainingError(what, f"{first}, then: {again}{saved}")
    elif isinstance(error, Exception) and not isinstance(error, ZooError):
        what = f"training model {job.entry.name!r} of {origin(job.entry)} raised {describe(error)}"
        hint = "the same command with --debug shows where"
        if isinstance(error, OSError):  # a network, a permission: the next time it may be there
            hint = f"{again} tries again; {hint}"
        error = TrainingError(what, hint)
    status, what = ("interrupted", "") if interrupted else ("failed", describe(error))
    with suppress(OSError, ZooError):  # a full disk: the error itself says so
        run.update(status=status, error=what)
    job.events.send("zoo_run_failed", run=run, error=error)
    return error


def _finish(
    job: Job, run: Run, fitted: Fitted, report: Reporter | None, calibrates: bool
) -> Result:
    job = replace(job, config={**job.config, **fitted.config})
    if calibrates:
        job, fitted = _calibrated(job, fitted)
    digest, size = write_model(job, run.model_file, fitted.tensors)
    try:
        # As every load does, and more: what is kept must not be rounded by the next load.
        check(Located(reference=run.name, source=run.name, path=run.model_file), exact=True)
    except WeightsError as error:
        run.model_file.unlink()
        what = f"trainer {job.entry.trainer!r} gave weights that cannot be loaded: {error}"
        raise TrainingError(what) from error
    result: dict[str, Any] = {
        "epochs": fitted.epochs,
        "best_epoch": fitted.best_epoch,
        "stopped_early": fitted.stopped_early,
        "seconds": round(fitted.seconds, 3),
        "cpu_seconds": round(fitted.cpu_seconds, 3),
        "images_per_second": round(fitted.images_per_second, 1),
        "model": {"file": run.model_file.name, "sha256": digest, "bytes": size},
        **({"config": fitted.config} if fitted.config else {}),
        **fitted.facts,
    }
    figures, probabilities = _measured(job, fitted)
    result |= figures
    if probabilities is not None:
        _write_predictions(job, run, probabilities)
    test, last = result.get("test", {}), fitted.best_epoch in (None, fitted.epochs)
    earlier = job.recipe.restore_best or fitted.best_epoch == 0
    if not (lines := run.metrics()):  # no loop wrote any
        _write_line(job, run, fitted, test)
    elif "test_loss" not in lines[-1] and (last or not earlier):
        run.write_metrics([*lines[:-1], lines[-1] | _plain("test", test)])  # left to us
    split, figures = final_scores(result, run.metrics())
    if split:
        result[split] = figures
    if fitted.remarks:
        result["remarks"] = list(fitted.remarks)
        for remark in fitted.remarks:
            job.display.warn(remark)
    document = run.read() | {"status": "complete", "error": "", "result": result}
    if (temperature := job.dataset.targets.temperature) != 1:
        result["temperature"] = temperature
    if targets := job.dataset.targets.to_dict():
        document["dataset"]["targets"] = targets
    if not document["parameters"]["total"]:  # only fitting decided how many there are
        arrays = fitted.tensors.values()
        count, weight = sum(a.size for a in arrays), sum(a.nbytes for a in arrays)
        document["parameters"] = {"trainable": count, "total": count, "bytes": weight}
    run.write(document)
    Checkpoints(run.checkpoints).clear()
    page = None
    try:
        page = report(run, job.dataset) if report else None
    except KeyboardInterrupt:
        again = typed("zoo report", run.path)
        job.display.warn(f"the report was interrupted; {again} writes it")
    except Exception as error:  # whatever goes wrong with the report, the run is complete
        job.display.warn(f"the report could not be written: {describe(error)}")
    return Result(run, figures, fitted.seconds, page)


def _calibrated(job: Job, fitted: Fitted) -> tuple[Job, Fitted]:
    """The job as it ended, with what the validation images decide: thresholds, a temperature."""
    data, held_out = job.dataset, job.parts[1]
    known = data.targets.kind in (CLASS, CLASSES) and data.train.labels is not None
    if not known or not len(held_out):
        return job, fitted
    answers = job.trainer.answers(job.entry, data.targets)
    if answers is None or answers.targets != data.targets:
        return job, fitted
    model = job.trainer.assemble(job.entry, job.config, fitted.tensors, device=job.device)
    how = {"backend": job.trainer.backend, "shard": process()}
    loader = job.evaluation_loader(data.train, held_out, **how)
    outputs, _ = score(job.trainer, model, data, "train", loader)
    assert data.train.labels is not None
    labels, several = data.train.labels[held_out], data.targets.kind == CLASSES
    counts = labels.sum(0, int) if several else ()
    if rare := [n for n, c in zip(data.classes, counts, strict=False) if c < FEW]:
        those = rare[0] if len(rare) == 1 else f"{rare[0]} and {len(rare) - 1} other classes"
        what = f"fewer than {FEW} validation images have {those}, so that thresholds are uncertain"
        remark = f"{what}; a larger validation_fraction helps"
        fitted = replace(fitted, remarks=(*fitted.remarks, remark))
    targets = answers.calibrated(outputs, labels)
    return replace(job, dataset=replace(data, targets=targets)), fitted


def _measure(job: Job, fitted: Fitted, **what: Any) -> Measured:
    model = job.trainer.assemble(job.entry, job.config, fitted.tensors, device=job.device)
    how = job.preprocess, job.dataset, job.recipe
    return measure_model(job.entry, model, *how, shard=process(), **what)


def _measured(job: Job, fitted: Fitted) -> tuple[dict[str, Any], np.ndarray | None]:
    """Figures of the finished weights, and what they say of the test set; each process its part."""
    if job.dataset.test:
        figures, probabilities, ms = _measure(job, fitted, scores=fitted.test_scores)
        timed = {} if ms is None else {"inference_ms_per_image": round(ms, 4)}
        return {"test": figures, **timed}, probabilities
    if not len(job.parts[1]):  # an epoch's line has the figures of the weights on the way
        return {"train": _measure(job, fitted, split="train", rows=job.parts[0])[0]}, None
    if fitted.best_epoch == 0:
        return {"validation": _measure(job, fitted, split="train", rows=job.parts[1])[0]}, None
    return {}, None


def _write_predictions(job: Job, run: Run, probabilities: np.ndarray) -> None:
    """What the report shows of the test set."""
    tensors = {"probabilities": probabilities.astype(np.float32)}
    if job.dataset.test and job.dataset.test.labels is not None:
        tensors["labels"] = job.dataset.test.labels
    if job.dataset.test and job.dataset.test.names:
        tensors["names"] = np.frombuffer(json.dumps(job.dataset.test.names).encode(), np.uint8)
    write_tensors(run.predictions_file, tensors)


def _write_line(job: Job, run: Run, fitted: Fitted, test: Mapping[str, Any]) -> None:
    """The one line of metrics.jsonl of a training in one go, with the validation images' figures:
    searches and reports look for them there."""
    figures = {"test": test}
    if len(held_out := job.parts[1]):
        figures["validation"], *_ = _measure(job, fitted, split="train", rows=held_out)
    line: dict[str, Any] = {"epoch": fitted.epochs}
    for split, scores in figures.items():
        line |= _plain(split, scores)
    speed = {"seconds": fitted.seconds, "images_per_second": fitted.images_per_second}
    line |= {name: round(value, 3) for name, value in speed.items()}
    run.append_metrics(line)
    job.events.send("zoo_epoch_ended", run=run, epoch=fitted.epochs, metrics=line)


def _plain(split: str, scores: Mapping[str, Any]) -> dict[str, float]:
    """Figures of a split as a line of metrics.jsonl has them."""
    return {f"{split}_{name}": value for name, value in scores.items() if isinstance(value, float)}


def write_model(job: Job, path: Path, tensors: Mapping[str, np.ndarray]) -> tuple[str, int]:
    """model.safetensors, with all that is needed to use it in its one metadata key."""
    about = {
        "model": qualified_name(job.entry),
        "config": job.config,
        "dataset": job.dataset.name,
        "classes": job.dataset.classes,
        "preprocess": job.preprocess.to_dict(),
    }
    if targets := job.dataset.targets.to_dict():
        about["targets"] = targets
    # Nothing in it changes from run to run: the same weights have the same digest.
    digest = write_tensors(path, tensors, json.dumps(about, sort_keys=True))
    return digest, path.stat().st_size
