"""What a person sees of a search: a line for each trial, bars for the running one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from zoo_core.figures import duration
from zoo_core.train.display import Bars, Display, open_display
from zoo_core.train.settings import as_typed
from zoo_core.tune.plan import Plan
from zoo_core.tune.run_trial import Task
from zoo_core.tune.trial import Trial


class TrialBars(Bars):
    """The bars of one run, and one for the search; epochs leave no lines."""

    def __init__(self, done: int, trials: int) -> None:
        super().__init__()
        self.done, self.trials = done, trials

    def start(self, epochs: int, steps: int, first_epoch: int, first_step: int) -> None:
        super().start(epochs, steps, first_epoch, first_step)
        title = f"trial {self.done + 1} of {self.trials}"
        self._bars.add_task(title, total=self.trials, completed=self.done, note="")

    def epoch(self, line: Mapping[str, Any]) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass


class SearchDisplay:
    def __init__(self, plan: Plan, quiet: bool) -> None:
        self.plan, self.quiet = plan, quiet
        self._shown = open_display(quiet)
        self._lines = Display(quiet)
        self._done = 0
        self._best = math.inf

    def say(self, sentence: str) -> None:
        self._lines.say(sentence)

    def warn(self, sentence: str) -> None:
        self._lines.warn(sentence)

    def already(self, trials: Iterable[Trial]) -> None:
        """What a resumed search has had before."""
        self._best = min((t.loss for t in trials if t.loss is not None), default=math.inf)

    def of_trial(self) -> Display:
        """For the run itself; several at a time would write over each other."""
        if isinstance(self._shown, Bars) and self.plan.workers == 1:
            return TrialBars(self._done, self.plan.trials)
        return Display(quiet=True)

    def begin(self, task: Task) -> None:
        self._done = task.number - 1

    def end(self, trial: Trial) -> None:
        # A sweep is judged by its accuracies, and all together.
        better = self.plan.kind == "tune" and (trial.loss or math.inf) < self._best
        self._best = min(self._best, trial.loss or math.inf)
        width = len(str(self.plan.trials))
        word = "run" if self.plan.kind == "sweep" else "trial"
        self.say(
            f"{word} {trial.number:>{width}}/{self.plan.trials}  {settings_text(trial.parameters)}"
            f"  {trial_outcome(trial)}{'  best so far' if better else ''}"
        )


def settings_text(parameters: Mapping[str, Any]) -> str:
    """`lr=0.00123 model.dropout=0.3`."""
    return " ".join(f"{name}={as_typed(value)}" for name, value in parameters.items())


def trial_outcome(trial: Trial) -> str:
    if trial.loss is None:
        return f"failed: {trial.error}"
    told = f"loss {trial.loss:.4f} at epoch {trial.epoch} of {trial.epochs}"
    return told + (", pruned" if trial.status == "pruned" else "") + f"  {duration(trial.seconds)}"
