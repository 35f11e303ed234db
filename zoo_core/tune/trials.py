"""When a trial cannot win any more.

Functions of validation losses alone: nothing is drawn and nothing depends on the clock, so that a
search can be repeated, and resumed.

Runs one trial: an ordinary training run, in a directory of its own inside the search's.

Works through the trials of a search, one after the other or several at a time.

Several trials at a time, each in a process of its own; all of them see one copy of the pictures.

The arrays are files in a temporary folder that every process maps into memory: the system keeps
one copy, on every platform, and nothing is sent through pipes.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing import connection
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.dataset import Dataset, Split
from zoo_core.io.errors import Interrupted, TrainingError, ZooError
from zoo_core.io.targets import describe
from zoo_core.runs.run import Run
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import registry
from zoo_core.spec.settings import override
from zoo_core.train.builder import begin_run, build_job
from zoo_core.train.checkpoint import Checkpoints
from zoo_core.train.display import Display
from zoo_core.train.runner import execute
from zoo_core.tune.plan import SearchPlan
from zoo_core.tune.report import SearchDisplay
from zoo_core.tune.search import Search
from zoo_core.tune.searcher import Searcher, Suggestion, Trial, best_epoch, validation_losses
from zoo_core.tune.space import as_settings

Losses = Sequence[float]  # after each epoch

AHEAD = 3  # epochs that a trial may still hope for, however late it is
ENOUGH = 3  # rivals that make a median


def cannot_catch_up(losses: Losses, rivals: Sequence[Losses]) -> bool:
    """For a constant learning rate, where a loss falls ever slower, and then rises.

    So the last epoch's fall is more than a trial can hope for in each of the next ones. It is ended
    if even that would not bring it to the best rival by the epoch in which that one was at its
    best, or three epochs from now. What is given up is a trial that would win much later.
    """
    if len(losses) < 2 or not rivals:
        return False
    lead = min(rivals, key=min)
    if min(losses) <= min(lead):
        return False
    hoped = max(lead.index(min(lead)) + 1 - len(losses), AHEAD)
    fall = max(losses[-2] - losses[-1], 0.0)
    return losses[-1] - fall * hoped > min(lead)


def below_the_median(losses: Losses, rivals: Sequence[Losses], epochs: int) -> bool:
    """For a rate that changes: the loss may stay and then fall, so only the same epoch compares.

    From a third of the epochs on, a trial has to be as good as the median of its rivals. Those that
    ended before count with their last loss.
    """
    done = len(losses)
    if done * 3 < epochs or len(rivals) < ENOUGH:
        return False
    then = [rival[min(done, len(rival)) - 1] for rival in rivals if rival]
    return losses[-1] > statistics.median(then)


Lines = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class TrialJob:
    """A trial to run, and all that it depends on; it can be sent to another process."""

    plan: SearchPlan
    number: int
    suggestion: Suggestion
    rivals: tuple[tuple[float, ...], ...]  # losses of the trials that it may be compared with
    path: Path
    checkpoint_seconds: float = 30.0

    @property
    def runs(self) -> Path:
        """The folder that the search is in, where `init` finds other runs."""
        return self.path.parents[2]

    @cached_property
    def recipe(self) -> Recipe:
        return override(self.plan.recipe, as_settings(self.suggestion.parameters))


def run_trial(
    task: TrialJob,
    data: Dataset,
    display: Display,
    listen: Callable[[Lines], bool] = lambda lines: False,
) -> Trial:
    """Train and record. A trial that fails is a record too; only an interruption gets out.

    listen: told the lines so far after each epoch; it may end the trial by saying True.
    """
    plan, run = task.plan, Run(task.path)
    pruned = False

    def give_up(lines: Lines) -> bool:
        nonlocal pruned
        pruned = listen(lines) or (plan.prune and hopeless(task, validation_losses(lines)))
        return pruned

    error = ""
    try:
        entry = registry().models.get(plan.model)
        begun = run if run.settings_file.exists() else None
        job = build_job(
            entry, task.recipe, data, display, device=plan.device, runs=task.runs,
            checkpoint_seconds=task.checkpoint_seconds, run=begun,
        )  # fmt: skip
        if not begun:
            job = begin_run(
                job, run, recipe_name=plan.recipe_name, reference=plan.dataset, command=""
            )
        execute(replace(job, give_up=give_up))
        if plan.kind == "tune":  # nobody uses these weights, and twenty of them take room
            run.model_file.unlink(missing_ok=True)
    except Interrupted:
        raise
    except Exception as problem:
        if isinstance(problem, OSError) or isinstance(problem.__cause__, OSError):
            raise  # a full disk is not the fault of the parameters
        error = str(problem) if isinstance(problem, ZooError) else describe(problem)
        Checkpoints(run.checkpoints).clear()
    return record(task, run.metrics(), error, pruned)


def hopeless(task: TrialJob, losses: Sequence[float]) -> bool:
    epochs = task.recipe.epochs
    if len(losses) >= epochs:  # it has ended by itself
        return False
    if task.recipe.schedule == "constant":
        return cannot_catch_up(losses, task.rivals)
    return below_the_median(losses, task.rivals, epochs)


def record(task: TrialJob, lines: Lines, error: str, pruned: bool) -> Trial:
    """What a run's lines say about its trial."""
    if task.plan.kind == "sweep" or task.recipe.schedule != "constant":
        # The last epoch counts: where the rate falls, the final training goes there as well.
        loss, epoch = final_loss(lines), lines[-1]["epoch"] if lines else None
    else:
        loss, epoch = best_epoch(lines) or (None, None)
    if task.plan.kind == "tune" and loss is None:
        error = error or "its validation loss was never a number"
    return Trial(
        number=task.number,
        parameters=dict(task.suggestion.parameters),
        source=task.suggestion.source,
        status="failed" if error else "pruned" if pruned else "complete",
        loss=None if error else loss,
        epoch=None if error else epoch,
        epochs=len(lines),
        seconds=round(sum(line.get("seconds", 0.0) for line in lines), 3),
        curve=list(lines),
        error=error,
    )


def final_loss(lines: Lines) -> float | None:
    last = lines[-1] if lines else {}
    found = (last.get(f"{split}_loss") for split in ("validation", "test", "train"))
    return next((float(loss) for loss in found if loss is not None), None)


def shared_data(plan: SearchPlan, data: Dataset) -> Dataset:
    """The test set stays out of a search: it decides nothing, and measuring it takes time."""
    return replace(data, test=None) if plan.kind == "tune" else data


def run_trials(
    search: Search,
    plan: SearchPlan,
    searcher: Searcher,
    data: Dataset,
    display: SearchDisplay,
    checkpoint_seconds: float = 30.0,
) -> list[Trial]:
    """All trials that the search has not had yet; each is kept as soon as it has ended."""
    done = search.trials()
    display.already(done.values())
    waiting = [number for number in range(1, plan.trials + 1) if number not in done]
    running: dict[Future[Trial], int] = {}

    def known(number: int) -> Sequence[int]:
        return range(1, number - plan.lag)

    def start(number: int, pool: Executor) -> None:
        seen = [done[other] for other in known(number)]
        suggestion = searcher.suggest(number, seen)
        rivals = tuple(tuple(trial.losses) for trial in seen if trial.loss is not None)
        path = search.trial_run(number).path
        task = TrialJob(plan, number, suggestion, rivals, path, checkpoint_seconds)
        display.begin(number)
        running[pool.submit(run_trial, task, data, display.of_trial())] = number

    with open_pool(plan, data, len(waiting)) as pool:
        while waiting or running:
            while (
                waiting
                and len(running) < plan.workers
                and all(number in done for number in known(waiting[0]))
            ):
                start(waiting.pop(0), pool)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                try:
                    trial = future.result()
                except BrokenExecutor as error:
                    raise TrainingError(
                        "a worker died, for want of memory perhaps",
                        f"zoo {plan.kind} --resume {search.path} goes on; fewer workers need less",
                    ) from error
                done[running.pop(future)] = trial
                search.append(trial)
                display.end(trial)
    return [done[number] for number in sorted(done)]


def open_pool(plan: SearchPlan, data: Dataset, count: int) -> Executor:
    if min(plan.workers, count) < 2:
        return Here()

    return Workers(plan.workers, data)


class Here(Executor):
    """Runs a task at once, in this process."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments, **named))
        return future


# What the libraries that compute ask for their number of threads.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_data: Dataset | None = None  # of this worker


class Workers(Executor):
    """A pool whose tasks are given the dataset of the worker, and a display that is silent."""

    def __init__(self, count: int, data: Dataset) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="zoo-trials-")
        folder = Path(self._folder.name)
        self._before = {name: os.environ.get(name) for name in THREADS}
        threads = max(1, (os.cpu_count() or 1) // count)
        for name in THREADS:  # inherited by the workers; a person's own choice stays
            os.environ.setdefault(name, str(threads))
        # Not forked: a process that has threads, as torch has, must not be.
        self._pool = ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start,
            initargs=(share_dataset(data, folder), folder),
        )

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        return self._pool.submit(
            _work_here, function, arguments[0]
        )  # the rest the worker has itself

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=True)
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
        self._folder.cleanup()


def share_dataset(data: Dataset, folder: Path) -> Dataset:
    """Write the arrays, and give back the dataset without them."""
    empty = np.empty((0, 1, 1, 1), np.uint8)

    def keep(split: Split | None, name: str) -> Split | None:
        if split is None:
            return None
        np.save(folder / f"{name}-images.npy", split.images)
        if split.labels is not None:
            np.save(folder / f"{name}-labels.npy", split.labels)
        return Split(empty, None)

    train = keep(data.train, "train")
    assert train is not None
    return replace(data, train=train, test=keep(data.test, "test"))


def map_dataset(data: Dataset, folder: Path) -> Dataset:
    """The dataset again; its pages are shared with everybody who maps the same files."""

    def read(name: str) -> Any:
        path = folder / f"{name}.npy"
        # "c": private if written to, which nobody does, and so torch takes it without a warning.
        return np.load(path, mmap_mode="c") if path.exists() else None

    def split(name: str) -> Split:
        return Split(read(f"{name}-images"), read(f"{name}-labels"))

    return replace(
        data, train=split("train"), test=split("test") if data.test is not None else None
    )


def _start(data: Dataset, folder: Path) -> None:
    global _data
    _data = map_dataset(data, folder)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A search that is killed takes its workers with it; their trials are resumed with it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _work_here(function: Callable[..., Any], task: Any) -> Any:
    assert _data is not None
    return function(task, _data, Display(quiet=True))
