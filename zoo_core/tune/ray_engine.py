"""The trials of a search on Ray Tune, on this machine or a cluster; nothing else imports ray.
HyperOptSearch suggests parameters; pruning and the lines of trials.jsonl are those of every search.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo_core.data.dataset import Dataset
from zoo_core.io.errors import OptionError, ZooError
from zoo_core.io.targets import describe, missing_dependency
from zoo_core.train.display import Display
from zoo_core.tune.search import Lines, SearchPlan, Trial
from zoo_core.tune.searcher import Hyperopt, Suggestion, first_guess, hyperopt_space
from zoo_core.tune.trials import TrialJob, Work, best_epoch, run_trial

SECONDS = 10  # that a cluster has to answer
_ours = False  # whether the connection to Ray was made here, and so is ended here


def run_on_ray(work: Work) -> list[Trial]:
    """All trials that the search has not had yet."""
    global _ours
    import ray
    from ray import tune
    from ray.tune.schedulers import FIFOScheduler
    from ray.tune.search.hyperopt import HyperOptSearch

    search, plan = work.search, work.plan
    done = search.trials()
    guess = first_guess(plan)
    searcher = HyperOptSearch(
        hyperopt_space(plan.axes), metric="loss", mode="min", random_state_seed=plan.recipe.seed,
        n_initial_points=plan.startup if plan.searcher == "tpe" else plan.trials,
        points_to_evaluate=[guess] if guess and not done else None,
    )  # fmt: skip
    if done:  # a resumed search: Ray has no public way to tell it of trials that it did not run
        known = [*map(Hyperopt(plan).document, done.values())]
        searcher._hpopt_trials.insert_trial_docs(known)
        searcher._hpopt_trials.refresh()
    free = [number for number in range(1, plan.trials + 1) if number not in done]
    names: dict[str, int] = {}  # Ray's name of a trial -> our number
    lines: dict[str, list[Mapping[str, Any]]] = defaultdict(list)

    def task_of(trial: Any) -> TrialJob:
        number = names[trial.trial_id]
        learns = plan.searcher == "tpe" and number > plan.startup
        source = "recipe" if number == 1 and guess is not None else "tpe" if learns else "random"
        rivals = tuple(tuple(t.losses) for t in done.values() if t.loss is not None)
        path = search.trial_run(number).path
        return TrialJob(plan, number, suggested(plan, source, trial.config), rivals, path)

    def keep(trial: Any, error: str = "", pruned: bool = False) -> None:
        if names[trial.trial_id] in done:  # a trial that was stopped completes once more
            return
        kept = task_of(trial).record(lines[trial.trial_id], error, pruned)
        done[kept.number] = kept
        search.append(kept)
        work.display.end(kept, done.values())

    class Ours(FIFOScheduler):  # type: ignore[misc, unused-ignore]  # Any without Ray
        """First come, first served; told of every epoch, it keeps the lines and may say stop."""

        def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
            names[trial.trial_id] = free.pop(0)

        def on_trial_result(self, tune_controller: Any, trial: Any, result: Any) -> str:
            if line := result.get("line"):
                lines[trial.trial_id].append(json.loads(line))
                if task_of(trial).hopeless(lines[trial.trial_id]):
                    keep(trial, pruned=True)
                    return str(self.STOP)
            return str(self.CONTINUE)

        def on_trial_complete(self, tune_controller: Any, trial: Any, result: Any) -> None:
            keep(trial, error=result.get("error") or "")

        def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
            keep(trial, error="its worker died; Ray's logs say why")

    connect(plan)
    try:
        with tempfile.TemporaryDirectory(prefix="zoo-ray-") as storage:
            tuner = tune.Tuner(
                tune.with_parameters(trainable, plan=plan, data=work.shown),
                tune_config=tune.TuneConfig(
                    search_alg=searcher,
                    scheduler=Ours(),  # type: ignore[no-untyped-call, unused-ignore]
                    metric="loss",
                    mode="min",
                    num_samples=len(free),
                    max_concurrent_trials=plan.workers,
                    reuse_actors=True,  # so that a worker imports the framework once
                ),
                run_config=tune.RunConfig(name=search.name, storage_path=storage, verbose=0),
            )
            if free:
                tuner.fit()
    finally:
        if _ours:
            ray.shutdown()
            _ours = False
    return [done[number] for number in sorted(done)]


def connect(plan: SearchPlan) -> None:
    """To a Ray of our own with as many workers as asked for, or to one that runs already."""
    global _ours
    if plan.searcher == "grid":
        raise OptionError("a grid is not for Ray", "use --workers for several at a time")
    # Less on the screen: our lines say what Ray's tables would.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    try:
        import ray
        import ray.tune
    except ImportError as error:
        raise missing_dependency("ray", "--engine ray") from error
    if ray.is_initialized():
        return
    where: dict[str, Any] = {
        "address": "local",
        "num_cpus": plan.workers,
        "include_dashboard": False,
    }
    failed = "Ray could not be started"
    hint = "without --engine ray, --workers runs trials in processes of this machine"
    if plan.address:
        where, failed = {"address": plan.address}, f"Ray at {plan.address} could not be reached"
        hint = "does it run there, and have you its token in RAY_AUTH_TOKEN? Without --address the "
        hint += "search starts a Ray on this machine"
    try:
        if host_port := re.fullmatch(r"([^:/]+):(\d+)", plan.address):
            # Ray itself would go on trying for minutes.
            socket.create_connection((host_port[1], int(host_port[2])), SECONDS).close()
        ray.init(**where, log_to_driver=False, configure_logging=False)
    except Exception as error:
        raise ZooError(f"{failed}: {describe(error)}", hint) from error
    _ours = True


def suggested(plan: SearchPlan, source: str, config: Mapping[str, Any]) -> Suggestion:
    return Suggestion(source, {axis.name: axis.typed(config[axis.name]) for axis in plan.axes})


def trainable(config: Mapping[str, Any], plan: SearchPlan, data: Dataset) -> None:
    """A trial, on a worker: its run is a temporary one, its lines go to whoever started it."""
    from ray import tune

    sent = 0

    def listen(lines: Lines) -> None:
        nonlocal sent
        for line in lines[sent:]:
            loss, _ = best_epoch(lines[: sent + 1])
            tune.report({"loss": math.inf if loss is None else loss, "line": json.dumps(line)})
            sent += 1

    with tempfile.TemporaryDirectory(prefix="zoo-trial-") as folder:
        # Who prunes is the scheduler, which knows the other trials.
        task = TrialJob(plan, 0, suggested(plan, "ray", config), (), Path(folder) / "run")
        trial = run_trial(task, data, Display(quiet=True), listen)
    if trial.error:
        tune.report({"loss": math.inf, "line": "", "error": trial.error})
