"""Runs one trial: an ordinary training run, in a directory of its own inside the search's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from zoo_core.data.arrays import Dataset
from zoo_core.errors import Interrupted, ZooError
from zoo_core.registry import registry
from zoo_core.targets import describe
from zoo_core.train import training
from zoo_core.train.checkpoint import Checkpoints
from zoo_core.train.display import Display
from zoo_core.train.document import describe_run
from zoo_core.train.run import Run
from zoo_core.train.settings import override
from zoo_core.tune.plan import Plan
from zoo_core.tune.pruning import below_the_median, cannot_catch_up
from zoo_core.tune.searcher import Suggestion
from zoo_core.tune.space import as_settings
from zoo_core.tune.trial import Trial, best_epoch, validation_losses
from zoo_core.types import Recipe

Lines = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Task:
    """A trial to run, and all that it depends on; it can be sent to another process."""

    plan: Plan
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
    task: Task,
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
        job, trainer = training.prepare(
            entry, task.recipe, data, display, plan.device, task.runs, task.checkpoint_seconds
        )
        begun = run.settings_file.exists()
        if not begun:
            run.path.mkdir(parents=True, exist_ok=True)
            document = describe_run(job, trainer, plan.recipe_name, plan.dataset, "")
            run.write({"name": run.name, **document})
        job = replace(job, run=run, resume_from=run if begun else None, give_up=give_up)
        training.execute(job, trainer, report=False)
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


def hopeless(task: Task, losses: Sequence[float]) -> bool:
    epochs = task.recipe.epochs
    if len(losses) >= epochs:  # it has ended by itself
        return False
    if task.recipe.schedule == "constant":
        return cannot_catch_up(losses, task.rivals)
    return below_the_median(losses, task.rivals, epochs)


def record(task: Task, lines: Lines, error: str, pruned: bool) -> Trial:
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


def shared_data(plan: Plan, data: Dataset) -> Dataset:
    """The test set stays out of a search: it decides nothing, and measuring it takes time."""
    return replace(data, test=None) if plan.kind == "tune" else data
