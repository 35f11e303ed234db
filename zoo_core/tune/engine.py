"""Works through the trials of a search, one after the other or several at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import Any

from zoo_core.data.arrays import Dataset
from zoo_core.errors import TrainingError
from zoo_core.tune.display import SearchDisplay
from zoo_core.tune.plan import Plan
from zoo_core.tune.run_trial import Task, run_trial
from zoo_core.tune.search import Search
from zoo_core.tune.searcher import Searcher
from zoo_core.tune.trial import Trial


def run_trials(
    search: Search,
    plan: Plan,
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
        task = Task(plan, number, suggestion, rivals, path, checkpoint_seconds)
        display.begin(task)
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


def open_pool(plan: Plan, data: Dataset, count: int) -> Executor:
    if min(plan.workers, count) < 2:
        return Here()
    from zoo_core.tune.workers import Workers

    return Workers(plan.workers, data)


class Here(Executor):
    """Runs a task at once, in this process."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments, **named))
        return future
