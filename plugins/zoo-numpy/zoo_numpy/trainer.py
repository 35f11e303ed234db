"""How the zoo trains a model of this framework: the same loop, runs and metrics as for torch.

A model's class takes its options and a `generator`, from which all its weights are drawn.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import default_rng

from zoo_core.data.loader import Batch, Loader
from zoo_core.errors import OptionError
from zoo_core.models import build_target
from zoo_core.train.checkpoint import State
from zoo_core.train.job import Description, Fitted, Job, process
from zoo_core.train.loop import Loop, Place
from zoo_core.train.metrics import ClassificationTotals
from zoo_core.types import ModelEntry
from zoo_numpy import nn, optim
from zoo_numpy.tensor import Array, Tensor, no_grad

LOSSES = {"cross_entropy": nn.CrossEntropyLoss, "mse": nn.MSELoss}
OPTIMIZERS = {"sgd": optim.SGD, "adam": optim.Adam, "adamw": optim.AdamW}


class NumpyTrainer:
    """See zoo_core.train.job.Trainer."""

    backend = "numpy"

    def build(self, entry: ModelEntry, config: Mapping[str, Any]) -> nn.Module:
        model: nn.Module = build_target(entry, config)
        return model

    def tensor_spec(self, entry: ModelEntry, config: Mapping[str, Any]) -> dict[str, Any]:
        state = self.build(entry, config).state_dict()  # these networks are small: just make one
        return {name: (array.shape, str(array.dtype)) for name, array in state.items()}

    def load_state(self, model: nn.Module, tensors: Mapping[str, Array]) -> None:
        model.load_state_dict(tensors, strict=False)

    def describe(self, model: nn.Module) -> Description:
        count = sum(parameter.data.size for parameter in model.parameters())
        size = sum(array.nbytes for array in model.state_dict().values())
        return Description(trainable=count, total=count, bytes=size, structure=repr(model))

    def environment(self, device: str) -> dict[str, Any]:
        blas = np.show_config("dicts")["Build Dependencies"]["blas"]
        asked = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS", "")
        threads = int(asked) if asked.isdigit() else os.cpu_count() or 1
        name = f"{blas['name']} {blas.get('version', '')}"
        return {"blas": name, "device": "cpu", "threads": threads}

    def check(self, job: Job) -> None:
        """Refuse what this trainer cannot do, rather than train without it."""
        recipe, name = job.recipe, job.entry.name
        for asked, what in (
            (job.device not in ("auto", "cpu"), f"there is no device {job.device!r} for NumPy"),
            (recipe.compile, "NumPy has nothing to compile"),
            (recipe.precision != "float32", f"NumPy does not train in {recipe.precision}"),
            (process()[1] > 1, "the NumPy trainer is one process"),
            (job.entry.task != "classification", "the NumPy trainer trains classifiers only"),
            (not job.dataset.classes, f"{name!r} is a classifier, and the pictures have no labels"),
        ):
            if asked:
                raise OptionError(f"model {name!r} cannot be trained like this: {what}")
        for option, value in recipe.task.items():
            if option != "loss" or value not in LOSSES:
                problem = f"the task of model {name!r} has no option {option!r} that is {value!r}"
                raise OptionError(problem, f"it has: loss, {' or '.join(LOSSES)}")

    def fit(self, job: Job) -> Fitted:
        keep_freed_memory()
        model = self.build(job.entry, {**job.config, "generator": default_rng(job.recipe.seed)})
        model.load_state_dict(job.init or {}, strict=False)
        return Loop(NumpyLearner(job, model), job).fit()

    @no_grad()
    def predict_batch(self, model: nn.Module, images: Array) -> Array:
        logits: Tensor = model.eval()(Tensor(images))
        return logits.data


class NumpyLearner:
    """See zoo_core.train.loop.Learner."""

    def __init__(self, job: Job, model: nn.Module) -> None:
        self.recipe, self.model, self.classes = job.recipe, model, len(job.dataset.classes)
        self.loss = LOSSES[job.recipe.task.get("loss", "cross_entropy")]()
        options = {"lr": job.recipe.lr, "weight_decay": job.recipe.weight_decay}
        if job.recipe.optimizer == "sgd":
            options["momentum"] = job.recipe.momentum
        self.optimizer = OPTIMIZERS[job.recipe.optimizer](model.parameters(), **options)
        self.parts: dict[str, Any] = {"model": model, "optimizer": self.optimizer}  # of the state
        self.published = model  # and evaluated
        if job.recipe.ema:
            self.published = self.parts["ema"] = copy.deepcopy(model)
        self._bad: int | None = None
        self.start_epoch()

    def loading(self) -> dict[str, Any]:
        return {"backend": "numpy"}

    def start_epoch(self) -> None:
        self._sums = {"count": 0.0, "loss": 0.0, "accuracy": 0.0}

    def step(self, batch: Batch, place: Place) -> None:
        self.model.train()
        for number, layer in enumerate(self.model.modules()):
            if isinstance(layer, nn.Dropout):
                # It depends on the position alone, so that there is no generator state to save.
                layer.generator = default_rng([self.recipe.seed, place.epoch, place.batch, number])
        self.optimizer.zero_grad()
        with np.errstate(all="ignore"):  # a loss that is no number is reported in a sentence
            for part in batch.split(self.recipe.accumulate):
                self._learn(part, place)
            if self.recipe.clip_grad:
                self._clip_gradients(self.recipe.clip_grad)
            self.optimizer.param_groups[0]["lr"] = place.lr
            self.optimizer.step()
        if self.recipe.ema:
            self._average(place.step)

    def _learn(self, batch: Batch, place: Place) -> None:
        logits: Tensor = self.model(Tensor(batch.images))  # (B, classes)
        loss: Tensor = self.loss(logits, self._targets(batch, logits.shape[1]))
        # Shares of the whole batch, so that the gradients of its parts add up to its mean's.
        loss.backward(len(batch) / place.size)
        self._sums["count"] += len(batch)
        self._sums["loss"] += loss.item() * len(batch)
        self._sums["accuracy"] += int((logits.data.argmax(1) == batch.labels).sum())
        if self._bad is None and not math.isfinite(loss.item()):
            self._bad = place.step

    def _targets(self, batch: Batch, classes: int) -> Array:
        """The probability of each class that the model should say, (B, classes)."""
        one_hot, smoothing = np.eye(classes, dtype=np.float32), self.recipe.label_smoothing
        wanted = one_hot[batch.labels]
        if batch.mixed_labels is not None:
            share = batch.weight[:, None]
            wanted = share * wanted + (1 - share) * one_hot[batch.mixed_labels]
        return np.asarray(wanted * (1 - smoothing) + smoothing / classes, np.float32)

    def _clip_gradients(self, limit: float) -> None:
        """Scale all gradients down together, so that their norm is at most the limit."""
        grads = [p.grad.data for p in self.model.parameters() if p.grad is not None]
        norm = math.sqrt(sum(float(np.vdot(grad, grad)) for grad in grads))
        for grad in grads:
            grad *= min(1.0, limit / (norm + 1e-6))

    def _average(self, step: int) -> None:
        """Move the averaged weights towards the current ones; quickly at first, then slowly."""
        weight = 1 - min(self.recipe.ema, (1 + step) / (10 + step))
        now = self.model.state_dict()
        for name, mean in self.published.state_dict().items():
            if mean.dtype.kind == "f":
                now[name] = mean + weight * (now[name] - mean)
        self.published.load_state_dict(now)

    def totals(self, everywhere: bool = False) -> dict[str, float]:
        count = self._sums["count"]
        return {name: self._sums[name] / count for name in ("loss", "accuracy") if count}

    def first_bad_step(self) -> int | None:
        return self._bad

    @no_grad()
    def evaluate(self, loader: Loader) -> dict[str, float]:
        """Whatever was trained on, the loss is cross-entropy: figures of runs can be compared."""
        totals = ClassificationTotals(self.classes)
        for batch in loader.epoch(0):
            totals.add(self.published.eval()(Tensor(batch.images)).data, batch.labels)
        return totals.summary()

    def any_process(self, flag: bool) -> bool:
        return flag

    def weights(self) -> dict[str, Array]:
        return self.published.state_dict()

    def state(self) -> State:
        parts = {name: part.state_dict().items() for name, part in self.parts.items()}
        tensors = {f"{part}.{name}": a for part, arrays in parts.items() for name, a in arrays}
        return State(tensors, {"sums": self._sums})

    def load(self, state: State) -> None:
        for name, part in self.parts.items():
            start = f"{name}."
            own = {k: array for k, array in state.tensors.items() if k.startswith(start)}
            part.load_state_dict({k.removeprefix(start): array for k, array in own.items()})
        self._sums = dict(state.values["sums"])


def keep_freed_memory() -> None:
    """Spare a fifth of the time of training lenet_numpy: what the system takes to clear memory.

    glibc gives large freed blocks back to the system and asks for them again at every step. Once it
    has seen 31 MB freed, it keeps blocks up to that size. Elsewhere this does nothing.
    """
    np.empty(31 << 20, dtype=np.uint8)
