"""From a request to a finished search, or a sweep; and the training of the best on everything."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zoo_core.data.dataset import Dataset
from zoo_core.data.datasets import open_dataset
from zoo_core.io.errors import Interrupted, TrainingError, UsageError, ZooError
from zoo_core.io.process import process
from zoo_core.io.targets import describe
from zoo_core.report.write import write_report
from zoo_core.runs.run import Run, new_run, runs_root
from zoo_core.runs.summary import final_scores
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import registry
from zoo_core.spec.settings import override
from zoo_core.train import runner
from zoo_core.train.builder import begin_run, build_job, environment, lasting
from zoo_core.train.display import Display, open_display
from zoo_core.tune.plan import SearchPlan, axes_of, sweep_plan, tune_plan
from zoo_core.tune.report import SearchDisplay, best_trial, write_recipe, write_search_report
from zoo_core.tune.search import Search, find_search, new_search
from zoo_core.tune.searcher import Searcher, Trial, make_searcher
from zoo_core.tune.space import Axis, as_settings, axis_texts, recipe_values
from zoo_core.tune.trials import run_trials, shared_data

FEW = 5_000  # pictures: of fewer a trial sees all, because a part would be too few to judge by
FEW_JUDGES = 50  # pictures of a validation split that deserve a warning


@dataclass(frozen=True)
class SearchResult:
    """A finished search or sweep, for Python."""

    search: Search
    trials: list[Trial]
    best: Trial
    recipe: Recipe  # of the best: what best.toml says
    report: Path | None
    trained: runner.Result | None = None  # where it was asked for

    @property
    def path(self) -> Path:
        return self.search.path


def tune(
    model: str,
    dataset: str = "",
    *,
    space: Mapping[str, Any] | Iterable[str] = (),
    quiet: bool = False,
    runs: Path | None = None,
    checkpoint_seconds: float = 30.0,
    command: str = "",
    **asked: Any,
) -> SearchResult:
    """Search the settings that train a model best; `asked` is what tune_plan takes."""
    entry = registry().models.get(model)
    reference = lasting(dataset or entry.dataset)
    plan = tune_plan(entry, reference, space=axis_texts(space), **asked)
    decided = plan.preset != "default" or "subset" in (asked.get("settings") or {})
    return _begin(plan, entry, quiet, runs, checkpoint_seconds, command, decided)


def sweep(
    model: str,
    dataset: str = "",
    *,
    grid: Mapping[str, Any] | Iterable[str],
    quiet: bool = False,
    runs: Path | None = None,
    checkpoint_seconds: float = 30.0,
    command: str = "",
    **asked: Any,
) -> SearchResult:
    """Train a model with every combination of some settings; `asked` is what sweep_plan takes."""
    entry = registry().models.get(model)
    reference = lasting(dataset or entry.dataset)
    plan = sweep_plan(entry, reference, grid=axis_texts(grid), **asked)
    return _begin(plan, entry, quiet, runs, checkpoint_seconds, command)


def resume(
    reference: str,
    kind: str = "tune",
    *,
    train: bool = False,
    quiet: bool = False,
    runs: Path | None = None,
    checkpoint_seconds: float = 30.0,
) -> SearchResult:
    """Go on with a search that was interrupted or killed, with the same suggestions."""
    search = find_search(reference, runs, kind)
    plan = search.plan()
    if train and not plan.train:
        plan = replace(plan, train=True)
        search.update(plan=plan.to_dict())
    entry = registry().models.get(plan.model)
    display = SearchDisplay(plan, quiet)
    data = open_dataset(plan.dataset, report=display.say, **plan.recipe.data)
    document = search.read()
    if data.digest != document["dataset"]["digest"]:
        raise ZooError(
            f"dataset {data.name} is no longer the one that {search.name} was started with",
            "start a new search, or bring the old pictures back",
        )
    searcher, about = _check(plan, entry, data, search.path.parent)
    for name, now in about["environment"].items():
        if (before := document["environment"].get(name)) != now:
            display.warn(f"{name} was {before} and is now {now}: the result may differ")
    return _work(search, plan, entry, searcher, data, display, checkpoint_seconds)


def _begin(
    plan: SearchPlan,
    entry: ModelEntry,
    quiet: bool,
    runs: Path | None,
    seconds: float,
    command: str,
    subset_is_decided: bool = True,
) -> SearchResult:
    display = SearchDisplay(plan, quiet)
    data = open_dataset(plan.dataset, report=display.say, **plan.recipe.data)
    if not subset_is_decided and len(data.train) < FEW:
        plan = replace(plan, recipe=replace(plan.recipe, subset=1.0))
    searcher, about = _check(plan, entry, data, runs)
    judges = about["dataset"]["validation"]
    if plan.kind == "tune" and judges < FEW_JUDGES:
        display.warn(f"only {judges} pictures decide between the trials: much of that is luck")
    about |= {"created": datetime.now(UTC).isoformat(timespec="seconds"), "command": command}
    search = new_search(runs_root(runs), plan, data.name, about)
    display.say(f"{search.path}")
    return _work(search, plan, entry, searcher, data, display, seconds)


def _check(
    plan: SearchPlan, entry: ModelEntry, data: Dataset, runs: Path | None
) -> tuple[Searcher, dict[str, Any]]:
    """Whatever is wrong with any end of the space is said here, before a directory is made."""
    if process()[1] > 1:
        raise UsageError(
            "a search is started by one process, not by torchrun", "use --workers for several"
        )
    axes, guess = _space(plan, entry)
    searcher = make_searcher(plan.searcher, axes, plan.recipe.seed, plan.startup, guess)
    quiet = Display(quiet=True)
    shown = shared_data(plan, data)
    first = searcher.suggest(1, []).parameters
    for changes in ({}, *({axis.name: end} for axis in axes for end in axis.ends)):
        recipe = override(plan.recipe, as_settings({**first, **changes}))
        job = build_job(entry, recipe, shown, quiet, device=plan.device, runs=runs)
    if plan.engine == "ray":
        from zoo_core.tune.ray_engine import connect

        connect(plan)
    about = {
        "dataset": {"name": data.name, "digest": data.digest, "classes": len(data.classes),
                    "train": len(job.parts[0]), "validation": len(job.parts[1])},
        "environment": environment(job.trainer, entry, plan.device),
    }  # fmt: skip
    return searcher, about


def _space(
    plan: SearchPlan, entry: ModelEntry
) -> tuple[tuple[Axis, ...], Mapping[str, Any] | None]:
    """The axes, and where the plan wants it the recipe's own place on them."""
    axes = axes_of(plan, entry)
    return axes, recipe_values(axes, entry, plan.recipe) if plan.guess else None


def _work(
    search: Search,
    plan: SearchPlan,
    entry: ModelEntry,
    searcher: Searcher,
    data: Dataset,
    display: SearchDisplay,
    seconds: float,
) -> SearchResult:
    shown = shared_data(plan, data)
    with search.locked(), _resumable(search, plan):
        search.update(status="running")
        _make_ready(plan, entry, data if plan.train else shown, display, search.path.parent)
        if plan.engine == "ray":
            from zoo_core.tune.ray_engine import run_on_ray

            trials = run_on_ray(search, plan, *_space(plan, entry), shown, display)
        else:
            trials = run_trials(search, plan, searcher, shown, display, seconds)
        best = best_trial(plan, trials)
        if best is None:
            search.update(status="failed")
            raise TrainingError(
                f"all {len(trials)} trials failed; the first one: {trials[0].error}",
                f"each of them is a line of {search.trials_file}",
            )
        recipe = best_recipe(plan, best)
        write_recipe(search, plan, recipe, best)
        trained = None
        if plan.train:
            trained = _train_best(search, plan, entry, recipe, data, display, seconds)
        metrics = trained.metrics if trained else {}
        result = {name: metrics[name] for name in ("accuracy", "loss") if name in metrics}
        search.update(status="complete", best=best.number, result=result)
    return SearchResult(search, trials, best, recipe, _report(search, display), trained)


def _make_ready(
    plan: SearchPlan, entry: ModelEntry, data: Dataset, display: SearchDisplay, runs: Path
) -> None:
    """What the trials share, features of a frozen backbone say, is made before the first one."""
    shown = open_display(display.quiet)
    job = build_job(entry, plan.recipe, data, shown, device=plan.device, runs=runs)
    job.trainer.prepare(job)


def _report(search: Search, display: SearchDisplay) -> Path | None:
    """The report is the last thing: whatever goes wrong with it, the search is complete."""
    try:
        return write_search_report(search)
    except Exception as error:
        display.warn(f"the report could not be written: {describe(error)}")
        return None


@contextmanager
def _resumable(search: Search, plan: SearchPlan) -> Iterator[None]:
    """An interruption says how to go on with the search, not with one of its runs."""
    hint = f"zoo {plan.kind} --resume {search.path}"
    try:
        yield
    except Interrupted as error:
        search.update(status="interrupted")
        raise Interrupted(str(error), hint, error.exit_code - 128) from error
    except KeyboardInterrupt as error:
        search.update(status="interrupted")
        raise Interrupted("stopped between two steps", hint) from error


def best_recipe(plan: SearchPlan, best: Trial) -> Recipe:
    """The recipe to train with: on everything, and as long as the best trial needed."""
    settings = as_settings(best.parameters)
    if plan.kind == "tune":
        settings |= {"subset": 1.0, "validation_fraction": 0.0, "patience": 0,
                     "restore_best": False}  # fmt: skip
        trial = override(plan.recipe, as_settings(best.parameters))
        if trial.schedule == "constant":  # otherwise the schedule belongs to its epochs
            settings["epochs"] = max(best.epoch or 1, math.ceil(trial.warmup))
    return override(plan.recipe, settings)


def _train_best(
    search: Search,
    plan: SearchPlan,
    entry: ModelEntry,
    recipe: Recipe,
    data: Dataset,
    display: SearchDisplay,
    seconds: float,
) -> runner.Result:
    """A run of its own, beside the search; a resume of the search finds it again."""
    name = search.read().get("trained")
    run = Run(search.path.parent / name) if name else None
    if run and run.settings_file.exists() and (document := run.read())["status"] == "complete":
        page = run.path / "report.md"
        _, scores = final_scores(document["result"], [])
        return runner.Result(
            run, scores, document["result"]["seconds"], page if page.exists() else None
        )
    shown, root = open_display(display.quiet), search.path.parent
    begun = run if run and run.settings_file.exists() else None
    job = build_job(
        entry, recipe, data, shown, device=plan.device, runs=root, checkpoint_seconds=seconds,
        run=begun,
    )  # fmt: skip
    run = begun or new_run(root, entry.name, data.name)
    if not begun:
        command = f"zoo train --config {search.name}/best.toml"
        job = begin_run(
            job, run, recipe_name=plan.recipe_name, reference=plan.dataset, command=command
        )
        search.update(trained=run.name)
    display.say(f"Training the best on everything: {run.path}")
    return runner.execute(job, write_report)
