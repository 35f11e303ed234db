"""Where suggestions come from. A searcher remembers nothing: what it says of trial n depends on n
and on the trials that it is shown, so a search that was killed goes on as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from zoo_core.errors import OptionError
from zoo_core.tune.space import Axis
from zoo_core.tune.trial import Trial

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
    from zoo_core.tune.hyperopt_search import Hyperopt

    searcher = Hyperopt(axes, seed, startup if name == "tpe" else None)
    return AfterGuess(guess, searcher) if guess else searcher
