"""The task of a student: to say what its teachers say of an image, and what its label is."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import zoo
from zoo import kit

AGAIN = "zoo blend TEACHER... --distil STUDENT computes them again"


class Distil(zoo.Classification):
    """Knowledge distillation (Hinton, Vinyals and Dean, arXiv 1503.02531).

    The loss is truth * cross-entropy of the labels + (1 - truth) * T² * the divergence from what
    the teachers say, both softened by the temperature T. The teachers have seen the images as they
    are; the student sees them augmented.
    """

    options = {"scores": "", "teachers": (), "weights": (), "temperature": 2.0, "truth": 0.1}

    @classmethod
    def check(cls, job: zoo.Job) -> None:
        super().check(job)
        given = {**cls.options, **job.recipe.task}
        hot, truth = given["temperature"], given["truth"]
        if not isinstance(hot, int | float) or not 0.1 <= hot <= 100:
            raise ValueError(f"task.temperature is a number from 0.1 to 100, not {hot!r}")
        if not isinstance(truth, int | float) or not 0 <= truth < 1:
            raise ValueError(f"task.truth is a share from 0 to 1, without 1, not {truth!r}")
        found = _read(given["scores"])
        known = found["scores"].shape[1] == len(job.dataset.classes)
        labels = job.dataset.train.labels
        if not known or labels is None or not np.array_equal(found["labels"], labels):
            what = f"the teachers have seen other images than those of {job.dataset.name}"
            raise ValueError(f"{what}; {AGAIN}")
        about = json.loads(bytes(found["about"]))
        if about != {name: [*given[name]] for name in about}:
            raise ValueError(f"task.teachers and task.weights are those of other scores; {AGAIN}")

    def __init__(self, model: nn.Module, recipe: zoo.Recipe, targets: zoo.Targets) -> None:
        super().__init__(model, recipe, targets)
        self.temperature = float(self.settings["temperature"])
        self.truth = float(self.settings["truth"])
        scores = _read(self.settings["scores"])["scores"]
        logs = torch.from_numpy(np.log(np.maximum(scores, 1e-12)))
        self.taught = F.softmax(logs / self.temperature, 1)  # (n, classes)

    def step(self, batch: zoo.Batch, update: zoo.Update) -> dict[str, Tensor]:
        outputs = self.outputs(self.model, batch)
        losses = self._both(outputs, batch.labels, batch.indices)
        if batch.mixed_labels is not None:
            mixed = self._both(outputs, batch.mixed_labels, batch.mixed_indices)
            losses = batch.weight * losses + (1 - batch.weight) * mixed
        loss = losses.mean()
        update("model", loss)
        return {"loss": loss.detach(), **self.seen(outputs.detach(), batch.labels)}

    def _both(self, outputs: Tensor, labels: Tensor, indices: Any) -> Tensor:
        """The loss of each image, (B,)."""
        taught = self.taught[torch.from_numpy(indices)].to(outputs.device)
        said = F.log_softmax(outputs.float() / self.temperature, 1)
        apart = F.kl_div(said, taught, reduction="none").sum(1) * self.temperature**2
        plain = self.loss(outputs, labels, "none")
        return torch.lerp(apart, plain.float(), self.truth)


@functools.lru_cache(maxsize=1)
def _read(digest: str) -> dict[str, np.ndarray]:
    """The scores of all training images, the labels of these, and who the teachers are."""
    from safetensors.numpy import load

    file = kit.cache_dir("blend") / f"{digest}.safetensors"
    try:
        if kit.file_digest(file) != digest:
            raise ValueError("the file was changed")
        found = load(file.read_bytes())
    except (OSError, ValueError) as error:
        what = f"the scores of the teachers are not in the cache: {kit.describe(error)}"
        raise zoo.ZooError(what, AGAIN) from error
    return found
