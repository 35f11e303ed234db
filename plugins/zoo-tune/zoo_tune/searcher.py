"""Where suggestions come from: a grid, or hyperopt, which nothing else imports.

A searcher remembers nothing, so a search that was killed goes on as if it had not been.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from zoo.kit import missing_dependency
from zoo_tune.search import SearchPlan, Trial
from zoo_tune.space import Axis


class Suggestion(NamedTuple):
    source: str  # recipe, random, tpe or grid
    parameters: Mapping[str, Any]  # names as after --set


def make_searcher(plan: SearchPlan) -> Grid | Hyperopt:
    return Grid(plan.axes) if plan.searcher == "grid" else Hyperopt(plan)


def first_guess(plan: SearchPlan) -> dict[str, Any] | None:
    """What the recipe itself says on every axis; None where that lies outside of one."""
    recipe, options, found = plan.recipe, {**plan.entry.options, **plan.recipe.model}, {}
    for axis in plan.axes:
        section, dot, option = axis.name.partition(".")
        known = options if section == "model" else recipe.task
        found[axis.name] = known.get(option) if dot else getattr(recipe, axis.name)
        if not plan.guess or not axis.holds(found[axis.name]):
            return None
    return found


class Grid:
    """Every combination of choices, the last axis changing quickest."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.names = [axis.name for axis in axes]
        self.combinations = list(itertools.product(*(axis.values for axis in axes)))

    def suggest(self, number: int, seen: Sequence[Trial]) -> Suggestion:
        """Parameters for trial `number`, counted from 1, after the trials seen so far."""
        values = self.combinations[number - 1]
        return Suggestion("grid", dict(zip(self.names, values, strict=True)))


class Hyperopt:
    """TPE or random search; the recipe's own values first, so that bad trials have a rival."""

    def __init__(self, plan: SearchPlan) -> None:
        try:
            from hyperopt.base import Domain
        except ImportError as error:
            raise missing_dependency("hyperopt", "a search by TPE or at random") from error
        self.plan = plan
        self.axes = {axis.name: axis for axis in plan.axes}
        self.guess = first_guess(plan)
        self._domain = Domain(None, hyperopt_space(plan.axes))

    def suggest(self, number: int, seen: Sequence[Trial]) -> Suggestion:
        from hyperopt import Trials, rand, tpe

        if number == 1 and self.guess:
            return Suggestion("recipe", self.guess)
        # A seed for each trial, and the history made anew: there is no state to save.
        seed = (self.plan.recipe.seed * 1_000_003 + number) % 2**31
        history = Trials()
        history.insert_trial_docs([self.document(trial) for trial in seen])
        history.refresh()
        source, suggest = "random", rand.suggest
        if self.plan.searcher == "tpe" and len(seen) >= self.plan.startup:
            source = "tpe"
            suggest = partial(tpe.suggest, n_startup_jobs=self.plan.startup, verbose=False)
        (made,) = suggest([number], self._domain, history, seed)
        parameters = {}
        for name, axis in self.axes.items():
            (drawn,) = made["misc"]["vals"][name]  # of a choice, the place of the value
            parameters[name] = axis.typed(axis.values[int(drawn)] if axis.values else drawn)
        return Suggestion(source, parameters)

    def document(self, trial: Trial) -> dict[str, Any]:
        """A trial as hyperopt keeps it."""
        given = ((axis, trial.parameters[axis.name]) for axis in self.axes.values())
        vals = {axis.name: [axis.values.index(v) if axis.values else v] for axis, v in given}
        ended = {"status": "ok", "loss": trial.loss}
        result = {"status": "fail"} if trial.loss is None else ended
        misc = {"tid": trial.number, "cmd": self._domain.cmd, "workdir": None,
                "idxs": {name: [trial.number] for name in vals}, "vals": vals}  # fmt: skip
        return {
            "tid": trial.number, "state": 2, "spec": None, "result": result, "misc": misc,
            "exp_key": None, "owner": None, "version": 0, "book_time": None, "refresh_time": None,
        }  # fmt: skip


def hyperopt_space(axes: Sequence[Axis]) -> dict[str, Any]:
    """The same space in hyperopt's words."""
    from hyperopt import hp

    kinds = {"log": (hp.loguniform, hp.qloguniform), "uniform": (hp.uniform, hp.quniform)}

    def draw(axis: Axis) -> Any:
        if axis.kind == "choice":
            return hp.choice(axis.name, list(axis.values))
        free, stepped = kinds[axis.kind]
        ends = [math.log(end) if axis.kind == "log" else end for end in (axis.low, axis.high)]
        return stepped(axis.name, *ends, 1) if axis.whole else free(axis.name, *ends)

    return {axis.name: draw(axis) for axis in axes}
