"""What the training loop asks of a framework: a Learner does the arithmetic of a step."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo_core.data.loader import Batch, Loader
from zoo_core.spec.answers import ANSWERS
from zoo_core.train.checkpoint import State, prefixed, without_prefix
from zoo_core.train.job import Job


@dataclass(frozen=True)
class Position:
    """Where a step is in its run."""

    epoch: int  # from 0
    batch: int  # from 0, in its epoch
    step: int  # from 0, in the run
    lr: float
    size: int  # images of the whole batch, over all processes


class Learner(ABC):
    """A model that learns: the part of a trainer that knows its framework. Subclass it.

    Write `learn` and `scores`. Use `self.model`, `self.recipe` and `self.targets` (names);
    `self.published`, which is evaluated and kept: the model, or its average if `ema` is set;
    `self.bad_step`, see `learn`; `self.parts`, by name all that has a state: add your optimiser.
    Unless you replace `read` and `write`, parts have torch's `state_dict()` and `load_state_dict()`
    with NumPy's arrays.
    """

    def __init__(self, job: Job, model: Any) -> None:
        """A subclass calls this first, and then adds its optimiser to `self.parts`."""
        self.recipe, self.model, self.targets = job.recipe, model, job.dataset.targets
        self.parts = {"model": model}
        self.published = model  # evaluated and kept: the averaged weights, if there are any
        if job.recipe.ema:
            self.published = self.parts["ema"] = copy.deepcopy(model)
        self.bad_step: int | None = None
        # What the published model said of the split that was evaluated last, if it still would.
        self.scored: np.ndarray | None = None
        self.start_epoch()

    @abstractmethod
    def learn(self, batch: Batch, place: Position, last: bool) -> None:
        """Learn from a part of a batch, and `add` its figures; after the last part, update.

        The rate of the update is place.lr. A loss counts by the part's share of the whole batch,
        len(batch) / place.size. `batch.targets` has the labels as MixUp and smoothing make them.
        Where the loss is not a finite number, set `self.bad_step` to place.step once.
        """

    @abstractmethod
    def scores(self, images: Any) -> np.ndarray:
        """What the published model says of images, (B, classes), without learning."""

    # From here on, a framework may say otherwise.

    def loading(self) -> dict[str, Any]:
        """Arguments for the loader: backend; for torch also device, channels_last, shard."""
        return {"backend": "numpy"}

    def first_bad_step(self) -> int | None:
        """The first step whose loss was not a finite number, in any process; None: none so far."""
        return self.bad_step

    def agreed(self, *wishes: bool) -> Sequence[bool]:
        """What any process wishes after a step; several hear of it two steps later, all at once."""
        return wishes

    def sum_over(self, values: np.ndarray) -> np.ndarray:
        """Add up an array over all processes that train together."""
        return values

    def read(self, part: Any) -> dict[str, np.ndarray]:
        """The arrays of a model or of another of the `parts`, by name."""
        arrays: dict[str, np.ndarray] = part.state_dict()
        return arrays

    def write(self, part: Any, arrays: Mapping[str, np.ndarray]) -> None:
        """Put arrays that `read` gave back into a part."""
        part.load_state_dict(arrays)

    def average(self, weight: float) -> None:
        """Move the averaged weights towards the current ones, by this part of the way."""
        now = self.read(self.model)
        for name, mean in self.read(self.published).items():
            if mean.dtype.kind == "f":
                now[name] = mean + weight * (now[name] - mean)
        self.write(self.published, now)

    def evaluate(self, loader: Loader) -> dict[str, float]:
        """Figures of a split; here those of its labels, whatever the loss was: runs compare."""
        totals = ANSWERS[self.targets.kind](self.targets)
        said = []
        for batch in loader.epoch(0):
            said.append(self.scores(batch.images))
            totals.add(said[-1], batch.labels)
        self.scored = np.concatenate(said)
        return totals.summary()

    def finish(self, loader: Loader) -> None:  # noqa: B027 - optional
        """Work that is left after the last epoch, on the training images as they are."""

    def remarks(self, lines: Sequence[Mapping[str, Any]]) -> list[str]:
        """Sentences for the report about what went wrong, from the lines of metrics.jsonl."""
        return []

    # From here on, what the loop calls.

    def start_epoch(self) -> None:
        """Forget the sums of the epoch before."""
        self._sums: dict[str, Any] = {}
        self._count = 0
        self.scored = None

    def step(self, batch: Batch, place: Position) -> None:
        """Learn from one batch, and add its figures to the sums. Waits for nothing.

        Models that behave differently in training are put into it here, before the base's `step`.
        """
        batches = batch.split(self.recipe.accumulate) or [batch]
        for number, small in enumerate(batches, 1):
            self.learn(small, place, last=number == len(batches))
        if self.recipe.ema:  # quickly at first, then slowly
            self.average(1 - min(self.recipe.ema, (1 + place.step) / (10 + place.step)))

    def add(self, sums: Mapping[str, Any], count: int) -> None:
        """Figures of so many images, each summed over them: numbers, or a device's scalars."""
        self._count += count
        for name, value in sums.items():
            self._sums[name] = self._sums.get(name, 0.0) + value

    def totals(self, everywhere: bool = False) -> dict[str, float]:
        """Averages over the epoch so far, `loss` among them; of this process, or of all."""
        values = np.array([self._count, *map(float, self._sums.values())])
        if everywhere:
            values = self.sum_over(values)
        count, *sums = values
        return {name: float(v / count) for name, v in zip(self._sums, sums, strict=True) if count}

    def weights(self) -> dict[str, np.ndarray]:
        """What would be published now."""
        return self.read(self.published)

    def state(self) -> State:
        """All that the next step depends on, and the sums of this epoch. All processes call it."""
        tensors: dict[str, np.ndarray] = {}
        for name, part in self.parts.items():
            tensors |= prefixed(f"{name}.", self.read(part))
        sums = {name: float(value) for name, value in self._sums.items()}
        return State(tensors, {"count": self._count, "sums": sums})

    def load(self, state: State) -> None:
        """Go on from what `state` gave."""
        for name, part in self.parts.items():
            self.write(part, without_prefix(f"{name}.", state.tensors))
        self._count, self._sums = state.values["count"], dict(state.values["sums"])
