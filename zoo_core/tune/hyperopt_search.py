"""hyperopt behind our Searcher interface; nothing else imports it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from zoo_core.targets import missing_dependency
from zoo_core.tune.searcher import Suggestion
from zoo_core.tune.space import Axis
from zoo_core.tune.trial import Trial


class Hyperopt:
    """TPE, or random search where `startup` is None."""

    def __init__(self, axes: Sequence[Axis], seed: int, startup: int | None) -> None:
        try:
            from hyperopt.base import Domain
        except ImportError as error:
            raise missing_dependency("hyperopt", "a search by TPE or at random") from error
        self.axes = {axis.name: axis for axis in axes}
        self.seed = seed
        self.startup = startup
        self._domain = Domain(None, hyperopt_space(axes))

    def suggest(self, number: int, seen: Sequence[Trial]) -> Suggestion:
        from hyperopt import Trials, rand, tpe

        # A seed for each trial, and the history made anew: there is no state to save.
        seed = (self.seed * 1_000_003 + number) % 2**31
        history = Trials()
        history.insert_trial_docs([self.document(trial) for trial in seen])
        history.refresh()
        if self.startup is None or len(seen) < self.startup:
            source, (made,) = "random", rand.suggest([number], self._domain, history, seed)
        else:
            source, (made,) = "tpe", tpe.suggest(
                [number], self._domain, history, seed,
                n_startup_jobs=self.startup, verbose=False,
            )  # fmt: skip
        drawn = {name: values[0] for name, values in made["misc"]["vals"].items()}
        return Suggestion(source, {name: self._to_ours(name, drawn[name]) for name in self.axes})

    def _to_ours(self, name: str, drawn: Any) -> Any:
        axis = self.axes[name]
        if axis.kind == "choice":
            return axis.values[int(drawn)]
        return round(float(drawn)) if axis.whole else float(drawn)

    def document(self, trial: Trial) -> dict[str, Any]:
        """A trial as hyperopt keeps it."""
        vals: dict[str, list[Any]] = {}
        for name, axis in self.axes.items():
            value = trial.parameters[name]
            vals[name] = [axis.values.index(value) if axis.kind == "choice" else value]
        result: dict[str, Any] = {"status": "fail"}
        if trial.loss is not None:
            result = {"status": "ok", "loss": trial.loss}
        misc = {"tid": trial.number, "cmd": self._domain.cmd, "workdir": None,
                "idxs": {name: [trial.number] for name in vals}, "vals": vals}  # fmt: skip
        return {
            "tid": trial.number, "state": 2, "spec": None, "result": result, "misc": misc,
            "exp_key": None, "owner": None, "version": 0, "book_time": None, "refresh_time": None,
        }  # fmt: skip


def hyperopt_space(axes: Sequence[Axis]) -> Mapping[str, Any]:
    """The same space in hyperopt's words."""
    from hyperopt import hp

    def one(axis: Axis) -> Any:
        if axis.kind == "choice":
            return hp.choice(axis.name, list(axis.values))
        ends = (axis.low, axis.high)
        if axis.kind == "log":
            ends = (math.log(axis.low), math.log(axis.high))
            return hp.qloguniform(axis.name, *ends, 1) if axis.whole else hp.loguniform(
                axis.name, *ends
            )  # fmt: skip
        return hp.quniform(axis.name, *ends, 1) if axis.whole else hp.uniform(axis.name, *ends)

    return {axis.name: one(axis) for axis in axes}
