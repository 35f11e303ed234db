"""The one training loop: fit, epoch, step. It uses no framework; a Learner does the arithmetic.

A run depends on the recipe, the position (epoch, batch) and the learner's state alone, so one that
is killed and resumed ends with the same bytes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, NoReturn

import numpy as np
from msgspec import Meta, Struct

from zoo_core.data.draws import subset_indices
from zoo_core.data.features import digest_of_tensors
from zoo_core.data.loader import Batch, Loader
from zoo_core.data.sheets import write_sheet
from zoo_core.data.targets import strata
from zoo_core.io.console import typed
from zoo_core.io.documents import document_digest
from zoo_core.io.errors import Interrupted, TrainingError, ZooError
from zoo_core.io.process import Interruption, keep_freed_memory, process
from zoo_core.io.targets import describe
from zoo_core.spec.recipe import Recipe
from zoo_core.train.checkpoint import Checkpoints, State, prefixed, share, without_prefix
from zoo_core.train.job import APPLIED, Fitted, Job
from zoo_core.train.learner import Learner, Position
from zoo_core.use.generate import SHEET_COLUMNS, open_sampler

LOOK = 2.0  # seconds between two looks at whether the loss is a number; each waits for the device
BEST = "best."  # prefix of the best epoch's weights in a checkpoint
# Of the loop's attributes, those that a checkpoint keeps as they are.
COUNTED = ("epoch", "batch", "seconds", "step_seconds", "epoch_seconds", "images")
SHEETS = 6  # of samples in the course of a run, at most


class Values(Struct):
    """What a checkpoint of the loop says."""

    learner: dict[str, Any]
    epoch: Annotated[int, Meta(ge=0)]
    batch: Annotated[int, Meta(ge=0)]
    seconds: float
    step_seconds: float
    epoch_seconds: float
    images: Annotated[int, Meta(ge=0)]
    stopping: Stopping
    cpu_seconds: float = 0.0  # unknown to older runs


class Loop:
    """Trains: epochs, steps, checkpoints, evaluation. In a `fit`: `Loop(learner, job).fit()`."""

    # Fields of a recipe that the loop, the loader and the base of learners see to. The learner's
    # part: it takes the rate from `place.lr`, and the labels from `batch.targets`.
    honours: ClassVar[frozenset[str]] = APPLIED | {
        "lr", "schedule", "warmup", "epochs", "batch_size", "accumulate", "augment", "mixup", "ema",
        "patience", "restore_best", "evaluate_every", "evaluate_subset",
    }  # fmt: skip

    def __init__(self, learner: Learner, job: Job) -> None:
        """Makes the loaders; nothing is trained before `fit`."""
        self.learner, self.job, self.recipe = learner, job, job.recipe
        how = learner.loading()
        self.whole_loading = {**how, "shard": (0, 1)}  # for what each process does by itself
        self.training = job.training_loader(**how)
        self.steps = len(self.training)
        self.epoch_images = len(self.training.indices)
        self.validation, self.test, self.part = self._held_out(**how)
        # Whether what the last epoch measures is exactly what the finished model says. Where not,
        # the runner measures the finished model, and the last epoch leaves the test set out.
        plain = self.recipe.precision == "float32" and not job.entry.own_task
        alone = how.get("shard", (0, 1))[1] == 1 and job.loader is Loader
        self.final = plain and alone and not self.recipe.restore_best
        self.checkpoints = Checkpoints(job.run.checkpoints) if job.run else None
        self.stopping = Stopping()
        self.best_weights: dict[str, np.ndarray] = {}
        self.epoch = self.batch = 0
        # Over all resumes: everything but waiting, steps alone, and steps of this epoch alone.
        self.seconds = self.step_seconds = self.epoch_seconds = 0.0
        self._cpu_offset = -time.process_time()  # of all threads; this process counts from here on
        self.images = 0
        self.state = ""  # the digest in the last line of metrics.jsonl
        self.interruption = Interruption()
        draws = job.run is not None and "generate" in job.entry.capabilities
        self.sheet_every = math.ceil(self.recipe.epochs / SHEETS) if draws else 0

    def _held_out(self, **how: Any) -> tuple[Loader | None, Loader | None, Loader | None]:
        """What is evaluated: the validation images, the test images, and a part of these.

        The part serves all epochs but the last. The validation images decide, so all of them count.
        """
        data, recipe, validation = self.job.dataset, self.recipe, self.job.parts[1]
        held_out = test = part = None
        if len(validation):
            held_out = self.job.evaluation_loader(data.train, validation, **how)
        if data.test:
            test = part = self.job.evaluation_loader(data.test, **how)
            asked, images = recipe.evaluate_subset, len(data.test)
            if 0 < (count := round(images * asked if asked <= 1 else asked)) < images:
                labels = strata(data.test.labels)
                chosen = subset_indices(images, count / images, recipe.seed, labels)
                part = self.job.evaluation_loader(data.test, chosen, **how)
        return held_out, test, part

    def fit(self) -> Fitted:
        """Train to the end, from the last checkpoint where there is one."""
        keep_freed_memory()
        self._restore()
        display = self.job.display
        figures = self.job.trainer.figures(self.job.entry, self.job.dataset.targets)
        display.units = {name: figure.unit for name, figure in figures.items()}
        display.start(self.recipe.epochs, self.steps, self.epoch, self.batch)
        self._saved = self._looked = time.monotonic()
        if self.learner.sum_over(np.array([self.job.init is not None]))[0]:
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
        whole, trained_on, test = self.job.dataset.train, self.job.parts[0], self.job.dataset.test
        self.learner.finish(self.job.evaluation_loader(whole, trained_on, **self.whole_loading))
        self.seconds += time.perf_counter() - started
        said = self.learner.scored  # None after a resume that had nothing left to do
        known = self.final and test and said is not None and len(said) == len(test)
        lines = self.job.run.metrics() if self.job.run else []
        if lines and not self.final:  # the runner adds these; a run killed after that has them
            lines[-1] = {k: v for k, v in lines[-1].items() if not k.startswith("test_")}
        return Fitted(
            self.learner.weights(),
            epochs=self.epoch,
            best_epoch=self.stopping.best_epoch,
            stopped_early=self._stopped(),
            seconds=self.seconds,
            cpu_seconds=self._cpu_offset + time.process_time(),
            images_per_second=self.images / max(self.step_seconds, 1e-9),
            remarks=self.learner.remarks(lines),
            test_scores=said if known else None,
        )

    def _stopped(self) -> bool:
        """Whether to end before the last epoch: patience is over, or a search gives up."""
        if self.stopping.stopped or self.job.give_up is None or self.job.run is None:
            return self.stopping.stopped
        # Asked again after a resume, and not remembered: the same lines give the same answer.
        return self.job.give_up(self.job.run.metrics())

    def run_epoch(self) -> None:
        """The steps that are left of this epoch, then its line in metrics.jsonl."""
        if self.batch == 0:
            self.learner.start_epoch()
            self.epoch_seconds = 0.0
        with closing(self.training.epoch(self.epoch, self.batch)) as batches:
            self._run_steps(batches)
        self._check_loss()
        line = self._measure()
        self.epoch, self.batch = self.epoch + 1, 0
        if self.job.run:
            # Each digest includes the one before: where two runs part, all later ones differ.
            weights = digest_of_tensors(self.learner.read(self.learner.model))
            self.state = document_digest([self.state, weights])
            self.job.run.append_metrics({**line, "state": self.state})
            self.job.display.epoch(line)
            about = {"run": self.job.run, "epoch": self.epoch, "metrics": line}
            self.job.events.send("zoo_epoch_ended", **about)
            self._draw_samples()

    def _run_steps(self, batches: Iterator[Batch]) -> None:
        """The steps of an epoch from where it stands, with a checkpoint now and then."""
        while self.batch < self.steps:
            started = time.perf_counter()
            step = self.epoch * self.steps + self.batch
            lr = learning_rate(self.recipe, step, self.steps)
            before = self.batch * self.training.batch_size
            size = min(self.training.batch_size, self.epoch_images - before)
            place = Position(self.epoch, self.batch, step, lr, size)
            self.learner.step(next(batches), place)
            self.batch += 1
            self.images += size
            self._after_step(started)

    def _after_step(self, started: float) -> None:
        """Count the time, show the figures; save, or stop, where it is time to."""
        elapsed = time.perf_counter() - started
        self.seconds += elapsed
        self.step_seconds += elapsed
        self.epoch_seconds += elapsed
        self.job.display.step(self.epoch + 1, self.batch, self._running)
        # The clock of the first process decides; a signal may reach any of them.
        now, first = time.monotonic(), process()[0] == 0
        due = first and now - self._saved > self.job.checkpoint_seconds
        look = first and now - self._looked > LOOK
        self._saved, self._looked = now if due else self._saved, now if look else self._looked
        stop, due, look = self.learner.agreed(bool(self.interruption.signal), due, look)
        if stop or due or look:
            self._check_loss()
        if stop or due:
            self._save()
        if stop:
            what = f"stopped in epoch {self.epoch + 1}, after step {self.batch} of {self.steps}"
            again = typed("zoo train --resume", self.job.run.path) if self.job.run else ""
            self._end(Interrupted(f"{what}, and saved", again, self.interruption.signal or 2))

    def _end(self, error: ZooError) -> NoReturn:
        """End all processes, which have come here together; the first one says why."""
        raise error if process()[0] == 0 else SystemExit(error.exit_code)

    def _running(self) -> dict[str, float]:
        """Figures of the epoch so far, for the display."""
        done = min(self.batch * self.training.batch_size, self.epoch_images)
        rate = done / max(self.epoch_seconds, 1e-9)
        return self.learner.totals() | {"images_per_second": rate}

    def _measure(self) -> dict[str, Any]:
        """The line of this epoch; also decides whether it was the best and whether to go on."""
        step = (self.epoch + 1) * self.steps
        lr = learning_rate(self.recipe, step - 1, self.steps)
        line: dict[str, Any] = {"epoch": self.epoch + 1, "step": step, "lr": lr}
        started = time.perf_counter()
        totals = self.learner.totals(everywhere=True)
        line |= {f"train_{name}": value for name, value in totals.items()}
        every, last = self.recipe.evaluate_every, self.epoch + 1 == self.recipe.epochs
        due = last or (every > 0 and (self.epoch + 1) % every == 0)
        if self.validation and due:
            line |= self._figures("validation", self.validation)
            loss, patience = line["validation_loss"], self.recipe.patience
            better = self.stopping.saw(self.epoch + 1, loss, patience)
            if better and self.recipe.restore_best:
                self.best_weights = {k: v.copy() for k, v in self.learner.weights().items()}
        last = last or self.stopping.stopped
        if self.test and self.part and due and (self.final or not last):
            # Last of all: `fit` takes what was scored last for the scores of the test set.
            line |= self._figures("test", self.test if last else self.part)
        self.seconds += time.perf_counter() - started
        rate = self.epoch_images / max(self.epoch_seconds, 1e-9)
        line |= {"seconds": round(self.epoch_seconds, 3), "images_per_second": round(rate, 1)}
        return line

    def _figures(self, split: str, loader: Loader) -> dict[str, float]:
        """Of a split, by the names that they have in metrics.jsonl."""
        figures = self.learner.evaluate(loader)
        return {f"{split}_{name}": value for name, value in figures.items()}

    def _check_loss(self) -> None:
        """End the run with a sentence if a loss was not a finite number."""
        bad = self.learner.first_bad_step()
        if bad is None:
            return
        epoch, step = divmod(bad, self.steps)
        lr = learning_rate(self.recipe, bad, self.steps)
        last = self.checkpoints.latest_path() if self.checkpoints else None
        saved = f"the last good checkpoint is {last}" if last else "no checkpoint was saved before"
        what = "the loss was not a finite number in"
        what += f" epoch {epoch + 1}, step {step + 1}, at lr {lr:g}"
        self._end(TrainingError(what, f"a smaller lr or clip_grad may help; {saved}"))

    def _save(self) -> None:
        """A checkpoint of everything that the next step depends on."""
        state = self.learner.state()  # of all processes, of which the first one writes
        if self.checkpoints is not None:
            values = {
                "learner": state.values,
                **{name: getattr(self, name) for name in COUNTED},
                "cpu_seconds": self._cpu_offset + time.process_time(),
                "stopping": asdict(self.stopping),
            }
            best = prefixed(BEST, self.best_weights)
            step = self.epoch * self.steps + self.batch
            self.checkpoints.save(step, State({**state.tensors, **best}, values))
        self._saved = time.monotonic()

    def _restore(self) -> None:
        """Go on from the last whole checkpoint of the run that is resumed."""
        if self.job.resume_from is None:
            return
        kept, warnings = None, list[str]()
        if self.job.run:
            kept, warnings = Checkpoints(self.job.resume_from.checkpoints).load(Values)
        state = share(kept or State({}, {}))
        where = "the beginning"
        if state.values:
            self.best_weights = without_prefix(BEST, state.tensors)
            self.learner.load(State(state.tensors, state.values["learner"]))
            for name in COUNTED:
                setattr(self, name, state.values[name])
            self._cpu_offset += state.values.get("cpu_seconds", 0.0)
            self.stopping = Stopping(**state.values["stopping"])
            where = f"epoch {self.epoch + 1}, step {self.batch + 1}"
        if run := self.job.run:
            for warning in warnings:
                self.job.display.warn(warning)
            run.keep_metrics(self.epoch)
            self.state = next((one.get("state", "") for one in run.metrics()[-1:]), "")
            if kept or warnings:
                self.job.display.say(f"Resuming {run.path} at {where}.")

    def _draw_samples(self) -> None:
        """A sheet from the same noise every few epochs; that of the last one is the report's."""
        job, epoch = self.job, self.epoch
        if not self.sheet_every or epoch % self.sheet_every or epoch == self.recipe.epochs:
            return
        assert job.run is not None
        path = job.run.path / "pictures" / f"samples-{epoch:03d}.png"
        title = f"{job.entry.name} on {job.dataset.name}: samples after epoch {epoch}"
        model, classes = self.learner.published, job.dataset.classes
        try:
            samples = open_sampler(job.entry, model, job.preprocess, classes).sheet()
            write_sheet(path, samples.images, samples.names, columns=SHEET_COLUMNS, title=title)
        except Exception as error:  # a plugin's code; the training matters more than samples
            self.sheet_every = 0
            job.display.warn(f"no samples are drawn in this run: {describe(error)}")


CYCLE_RISE = 0.3  # of a one-cycle schedule, unless `warmup` says otherwise
CYCLE_START = 1 / 25  # of the peak, where one-cycle begins
CYCLE_END = 1e-4  # of the peak, where one-cycle ends


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """The rate of update `step`, counted from 0 over the whole run."""
    total = recipe.epochs * steps_per_epoch
    warmup = recipe.warmup * steps_per_epoch
    if recipe.schedule == "one_cycle":
        rise = warmup or CYCLE_RISE * total
        if step < rise:
            return recipe.lr * _cosine(CYCLE_START, 1, step / rise)
        return recipe.lr * _cosine(1, CYCLE_END, (step - rise) / max(1, total - 1 - rise))
    if step < warmup:
        return recipe.lr * (step + 1) / (warmup + 1)
    done = (step - warmup) / max(1, total - warmup)
    if recipe.schedule == "cosine":
        return recipe.lr * _cosine(1, 0, done)
    if recipe.schedule == "step":
        return recipe.lr * 0.1 ** ((done >= 0.5) + (done >= 0.75))
    return recipe.lr


def _cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * min(1.0, done))) / 2


@dataclass
class Stopping:
    """Remembers the best validation loss and how long ago it was."""

    best: float | None = None
    best_epoch: int | None = None
    stopped: bool = False

    def saw(self, epoch: int, loss: float, patience: int) -> bool:
        """Note an epoch's validation loss; whether it is the best so far. patience 0: no end."""
        better = self.best is None or loss < self.best
        if better:
            self.best, self.best_epoch = loss, epoch
        elif patience and epoch - (self.best_epoch or 0) >= patience:
            self.stopped = True
        return better
