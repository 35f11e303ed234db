"""The one training loop: fit, epoch, step. It knows no framework; a Learner does the arithmetic.

Everything that a run depends on is a function of the recipe and the position (epoch, batch), or is
in the learner's state. So a run that is killed and resumed ends with the same bytes as one that is
not.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo_core.data.loader import Batch, Loader
from zoo_core.errors import Interrupted, TrainingError
from zoo_core.train.checkpoint import Checkpoints, State, prefixed, without_prefix
from zoo_core.train.generate import Snapshots
from zoo_core.train.interrupt import Interruption
from zoo_core.train.job import Fitted, Job
from zoo_core.train.memory import keep_freed_memory
from zoo_core.train.metrics import ClassificationTotals
from zoo_core.train.schedule import learning_rate
from zoo_core.train.stopping import Stopping

LOOK = 2.0  # seconds between two looks at whether the loss is still a number
BEST = "best."  # prefix of the best epoch's weights in a checkpoint


@dataclass(frozen=True)
class Place:
    """Where a step is in its run."""

    epoch: int  # from 0
    batch: int  # from 0, in its epoch
    step: int  # from 0, in the run
    lr: float
    size: int  # pictures of the whole batch, over all processes


class Learner:
    """A model that learns: the part of a trainer that knows its framework. Subclass it.

    What learners of all frameworks do alike is here: the parts of a batch, the averaged weights,
    the sums of an epoch, the state. A model needs torch's `train()` and, as long as `read` and
    `write` are not replaced, `state_dict()` and `load_state_dict()` with arrays.
    """

    def __init__(self, job: Job, model: Any) -> None:
        self.recipe, self.model, self.classes = job.recipe, model, job.dataset.classes
        self.parts = {"model": model}  # of the state; a subclass adds its optimisers
        self.published = model  # evaluated and kept: the averaged weights, if there are any
        if job.recipe.ema:
            self.published = self.parts["ema"] = copy.deepcopy(model)
        self.bad_step: int | None = None
        self.start_epoch()

    # ------------------------------------------------------------ what a framework must say

    def learn(self, batch: Batch, place: Place, last: bool) -> None:
        """Learn from a part of a batch, and `add` its figures; after the last part, update."""
        raise NotImplementedError

    def scores(self, images: Any) -> np.ndarray:
        """What the published model says of pictures, (B, classes)."""
        raise NotImplementedError

    # ------------------------------------------------------------ what it may say otherwise

    def loading(self) -> dict[str, Any]:
        """Arguments for the loader: backend, device, channels_last, shard."""
        return {"backend": "numpy"}

    def first_bad_step(self) -> int | None:
        """The first step whose loss was no finite number."""
        return self.bad_step

    def sum_over(self, values: np.ndarray) -> np.ndarray:
        """Add up an array over all processes that train together."""
        return values

    def read(self, part: Any) -> dict[str, np.ndarray]:
        """The arrays of a model or an optimiser."""
        arrays: dict[str, np.ndarray] = part.state_dict()
        return arrays

    def write(self, part: Any, arrays: Mapping[str, np.ndarray]) -> None:
        part.load_state_dict(arrays)

    def average(self, weight: float) -> None:
        """Move the averaged weights towards the current ones, by this part of the way."""
        now = self.read(self.model)
        for name, mean in self.read(self.published).items():
            if mean.dtype.kind == "f":
                now[name] = mean + weight * (now[name] - mean)
        self.write(self.published, now)

    def evaluate(self, loader: Loader) -> dict[str, float]:
        """Figures of a split, `loss` among them; here those of a classifier.

        Whatever it was trained on, the loss is cross-entropy: figures of runs can be compared.
        """
        totals = ClassificationTotals(len(self.classes))
        for batch in loader.epoch(0):
            totals.add(self.scores(batch.images), batch.labels)
        return totals.summary()

    def finish(self, loader: Loader) -> None:
        """Work that is left after the last epoch, on the training pictures as they are."""

    def remarks(self, lines: Sequence[Mapping[str, Any]]) -> list[str]:
        """Sentences for the report about what went wrong, from the lines of metrics.jsonl."""
        return []

    # ------------------------------------------------------------ what the loop calls

    def start_epoch(self) -> None:
        """Forget the sums of the epoch before."""
        self._sums: dict[str, Any] = {}
        self._count = 0

    def step(self, batch: Batch, place: Place) -> None:
        """Learn from one batch, and add its figures to the sums. Waits for nothing."""
        self.model.train()
        batches = batch.split(self.recipe.accumulate)
        for number, small in enumerate(batches, 1):
            self.learn(small, place, last=number == len(batches))
        if self.recipe.ema:  # quickly at first, then slowly
            self.average(1 - min(self.recipe.ema, (1 + place.step) / (10 + place.step)))

    def add(self, sums: Mapping[str, Any], count: int) -> None:
        """Figures of so many pictures, each summed over them: numbers, or a device's scalars."""
        self._count += count
        for name, value in sums.items():
            self._sums[name] = self._sums.get(name, 0.0) + value

    def totals(self, everywhere: bool = False) -> dict[str, float]:
        """Averages over the epoch so far, `loss` among them; of this process, or of all."""
        if not self._count:
            return {}
        values = np.array([self._count, *map(float, self._sums.values())])
        if everywhere:
            values = self.sum_over(values)
        return {name: float(v / values[0]) for name, v in zip(self._sums, values[1:], strict=True)}

    def weights(self) -> dict[str, np.ndarray]:
        """What would be published now."""
        return self.read(self.published)

    def any_process(self, flag: bool) -> bool:
        """Whether the flag is set in any of the processes that train together."""
        return bool(self.sum_over(np.array([float(flag)]))[0])

    def state(self) -> State:
        """All that the next step depends on, and the sums of this epoch."""
        tensors: dict[str, np.ndarray] = {}
        for name, part in self.parts.items():
            tensors |= prefixed(f"{name}.", self.read(part))
        sums = {name: float(value) for name, value in self._sums.items()}
        return State(tensors, {"count": self._count, "sums": sums})

    def load(self, state: State) -> None:
        for name, part in self.parts.items():
            self.write(part, without_prefix(f"{name}.", state.tensors))
        self._count, self._sums = state.values["count"], dict(state.values["sums"])


class Loop:
    """The state of a fit that the learner does not know: position, time, best epoch."""

    def __init__(self, learner: Learner, job: Job) -> None:
        self.learner = learner
        self.job = job
        self.recipe = job.recipe
        how = learner.loading()
        self.whole_loading = {**how, "shard": (0, 1)}  # for what each process does by itself
        self.training = job.training_loader(**how)
        self.watched: dict[str, Loader] = {}  # what is evaluated after each epoch
        if len(job.parts[1]):
            self.watched["validation"] = job.evaluation_loader(
                job.dataset.train, job.parts[1], **how
            )
        if job.dataset.test is not None and len(job.dataset.test):
            self.watched["test"] = job.evaluation_loader(job.dataset.test, **how)
        self.checkpoints = Checkpoints(job.run.checkpoints) if job.run else None
        self.stopping = Stopping(self.recipe.patience)
        self.best_weights: dict[str, np.ndarray] = {}
        self.epoch = self.batch = 0
        # Over all resumes: everything but waiting, steps alone, and steps of this epoch alone.
        self.seconds = self.step_seconds = self.epoch_seconds = 0.0
        self._cpu_offset = -time.process_time()  # of all threads; this process counts from here on
        self.images = 0
        self.interruption = Interruption()
        self.snapshots = Snapshots(job)

    # ------------------------------------------------------------ the staircase

    def fit(self) -> Fitted:
        keep_freed_memory()
        self._restore()
        steps = len(self.training)
        display = self.job.display
        display.start(self.recipe.epochs, steps, self.epoch, self.batch)
        self._saved = self._looked = time.monotonic()
        if self.job.init is not None:
            self._save()  # a resume must find the weights to start from, from the first step on
        try:
            with self.interruption:
                while self.epoch < self.recipe.epochs and not self._stopped():
                    self.run_epoch()
                self._save()
        finally:
            display.stop()
        if self.best_weights:
            self.learner.write(self.learner.published, self.best_weights)
        started = time.perf_counter()
        self.learner.finish(
            self.job.evaluation_loader(
                self.job.dataset.train, self.job.parts[0], **self.whole_loading
            )
        )
        self.seconds += time.perf_counter() - started
        return Fitted(
            self.learner.weights(),
            epochs=self.epoch,
            best_epoch=self.stopping.best_epoch,
            stopped_early=self._stopped(),
            seconds=self.seconds,
            cpu_seconds=self._cpu_seconds(),
            images_per_second=self.images / max(self.step_seconds, 1e-9),
            remarks=self.learner.remarks(self.job.run.metrics() if self.job.run else []),
        )

    def _cpu_seconds(self) -> float:
        return self._cpu_offset + time.process_time()

    def _stopped(self) -> bool:
        if self.stopping.stopped or self.job.give_up is None or self.job.run is None:
            return self.stopping.stopped
        # Asked again after a resume, and not remembered: the same lines give the same answer.
        return self.job.give_up(self.job.run.metrics())

    def run_epoch(self) -> None:
        if self.batch == 0:
            self.learner.start_epoch()
            self.epoch_seconds = 0.0
        steps = len(self.training)
        while self.batch < steps:
            started = time.perf_counter()
            place = self.place()
            self.learner.step(self.training.batch(self.epoch, self.batch), place)
            self.batch += 1
            self.images += place.size
            self._after_step(started)
        self._check_loss()
        line = self._measure()
        self.epoch, self.batch = self.epoch + 1, 0
        if self.job.run:
            self.job.run.append_metrics(line)
            self.job.display.epoch(line)
            self.job.events.send(
                "zoo_epoch_ended", run=self.job.run, epoch=self.epoch, metrics=line
            )
            self.snapshots.after(self.epoch, self.learner.published)

    def place(self) -> Place:
        steps = len(self.training)
        step = self.epoch * steps + self.batch
        left = len(self.training.indices) - self.batch * self.training.batch_size
        return Place(
            self.epoch,
            self.batch,
            step,
            learning_rate(self.recipe, step, steps),
            min(self.training.batch_size, left),
        )

    # ------------------------------------------------------------ around the steps

    def _after_step(self, started: float) -> None:
        elapsed = time.perf_counter() - started
        self.seconds += elapsed
        self.step_seconds += elapsed
        self.epoch_seconds += elapsed
        self.job.display.step(self.epoch + 1, self.batch, self._running)
        now = time.monotonic()
        if self.learner.any_process(bool(self.interruption.signal)):
            self._check_loss()
            self._save()
            raise Interrupted(
                f"stopped in epoch {self.epoch + 1}, after step {self.batch} "
                f"of {len(self.training)}, and saved",
                f"zoo train --resume {self.job.run.path}" if self.job.run else "",
                self.interruption.signal or 2,
            )
        if now - self._looked > LOOK:
            self._check_loss()
            self._looked = time.monotonic()
        if now - self._saved > self.job.checkpoint_seconds:
            self._check_loss()
            self._save()

    def _running(self) -> dict[str, float]:
        done = min(self.batch * self.training.batch_size, len(self.training.indices))
        rate = done / max(self.epoch_seconds, 1e-9)
        return self.learner.totals() | {"images_per_second": rate}

    def _measure(self) -> dict[str, Any]:
        """The line of this epoch; also decides whether it was the best and whether to go on."""
        step = (self.epoch + 1) * len(self.training)
        lr = learning_rate(self.recipe, step - 1, len(self.training))
        line: dict[str, Any] = {"epoch": self.epoch + 1, "step": step, "lr": lr}
        started = time.perf_counter()
        totals = self.learner.totals(everywhere=True)
        line |= {f"train_{name}": value for name, value in totals.items()}
        for name, loader in self.watched.items():
            figures = self.learner.evaluate(loader)
            line |= {f"{name}_{figure}": value for figure, value in figures.items()}
        self.seconds += time.perf_counter() - started
        rate = len(self.training.indices) / max(self.epoch_seconds, 1e-9)
        line |= {"seconds": round(self.epoch_seconds, 3), "images_per_second": round(rate, 1)}
        if "validation" in self.watched:
            better = self.stopping.saw(self.epoch + 1, line["validation_loss"])
            if better and self.recipe.restore_best:
                self.best_weights = {k: v.copy() for k, v in self.learner.weights().items()}
        return line

    def _check_loss(self) -> None:
        bad = self.learner.first_bad_step()
        if bad is None:
            return
        steps = len(self.training)
        lr = learning_rate(self.recipe, bad, steps)
        last = self.checkpoints.latest_path() if self.checkpoints else None
        raise TrainingError(
            f"the loss was no finite number in epoch {bad // steps + 1}, "
            f"step {bad % steps + 1}, at lr {lr:g}",
            "a smaller lr or clip_grad may help; "
            + (f"the last good checkpoint is {last}" if last else "no checkpoint was saved before"),
        )

    # ------------------------------------------------------------ checkpoints

    def _save(self) -> None:
        if self.checkpoints is not None:
            state = self.learner.state()
            values = {
                "learner": state.values,
                "epoch": self.epoch,
                "batch": self.batch,
                "seconds": self.seconds,
                "cpu_seconds": self._cpu_seconds(),
                "step_seconds": self.step_seconds,
                "epoch_seconds": self.epoch_seconds,
                "images": self.images,
                "stopping": self.stopping.to_dict(),
            }
            best = prefixed(BEST, self.best_weights)
            step = self.epoch * len(self.training) + self.batch
            self.checkpoints.save(step, State({**state.tensors, **best}, values))
        self._saved = time.monotonic()

    def _restore(self) -> None:
        if self.job.resume_from is None:
            return
        state, warnings = Checkpoints(self.job.resume_from.checkpoints).load()
        if self.job.run:
            for warning in warnings:
                self.job.display.warn(warning)
        if state is not None:
            self.best_weights = without_prefix(BEST, state.tensors)
            self.learner.load(State(state.tensors, state.values["learner"]))
            self.epoch, self.batch = state.values["epoch"], state.values["batch"]
            self.seconds, self.images = state.values["seconds"], state.values["images"]
            self._cpu_offset += state.values.get("cpu_seconds", 0.0)  # unknown to older runs
            self.step_seconds = state.values["step_seconds"]
            self.epoch_seconds = state.values["epoch_seconds"]
            self.stopping.from_dict(state.values["stopping"])
        if self.job.run:
            self.job.run.keep_metrics(self.epoch)
            where = f"epoch {self.epoch + 1}, step {self.batch + 1}" if state else "the beginning"
            self.job.display.say(f"Resuming {self.job.run.path} at {where}.")
