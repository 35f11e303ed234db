"""Where suggestions come from. A searcher remembers nothing: what it says of trial n depends on n
and on the trials that it is shown, so a search that was killed goes on as if it had not been.

hyperopt behind our Searcher interface; nothing else imports it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

from zoo_core.io.errors import OptionError
from zoo_core.io.targets import missing_dependency
from zoo_core.tune.space import Axis

STATUSES = ("complete", "pruned", "failed")


@dataclass(frozen=True, kw_only=True)
class Trial:
    number: int  # from 1
    parameters: Mapping[str, Any]  # names as after --set
    source: str  # of the parameters: recipe, random, tpe or grid
    status: str  # one of STATUSES
    loss: float | None  # the best on the validation pictures; None: it failed
    epoch: int | None  # that had it
    epochs: int  # done
    seconds: float
    curve: Sequence[Mapping[str, Any]]  # the lines of metrics.jsonl
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Trial:
        parameters = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in document["parameters"].items()
        }
        return cls(**{**document, "parameters": parameters})

    @property
    def losses(self) -> list[float]:
        return validation_losses(self.curve)


def validation_losses(curve: Sequence[Mapping[str, Any]]) -> list[float]:
    return [line["validation_loss"] for line in curve if "validation_loss" in line]


def best_epoch(curve: Sequence[Mapping[str, Any]]) -> tuple[float, int] | None:
    """The lowest validation loss that is a number, and its epoch."""
    found = [
        (line["validation_loss"], line["epoch"])
        for line in curve
        if math.isfinite(line.get("validation_loss", math.nan))
    ]
    return min(found, default=None)


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The trial with the lowest loss; of equal ones the earlier."""
    good = [trial for trial in trials if trial.loss is not None]
    return min(good, key=lambda trial: (trial.loss, trial.number), default=None)


SEARCHERS = ("tpe", "random", "grid")


class Suggestion(NamedTuple):
    source: str  # recipe, random, tpe or grid
    parameters: Mapping[str, Any]  # names as after --set


class Searcher(Protocol):
    """What a way of searching must have."""

    def suggest(self, number: int, seen: Sequence[Trial]) -> Suggestion:
        """Parameters for trial `number`, counted from 1, after the trials seen so far."""


class Grid:
    """Every combination of choices, the last axis changing quickest."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        for axis in axes:
            if axis.kind != "choice":
                raise OptionError(
                    f"a grid needs values, and {axis.name} has a range",
                    f"write {axis.name}=choice:A,B,C",
                )
        self.axes = axes

    def __len__(self) -> int:
        return math.prod(len(axis.values) for axis in self.axes)

    def suggest(self, number: int, seen: Sequence[Trial]) -> Suggestion:
        rest, parameters = number - 1, {}
        for axis in reversed(self.axes):
            rest, place = divmod(rest, len(axis.values))
            parameters[axis.name] = axis.values[place]
        return Suggestion("grid", {axis.name: parameters[axis.name] for axis in self.axes})


class AfterGuess:
    """The recipe's own values first, so that bad trials have a rival; then another searcher."""

    def __init__(self, guess: Mapping[str, Any], searcher: Searcher) -> None:
        self.guess, self.searcher = guess, searcher

    def suggest(self, number: int, seen: Sequence[Trial]) -> Suggestion:
        if number == 1:
            return Suggestion("recipe", self.guess)
        return self.searcher.suggest(number, seen)


def make_searcher(
    name: str, axes: Sequence[Axis], seed: int, startup: int, guess: Mapping[str, Any] | None
) -> Searcher:
    """One of SEARCHERS. startup: trials before TPE begins to learn; guess: the first of them."""
    if name == "grid":
        return Grid(axes)

    searcher = Hyperopt(axes, seed, startup if name == "tpe" else None)
    return AfterGuess(guess, searcher) if guess else searcher


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
