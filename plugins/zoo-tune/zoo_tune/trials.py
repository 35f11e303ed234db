"""Works through the trials of a search: each an ordinary run in a directory of its own.

An engine says where they run: here one by one, in other processes, on other machines.
"""

from __future__ import annotations

import math
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from zoo import (
    Dataset,
    Engine,
    Interrupted,
    Job,
    Piece,
    Recipe,
    Resources,
    Split,
    TrainingError,
    WorkerDied,
    ZooError,
)
from zoo.kit import (
    Checkpoints,
    Display,
    Run,
    Stopping,
    begin_run,
    build_job,
    completed,
    describe,
    execute,
    temporary_folder,
    typed,
)
from zoo_tune.report import SearchDisplay
from zoo_tune.search import Lines, Search, SearchPlan, Trial, last_scores, validation_losses
from zoo_tune.searcher import Suggestion, make_searcher

Arrays = Mapping[str, np.ndarray]
Losses = Sequence[float]  # after each epoch
Report = Callable[[Mapping[str, Any]], None]

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


def above_the_median(losses: Losses, rivals: Sequence[Losses], epochs: int) -> bool:
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
    search: Path
    data: Dataset  # without its arrays, which the engine brings
    checkpoint_seconds: float
    display: Display | None = None  # where the trial runs in the process of the search
    warns: bool = True  # where it does not

    @cached_property
    def recipe(self) -> Recipe:
        return self.plan.tried(self.suggestion.parameters)

    def hopeless(self, lines: Lines) -> bool:
        """Whether pruning ends it after these epochs."""
        losses, epochs = validation_losses(lines), self.recipe.epochs
        planned = math.ceil(epochs / (self.recipe.evaluate_every or epochs))  # measurements
        if not self.plan.prune or len(losses) >= planned:  # after the last one it ends by itself
            return False
        if self.recipe.schedule == "constant":
            return cannot_catch_up(losses, self.rivals)
        return above_the_median(losses, self.rivals, planned)

    def pruned(self, lines: Lines) -> bool:
        """Whether a run with these lines was ended by pruning, and not by its patience."""
        stopping = Stopping()
        for line in lines:
            if "validation_loss" in line:
                stopping.saw(line["epoch"], line["validation_loss"], self.recipe.patience)
        return not stopping.stopped and self.hopeless(lines)

    def record(self, lines: Lines, error: str) -> Trial:
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
            status="failed" if error else "pruned" if self.pruned(lines) else "complete",
            loss=None if error else loss,
            epoch=None if error else epoch,
            epochs=len(lines),
            seconds=round(sum(line.get("seconds", 0.0) for line in lines), 3),
            curve=list(lines),
            error=error,
        )


def best_epoch(lines: Lines) -> tuple[float, int] | tuple[None, None]:
    """The lowest validation loss that is a number, and its epoch."""
    found = ((line.get("validation_loss", math.nan), line["epoch"]) for line in lines)
    return min((pair for pair in found if math.isfinite(pair[0])), default=(None, None))


def run_trial(task: TrialJob, arrays: Arrays, report: Report) -> Trial:
    """Train and record, a failure too; what an engine runs. Reports the line of each epoch."""
    search, plan, data = Search(task.search), task.plan, with_arrays(task.data, arrays)
    place = f"trials/{task.number:03d}"
    if plan.storage:
        if not (storage := Path(plan.storage)).is_dir():
            what = f"{storage} is not a folder on {platform.node()}"
            raise ZooError(what, "make it, on a disk that all machines share: --storage FOLDER")
        return _run_in(Run(storage / search.name / place), task, data, report)
    if search.settings_file.exists():
        return _run_in(Run(search.path / place), task, data, report)
    if plan.kind == "sweep":
        raise ZooError(
            f"{search.path} is not on the disk of {platform.node()}",
            "keep the runs of a sweep on a disk that all machines share: --storage FOLDER",
        )
    with temporary_folder() as folder:  # another machine
        return _run_in(Run(folder / search.name / place), task, data, report)


def _run_in(run: Run, task: TrialJob, data: Dataset, report: Report) -> Trial:
    plan, display = task.plan, task.display or Display(quiet=True, warns=task.warns)
    error = ""

    def give_up(lines: Lines) -> bool:
        if lines:  # a run asks before its first epoch too
            report(lines[-1])
        return task.hopeless(lines)

    run.path.mkdir(parents=True, exist_ok=True)
    # Nobody else works on this search, but a worker that was given up may not have ended yet.
    with run.locked(waiting=lambda: None):
        try:
            if not completed(run):  # else it was killed before it was recorded
                runs, seconds = task.search.parent, task.checkpoint_seconds
                how: dict[str, Any] = {"runs": runs, "checkpoint_seconds": seconds}
                job = job_in(run, plan, task.recipe, data, display, **how)
                # Nobody predicts with a trial of a search: it needs no temperature.
                execute(replace(job, give_up=give_up), calibrates=plan.kind == "sweep")
            Checkpoints(run.checkpoints).clear()
            if plan.kind == "tune":  # nobody uses these weights, and twenty of them take room
                run.model_file.unlink(missing_ok=True)
        except Exception as problem:
            if isinstance(problem, Interrupted | OSError) or isinstance(problem.__cause__, OSError):
                raise  # a full disk is not the fault of the parameters
            error = str(problem) if isinstance(problem, ZooError) else describe(problem)
            Checkpoints(run.checkpoints).clear()
        return task.record(run.metrics(), error)


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
    return begin_run(job, run, recipe_name=plan.recipe_name, command=command)


@dataclass(frozen=True)
class Work:
    """A search at work: what all that is done for it shares."""

    search: Search
    plan: SearchPlan
    data: Dataset
    display: SearchDisplay
    engine: Engine
    checkpoint_seconds: float
    finished: bool = False  # complete before: nothing of it is written any more

    @property
    def shown(self) -> Dataset:
        """The test set stays out of a search: it decides nothing, and measuring it takes time."""
        return replace(self.data, test=None) if self.plan.kind == "tune" else self.data


def run_trials(work: Work) -> list[Trial]:
    """All trials that the search has not had yet; each is kept as soon as it has ended."""
    search, plan, display, engine = work.search, work.plan, work.display, work.engine
    searcher, done = make_searcher(plan), search.trials()
    waiting = [number for number in range(1, plan.trials + 1) if number not in done]
    data, arrays = without_arrays(work.shown)

    def pull() -> Piece | None:
        """The next trial, as soon as the ones that it depends on have ended."""
        known = range(1, waiting[0] - plan.lag) if waiting else ()
        if not waiting or not all(number in done for number in known):
            return None
        number, seen = waiting.pop(0), [done[other] for other in known]
        rivals = tuple(tuple(trial.losses) for trial in seen if trial.loss is not None)
        shown = display.of_trial(number) if engine.inline else None
        suggestion, seconds = searcher.suggest(number, seen), work.checkpoint_seconds
        path = search.path.absolute()  # another process may work in another folder
        task = TrialJob(plan, number, suggestion, rivals, path, data, seconds, shown, display.warns)
        resources = Resources.of(plan.resources)
        return Piece(number, "zoo_tune.trials:run_trial", task, resources, plan.retries)

    for outcome in engine.run(pull, arrays, display.told):
        if isinstance(outcome.value, WorkerDied):
            again = typed(f"zoo {plan.kind} --resume", search.path)
            hint = f"{again} goes on; fewer workers need less"
            raise TrainingError(str(outcome.value), hint) from outcome.value
        if outcome.state == "failed":
            raise outcome.value  # what is not the fault of the parameters: see run_trial
        trial = done[outcome.value.number] = outcome.value
        search.append(trial)
        display.end(trial, done.values())
    return [done[number] for number in sorted(done)]


def without_arrays(data: Dataset) -> tuple[Dataset, Arrays]:
    """A dataset that can be sent, and its arrays, which an engine brings to all its workers.

    Images that are not in memory stay in the dataset: workers read the same files.
    """
    bare: dict[str, Any] = {"test": None}
    arrays: dict[str, Any] = {}
    for name, split in (("train", data.train), ("test", data.test)):
        if split:
            arrays[f"{name}_labels"] = split.labels
            bare[name] = Split(split.images, None)
            if split.store == "memory":
                arrays[f"{name}_images"] = split.images
                bare[name] = Split(split.images[:0], None)
    return replace(data, **bare), {name: a for name, a in arrays.items() if a is not None}


def with_arrays(data: Dataset, arrays: Arrays) -> Dataset:
    """The dataset of without_arrays again."""

    def split(name: str, bare: Split) -> Split:
        return Split(arrays.get(f"{name}_images", bare.images), arrays.get(f"{name}_labels"))

    test = split("test", data.test) if data.test is not None else None
    return replace(data, train=split("train", data.train), test=test)
