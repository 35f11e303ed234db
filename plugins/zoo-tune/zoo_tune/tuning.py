"""From a request to a finished search or sweep, and the training of the best on everything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import Dataset, Interrupted, Recipe, Result, TrainingError, UsageError
from zoo.kit import (
    Display,
    Displayed,
    Run,
    build_job,
    check_same,
    choose_recipe,
    completed,
    describe,
    environment,
    execute,
    follow_data,
    honoured,
    new_run,
    open_data,
    open_display,
    override,
    process,
    registry,
    runs_root,
    signal_of,
    spare_tests,
    trainer_of,
    typed,
    write_report,
)
from zoo_tune.report import (
    SearchDisplay,
    best_trial,
    settings_text,
    write_recipe,
    write_search_report,
)
from zoo_tune.search import CIRCUMSTANCES, Search, SearchPlan, SearchSettings, Trial, decide
from zoo_tune.searcher import make_searcher
from zoo_tune.space import as_settings
from zoo_tune.trials import Work, job_in, run_trials

if TYPE_CHECKING:
    from zoo.kit import Answer

FEW = 5_000  # images: of fewer a trial sees all, because a part would be too few to judge by
FEW_JUDGES = 50  # images of a validation split that deserve a warning


@dataclass(frozen=True, repr=False)
class SearchResult(Displayed):
    """A finished search or sweep, for Python."""

    search: Search
    trials: list[Trial]
    best: Trial | None  # None: nothing was chosen, see docs/search.md
    recipe: Recipe | None  # of the best: what best.toml says
    report: Path | None
    trained: Result | None = None  # where it was asked for

    _html = "zoo_tune.report:result_html"

    def __repr__(self) -> str:
        told = f"SearchResult({self.path}: {len(self.trials)} trials"
        if self.best is None:
            return f"{told})"
        loss = "" if self.best.loss is None else f", loss {self.best.loss:.4f}"
        return f"{told}, best: {settings_text(self.best.parameters)}{loss})"

    @property
    def path(self) -> Path:
        return self.search.path

    def answer(self) -> Answer:
        """What a command answers."""
        from zoo_tune.answer import answer

        return answer(self)


def tune_and_train(
    model: str, dataset: str, recipe: str, settings: Mapping[str, Any], **how: Any
) -> Result:
    """Search the learning rate, then train with it; what is set holds for the training too."""
    entry = registry().models.get(model)
    name = recipe or trainer_of(entry).default_recipe(entry, settings)
    wanted = override(choose_recipe(entry, name), settings)
    if settings.keys() & {"patience", "restore_best"}:
        settings = {"validation_fraction": wanted.validation_fraction, **settings}
    asked = SearchSettings(
        model=model, dataset=dataset, recipe=recipe, settings=settings, train=True,
        kept=tuple(settings), **how,
    )  # fmt: skip
    result = run_search(asked).trained
    assert result is not None
    return result


def search(
    *, kind: str, runs: str | Path | None = None, storage: str | Path = "", command: str = "",
    **asked: Any,
) -> SearchResult:  # fmt: skip
    """Start a search or a sweep, or go on with one: what `zoo.tune` and `zoo.sweep` call.

    asked: fields of SearchSettings.
    """
    asked |= {"storage": str(Path(storage).absolute()) if storage else ""}
    asked |= {"command": command or f"zoo.{kind}(...)", "runs": Path(runs) if runs else None}
    return run_search(SearchSettings(kind=kind, **asked))


def run_search(asked: SearchSettings) -> SearchResult:
    """Start a search or a sweep, or go on with one, and work until it is complete."""
    if process()[1] > 1:
        raise UsageError(
            "a search is started by one process, not by torchrun", "use --workers for several"
        )
    with ExitStack() as held:
        return _work_off(_begin(asked, held), asked.report)


def _work_off(work: Work, wants_report: bool) -> SearchResult:
    search, plan = work.search, work.plan
    if not work.finished:
        search.update(status="running")
    try:
        trials = _try_out(work)
        best = best_trial(plan, trials)
        if all(trial.status == "failed" for trial in trials):
            search.update(status="failed")
            what = f"all {len(trials)} trials failed; the first one: {trials[0].error}"
            raise TrainingError(what, f"{search.trials_file} has a line for each")
        recipe = best_recipe(plan, best) if best else None
        if recipe and plan.kind == "tune":
            given, say = plan.kept, work.display.say if plan.train else lambda _: None
            recipe = spare_tests(plan.entry, recipe, given, work.data, say)
        if best and recipe and not work.finished:
            write_recipe(search, plan, recipe, best)
        trained = _train_best(work, recipe, wants_report) if recipe and plan.train else None
    except (Interrupted, KeyboardInterrupt) as error:
        # It says how to go on with the search, not with one of its runs.
        if not work.finished:
            search.update(status="interrupted")
        hint = typed(f"zoo {plan.kind} --resume", search.path)
        ended = len(search.trials())
        when = f"{ended} of {plan.trials} trials" if ended < plan.trials else "its last trial"
        what = f"the {'search' if plan.kind == 'tune' else 'sweep'} was stopped after {when}"
        raise Interrupted(f"{what}, and saved", hint, signal_of(error)) from error
    if not work.finished:
        scores = trained.metrics if trained else {}
        result = {name: scores[name] for name in ("accuracy", "loss") if name in scores}
        search.update(status="complete", best=best and best.number, result=result)
    report = None
    try:
        report = write_search_report(search).path if wants_report else None
    except Exception as error:  # whatever goes wrong with it, the search is complete
        work.display.warn(f"the report could not be written: {describe(error)}")
    return SearchResult(search, trials, best, recipe, report, trained)


def _begin(asked: SearchSettings, held: ExitStack) -> Work:
    """A new search, or one to go on with; what is wrong is said before a directory is made.

    held: keeps the lock of its directory.
    """
    search, finished, begun = None, False, False
    if asked.resume:
        search = Search.find(asked.resume, asked.runs, asked.kind)
    elif asked.name:
        search = Search.named(runs_root(asked.runs), asked.name)
        held.callback(search.forget)
    if search:
        held.enter_context(search.locked())
        begun = search.settings_file.exists()
    wanted = None if asked.resume else decide(asked)
    if search and begun:
        plan, root = search.plan(), search.path.parent
        if plan.kind != asked.kind:
            hint = typed(f"zoo {plan.kind} --resume", search.path)
            raise UsageError(f"{search.path} is a {plan.kind}", hint)
        if wanted:
            search.refuse_others(wanted.asked(), plan.kind)
            plan = replace(plan, **{name: getattr(wanted, name) for name in CIRCUMSTANCES})
        more = replace(plan, train=plan.train or asked.train)
        finished, plan = search.read()["status"] == "complete" and more == plan, more
    else:
        assert wanted is not None
        plan, root = wanted, runs_root(asked.runs)
    display, engine = SearchDisplay(plan, asked.quiet), plan.make_engine()
    engine.check()
    data, recipe = open_data(plan.entry, plan.recipe, plan.dataset, display.say)
    plan = replace(plan, recipe=recipe)
    if search and begun:
        if finished:
            display.say(f"{search.path} is complete; there is nothing to resume.")
        check_same(search, search.read(), data, plan.entry, plan.device, display)
        _check(plan, data, root, display)
        if not finished:
            search.update(plan=plan.to_dict())
    else:
        open_subset = plan.preset == "default" and "subset" not in asked.settings
        fixed: dict[str, Any] = {"data": recipe.data, "preprocess": recipe.preprocess}
        if open_subset and len(data.train) < FEW:
            fixed["subset"] = 1.0
        recipe, given = override(plan.recipe, fixed), _given(asked, plan)
        said: list[str] = []
        if other := follow_data(plan.entry, recipe, given, data, said.append):
            plan = decide(replace(asked, recipe=other))
            recipe = override(plan.recipe, fixed)
        if plan.kind == "sweep":
            recipe = spare_tests(plan.entry, recipe, given, data, said.append)
        if recipe.precision == "auto":  # for all trials
            tried = build_job(plan.entry, recipe, data, Display(quiet=True), device=plan.device)
            recipe = replace(recipe, precision=tried.recipe.precision)
        plan = replace(plan, recipe=recipe)
        about = _check(plan, data, root, display)
        judges = about["dataset"]["validation"]
        if plan.kind == "tune" and judges < FEW_JUDGES:
            display.warn(f"only {judges} validation images: the best trial may be best by chance")
        about["created"] = datetime.now(UTC).isoformat(timespec="seconds")
        if search is None:
            made = new_run(root, f"{plan.kind}-{plan.entry.name}", data.name)
            search = Search(held.enter_context(made).path)
        about |= {"command": asked.command, "asked": wanted.asked() if wanted else {}}
        search.begin(plan, about)
        display.say("\n".join([f"{search.path}", *said]))
    return Work(search, plan, data, display, engine, asked.checkpoint_seconds, finished)


def _given(asked: SearchSettings, plan: SearchPlan) -> set[str]:
    """The fields that a person has set or searches; `recipe` where that is named or published."""
    searched = [axis.name for axis in plan.axes] if asked.space else []
    named = ["recipe"] if asked.recipe or plan.preset == "paper" else []
    return {*asked.settings, *searched, *named}


def _check(plan: SearchPlan, data: Dataset, runs: Path, display: Display) -> dict[str, Any]:
    """Try every end of the space, without training; what search.json says of data and machine.

    What the models need, weights of a backbone say, is fetched here, where a person sees it.
    """
    first = make_searcher(plan).suggest(1, []).parameters
    for changes in ({}, *({axis.name: end} for axis in plan.axes for end in axis.ends)):
        recipe = plan.tried({**first, **changes})
        shown = Display(quiet=True) if changes else display
        job = build_job(plan.entry, recipe, data, shown, device=plan.device, runs=runs)
    return {
        "dataset": {"name": data.name, "digest": data.digest, "classes": len(data.classes),
                    "train": len(job.parts[0]), "validation": len(job.parts[1])},
        "environment": environment(plan.entry, plan.device),
    }  # fmt: skip


def _try_out(work: Work) -> list[Trial]:
    """All trials. What they share, features of a frozen backbone say, is made before the first."""
    plan, data = work.plan, work.data if work.plan.train else work.shown
    quiet, runs = Display(quiet=True), work.search.path.parent  # _check said what there is to say
    job = build_job(plan.entry, plan.tried({}), data, quiet, device=plan.device, runs=runs)
    job.trainer.prepare(replace(job, display=open_display(work.display.quiet)))
    try:
        return run_trials(work)
    finally:
        work.display.stop()


def best_recipe(plan: SearchPlan, best: Trial) -> Recipe:
    """The recipe to train with: on everything, and as long as the best trial needed."""
    recipe = override(plan.recipe, as_settings(best.parameters))
    if plan.kind == "sweep":
        return recipe
    epochs = recipe.epochs
    counted = "epochs" in honoured(trainer_of(plan.entry))
    if counted and recipe.schedule == "constant":  # else the schedule belongs to its epochs
        epochs = max(best.epoch or 1, math.ceil(recipe.warmup))
    whole: dict[str, Any] = {"epochs": epochs, "subset": 1.0, "validation_fraction": 0.0}
    whole |= {"patience": 0, "restore_best": False}
    return replace(recipe, **{k: v for k, v in whole.items() if k not in plan.kept})


def _train_best(work: Work, recipe: Recipe, report: bool) -> Result:
    """A run of its own, beside the search; a resume of the search finds it again."""
    search, plan, data, root = work.search, work.plan, work.data, work.search.path.parent
    with ExitStack() as held:
        if name := search.read().get("trained"):
            run = Run(root / name)
            run.path.mkdir(exist_ok=True)  # killed before it began, it may have been cleaned away
            if done := completed(run):
                return done
            held.enter_context(run.locked())
        else:
            run = held.enter_context(new_run(root, plan.entry.name, data.name))
            search.update(trained=run.name)
        if done := completed(run):
            return done
        on = f"{recipe.subset:g} of the training set" if recipe.subset < 1 else "everything"
        work.display.say(f"Training the best on {on}: {run.path}")
        job = job_in(
            run, plan, recipe, data, open_display(work.display.quiet), runs=root,
            command=typed("zoo train --config", search.best_file),
            checkpoint_seconds=work.checkpoint_seconds,
        )  # fmt: skip
        return execute(job, write_report if report else None)
