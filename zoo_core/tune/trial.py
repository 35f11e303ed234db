"""One trial of a search: what was tried and what came of it, as one line of trials.jsonl."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

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
