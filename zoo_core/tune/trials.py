"""Works through the trials of a search: each an ordinary run in a directory of its own.

Trials run one by one in this process, or several at a time in others that share the images.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
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
from zoo_core.spec.settings import override
from zoo_core.train.builder import begin_run, build_job
from zoo_core.train.checkpoint import Checkpoints
from zoo_core.train.display import Display
from zoo_core.train.job import Job
from zoo_core.train.runner import execute
from zoo_core.tune.report import SearchDisplay
from zoo_core.tune.search import Lines, Search, SearchPlan, Trial, last_scores, validation_losses
from zoo_core.tune.searcher import Suggestion, make_searcher
from zoo_core.tune.space import as_settings

Losses = Sequence[float]  # after each epoch

# When a trial cannot win any more is a function of validation losses alone: nothing is drawn and
# nothing depends on the clock, so that a search can be repeated, and resumed.
AHEAD = 3  # epochs that a trial may still hope for, however late it is
ENOUGH = 3  # rivals that make a median


def cannot_catch_up(losses: Losses, rivals: Sequence[Losses]) -> bool:
    """For a constant learning rate, where a loss falls ever slower, and then rises.

    Whether falling as in the last epoch would not reach the best rival by that one's best epoch, or
    three epochs from now. What is given up is a trial that would win much later.
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
    """For a rate that changes: compares with the median of the same epoch, after a third of all.

    Rivals that ended before count with their last loss.
    """
    done = len(losses)
    if done * 3 < epochs or len(rivals) < ENOUGH:
        return False
    then = [rival[min(done, len(rival)) - 1] for rival in rivals if rival]
    return losses[-1] > statistics.median(then)


@dataclass(frozen=True)
class TrialJob:
    """A trial to run, and all that it depends on; it can be sent to another process."""

    plan: SearchPlan
    number: int
    suggestion: Suggestion
    rivals: tuple[tuple[float, ...], ...]  # losses of the trials that it may be compared with
    path: Path
    checkpoint_seconds: float = 30.0

    @cached_property
    def recipe(self) -> Recipe:
        return override(self.plan.recipe, as_settings(self.suggestion.parameters))

    def hopeless(self, lines: Lines) -> bool:
        """Whether pruning ends it after these epochs."""
        losses, epochs = validation_losses(lines), self.recipe.epochs
        if not self.plan.prune or len(losses) >= epochs:  # in the last one it ends by itself
            return False
        if self.recipe.schedule == "constant":
            return cannot_catch_up(losses, self.rivals)
        return below_the_median(losses, self.rivals, epochs)

    def record(self, lines: Lines, error: str, pruned: bool) -> Trial:
        """What the lines of its run say about it."""
        loss, epoch = best_epoch(lines)
        if self.plan.kind == "sweep" or self.recipe.schedule != "constant":
            # The last epoch counts: where the rate falls, the final training goes there as well.
            loss = last_scores(lines)[1].get("loss")
            epoch = lines[-1]["epoch"] if lines else None
        if self.plan.kind == "tune" and loss is None:
            error = error or "its validation loss was never a number"
        return Trial(
            number=self.number,
            parameters=dict(self.suggestion.parameters),
            source=self.suggestion.source,
            status="failed" if error else "pruned" if pruned else "complete",
            loss=None if error else loss,
            epoch=None if error else epoch,
            epochs=len(lines),
            seconds=round(sum(line.get("seconds", 0.0) for line in lines), 3),
            curve=list(lines),
            error=error,
        )


def best_epoch(lines: Lines) -> tuple[float, int] | tuple[None, None]:
    """The lowest validation loss that is a number, and its epoch."""
    found = [
        (line["validation_loss"], line["epoch"])
        for line in lines
        if math.isfinite(line.get("validation_loss", math.nan))
    ]
    return min(found, default=(None, None))


def run_trial(
    task: TrialJob,
    data: Dataset,
    display: Display,
    listen: Callable[[Lines], object] = lambda lines: None,
) -> Trial:
    """Train and record, a failure too; `listen` is told the lines so far after each epoch."""
    plan, run = task.plan, Run(task.path)
    pruned, error = False, ""

    def give_up(lines: Lines) -> bool:
        nonlocal pruned
        listen(lines)
        pruned = task.hopeless(lines)
        return pruned

    try:
        if run.settings_file.exists() and run.read()["status"] == "complete":
            shutil.rmtree(run.path)  # killed before it was recorded: once more, to the same end
        runs, seconds = task.path.parents[2], task.checkpoint_seconds
        how: dict[str, Any] = {"runs": runs, "checkpoint_seconds": seconds}
        job = job_in(run, plan, task.recipe, data, display, **how)
        execute(replace(job, give_up=give_up))
        if plan.kind == "tune":  # nobody uses these weights, and twenty of them take room
            run.model_file.unlink(missing_ok=True)
    except Exception as problem:
        if isinstance(problem, Interrupted | OSError) or isinstance(problem.__cause__, OSError):
            raise  # a full disk is not the fault of the parameters
        error = str(problem) if isinstance(problem, ZooError) else describe(problem)
        Checkpoints(run.checkpoints).clear()
    return task.record(run.metrics(), error, pruned)


def job_in(
    run: Run,
    plan: SearchPlan,
    recipe: Recipe,
    data: Dataset,
    display: Display,
    command: str = "",
    **how: Any,
) -> Job:
    """A job of a search in this directory, new or begun before; `how` is for build_job."""
    begun = run if run.settings_file.exists() else None
    job = build_job(plan.entry, recipe, data, display, device=plan.device, run=begun, **how)
    if begun:
        return job
    name, reference = plan.recipe_name, plan.dataset
    return begin_run(job, run, recipe_name=name, reference=reference, command=command)


@dataclass(frozen=True)
class Work:
    """A search at work: what all that is done for it shares."""

    search: Search
    plan: SearchPlan
    data: Dataset
    display: SearchDisplay
    checkpoint_seconds: float

    @property
    def shown(self) -> Dataset:
        """The test set stays out of a search: it decides nothing, and measuring it takes time."""
        return replace(self.data, test=None) if self.plan.kind == "tune" else self.data


def run_trials(work: Work) -> list[Trial]:
    """All trials that the search has not had yet; each is kept as soon as it has ended."""
    search, plan, display = work.search, work.plan, work.display
    searcher, done = make_searcher(plan), search.trials()
    waiting = [number for number in range(1, plan.trials + 1) if number not in done]
    running: dict[Future[Trial], int] = {}

    def known(number: int) -> Sequence[int]:
        return range(1, number - plan.lag)

    def task_of(number: int) -> TrialJob:
        seen = [done[other] for other in known(number)]
        rivals = tuple(tuple(trial.losses) for trial in seen if trial.loss is not None)
        suggestion, path = searcher.suggest(number, seen), search.trial_run(number).path
        return TrialJob(plan, number, suggestion, rivals, path, work.checkpoint_seconds)

    with open_pool(min(plan.workers, len(waiting)), work.shown, display) as submit:
        while waiting or running:
            while (
                waiting
                and len(running) < plan.workers
                and all(number in done for number in known(waiting[0]))
            ):
                number = waiting.pop(0)
                running[submit(task_of(number))] = number
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
                display.end(trial, done.values())
    return [done[number] for number in sorted(done)]


# What the libraries that compute ask for their number of threads.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_data: Dataset | None = None  # of this worker


@contextmanager
def open_pool(
    count: int, data: Dataset, display: SearchDisplay
) -> Iterator[Callable[[TrialJob], Future[Trial]]]:
    """Give a function that starts a trial: at once and here, or in one of `count` processes."""
    if count < 2:

        def run_here(task: TrialJob) -> Future[Trial]:
            future: Future[Trial] = Future()
            future.set_result(run_trial(task, data, display.of_trial(task.number)))
            return future

        yield run_here
        return
    added = [name for name in THREADS if name not in os.environ]  # a person's own choice stays
    threads = max(1, (os.cpu_count() or 1) // count)
    os.environ.update(dict.fromkeys(added, str(threads)))  # inherited by the workers
    with tempfile.TemporaryDirectory(prefix="zoo-trials-") as folder:
        # Not forked: a process that has threads, as torch has, must not be.
        pool = ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_worker,
            initargs=(share(data, Path(folder)), Path(folder)),
        )
        try:
            yield lambda task: pool.submit(_run_in_worker, task)
        finally:
            pool.shutdown(cancel_futures=True)
            for name in added:
                del os.environ[name]


def share(data: Dataset, folder: Path) -> Dataset:
    """Write the arrays of a dataset into files; the dataset without them, for `mapped`."""

    def kept(split: Split, name: str) -> Split:
        np.save(folder / f"{name}-images.npy", split.images)
        if split.labels is not None:
            np.save(folder / f"{name}-labels.npy", split.labels)
        return Split(split.images[:0], None)

    test = kept(data.test, "test") if data.test else None
    return replace(data, train=kept(data.train, "train"), test=test)


def mapped(data: Dataset, folder: Path) -> Dataset:
    """The dataset again; of its arrays the system keeps one copy for all processes."""

    def read(name: str) -> Any:
        path = folder / f"{name}.npy"
        # "c": private if written to, which nobody does, and so torch takes it without a warning.
        return np.load(path, mmap_mode="c") if path.exists() else None

    def split(name: str) -> Split:
        return Split(read(f"{name}-images"), read(f"{name}-labels"))

    test = None if data.test is None else split("test")
    return replace(data, train=split("train"), test=test)


def _start_worker(shared: Dataset, folder: Path) -> None:
    """A search that is killed takes its workers with it; their trials are resumed with it."""
    global _data
    _data = mapped(shared, folder)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent(sentinel: int) -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, args=(parent.sentinel,), daemon=True).start()


def _run_in_worker(task: TrialJob) -> Trial:
    assert _data is not None
    return run_trial(task, _data, Display(quiet=True))
