"""How the zoo trains a model of this framework: the same loop, runs and metrics as for torch.

A model's class takes its options and a `generator`, from which all its weights are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import default_rng

import zoo
from zoo_numpy import nn, optim
from zoo_numpy.tensor import Array, Tensor, no_grad

LOSSES = {"cross_entropy": nn.CrossEntropyLoss, "mse": nn.MSELoss}
OPTIMIZERS = {"sgd": optim.SGD, "adam": optim.Adam, "adamw": optim.AdamW}


class NumpyTrainer(zoo.Trainer):
    """What zoo.Trainer leaves to a framework."""

    honours = zoo.Loop.honours | {
        "optimizer", "momentum", "weight_decay", "label_smoothing", "clip_grad", "init",
        "class_weights",
    }  # fmt: skip
    task_options = {"loss": LOSSES}
    capabilities = {"onnx": "zoo_numpy.onnx:to_onnx"}

    def check(self, job: zoo.Job) -> None:
        super().check(job)
        if job.recipe.class_weights != "none" and job.recipe.task.get("loss") == "mse":
            raise zoo.OptionError("class_weights are those of the loss cross_entropy, not of mse")

    def tensor_spec(self, entry: zoo.ModelEntry, config: Mapping[str, Any]) -> dict[str, Any]:
        """Without memory: the options may be anybody's."""
        model = self.build(entry, {**config, "generator": nn.Weightless()})
        tensors = model.tensors().items()
        return {name: (tensor.shape, str(tensor.data.dtype)) for name, tensor in tensors}

    def assemble(self, *given: Any, **how: Any) -> nn.Module:
        model: nn.Module = super().assemble(*given, **how)
        return model.eval()

    def fit(self, job: zoo.Job) -> zoo.Fitted:
        model = self.build(job.entry, {**job.config, "generator": default_rng(job.recipe.seed)})
        model.load_state_dict(job.init or {}, strict=False)
        return zoo.Loop(NumpyLearner(job, model), job).fit()

    @no_grad()
    def predict_batch(self, model: nn.Module, images: Array) -> Array:
        logits: Tensor = model.eval()(Tensor(images))
        return logits.data


class NumpyLearner(zoo.Learner):
    """What zoo.Learner leaves to a framework."""

    def __init__(self, job: zoo.Job, model: nn.Module) -> None:
        super().__init__(job, model)
        self.loss = LOSSES[job.recipe.task.get("loss", "cross_entropy")]()
        recipe = job.recipe
        self.class_weights = self.targets.weights(recipe.class_weights)
        options = {"lr": recipe.lr, "weight_decay": recipe.weight_decay}
        if recipe.optimizer == "sgd":
            options["momentum"] = recipe.momentum
        self.optimizer = OPTIMIZERS[recipe.optimizer](model.parameters(), **options)
        self.parts["optimizer"] = self.optimizer

    @np.errstate(all="ignore")  # the loop reports a loss that is not a number
    def step(self, batch: zoo.Batch, place: zoo.Position) -> None:
        self.model.train()
        for number, layer in enumerate(self.model.modules()):
            if isinstance(layer, nn.Dropout):
                # It depends on the position alone, so that there is no generator state to save.
                layer.generator = default_rng([self.recipe.seed, place.epoch, place.batch, number])
        super().step(batch, place)

    def learn(self, batch: zoo.Batch, place: zoo.Position, last: bool) -> None:
        logits: Tensor = self.model(Tensor(batch.images))  # (B, classes)
        wanted = batch.targets(logits.shape[1], self.recipe.label_smoothing, self.class_weights)
        loss: Tensor = self.loss(logits, wanted)
        # Shares of the whole batch, so that the gradients of its parts add up to its mean's.
        loss.backward(len(batch) / place.size)
        right = int((logits.data.argmax(1) == batch.labels).sum())
        self.add({"loss": loss.item() * len(batch), "accuracy": right}, len(batch))
        if self.bad_step is None and not math.isfinite(loss.item()):
            self.bad_step = place.step
        if last:
            if self.recipe.clip_grad:
                self._clip_gradients(self.recipe.clip_grad)
            self.optimizer.param_groups[0]["lr"] = place.lr
            self.optimizer.step()
            self.optimizer.zero_grad()

    def _clip_gradients(self, limit: float) -> None:
        """Scale all gradients down together, so that their norm is at most the limit."""
        grads = [p.grad.data for p in self.model.parameters() if p.grad is not None]
        norm = math.sqrt(sum(float(np.vdot(grad, grad)) for grad in grads))
        for grad in grads:
            grad *= min(1.0, limit / (norm + 1e-6))

    def scores(self, images: Array) -> Array:
        return NumpyTrainer().predict_batch(self.published, images)
