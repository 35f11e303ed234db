"""The trainer of frozen models: the pictures are seen once, and then only their features.

Search, early stopping, final training and evaluation run on the feature cache with the ordinary
loop; a checkpoint holds the head alone. What comes out is a whole model, which predicts from
pictures: its file has the head and the digest of the backbone.

Batches of features, with the interface of the loader of pictures; see data/loader.py.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from zoo_core.data.dataset import Dataset, Split
from zoo_core.data.draws import Draws, permutation
from zoo_core.data.features import FEATURE_DTYPES, Features, digest_of_tensors
from zoo_core.data.loader import EVALUATION_BATCH, Batch, Loader
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.errors import OptionError
from zoo_core.io.process import process
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import TensorSpec
from zoo_core.spec.recipe import FrozenDict
from zoo_core.torch.backbones import OPTION, BackboneWeights, Say, backbone_weights, digest_in
from zoo_core.torch.extract import VIEWS, Backbone, batch_for, cached, extract
from zoo_core.torch.frozen_model import FrozenModel
from zoo_core.torch.learner import TorchLearner
from zoo_core.torch.runtime import choose_device
from zoo_core.torch.task import Classification, Update
from zoo_core.torch.trainer import TorchTrainer, to_arrays
from zoo_core.train.checkpoint import prefixed
from zoo_core.train.display import Display
from zoo_core.train.job import Fitted, Job, cannot_train
from zoo_core.train.loop import Loop
from zoo_core.weights.store import say

OPTIONS = {"dtype": FEATURE_DTYPES[0], "batch": 0}  # of the pass: `task.dtype`, `task.batch`
BACKBONE = "backbone."
LBFGS = "zoo_core.torch.frozen:Lbfgs"
ITERATIONS, HISTORY = 25, 10  # of L-BFGS in an epoch; it forgets between epochs, so that the head
# is all that there is to save
TIMED = 16  # pictures that say how long one takes from its pixels on


class FrozenTrainer(TorchTrainer):
    # L-BFGS finds its steps by itself; how much to shrink is open.
    optimizers = {**TorchTrainer.optimizers, "lbfgs": "weight_decay=log:1e-06:0.01"}
    # Of the last model: a search asks for the same a hundred times, and a backbone is large.
    _last: ClassVar[tuple[str, TensorSpec]] = ("", {})

    # ------------------------------------------------------------ weights

    def _whole_spec(self, entry: ModelEntry, config: Mapping[str, Any]) -> TensorSpec:
        key = json.dumps([entry.target, config], sort_keys=True, default=str)
        if FrozenTrainer._last[0] != key:
            FrozenTrainer._last = key, super().tensor_spec(entry, config)
        return FrozenTrainer._last[1]

    def complete(self, entry: ModelEntry, config: Mapping[str, Any], say: Say) -> dict[str, Any]:
        """The options of a model to train, with its backbone named by digest; fetched if needed."""
        found = self._backbone_weights(entry, config, say)
        return {**config, OPTION: found.reference}

    def _backbone_weights(
        self, entry: ModelEntry, config: Mapping[str, Any], say: Say
    ) -> BackboneWeights:
        whole = self._whole_spec(entry, config)
        spec = {
            name.removeprefix(BACKBONE): shape
            for name, shape in whole.items()
            if name.startswith(BACKBONE)
        }
        return backbone_weights(entry, config, spec, say)

    def tensor_spec(self, entry: ModelEntry, config: Mapping[str, Any]) -> TensorSpec:
        """Of the head alone, where the options name the backbone by digest."""
        spec = self._whole_spec(entry, config)
        if not digest_in(config):
            return dict(spec)
        return {name: shape for name, shape in spec.items() if not name.startswith(BACKBONE)}

    def assemble(
        self,
        entry: ModelEntry,
        config: Mapping[str, Any],
        tensors: Mapping[str, np.ndarray],
        *,
        device: str = "cpu",
        dtype: str = "",
    ) -> nn.Module:
        _, tensors = self.whole(entry, config, tensors)
        return super().assemble(entry, config, tensors, device=device, dtype=dtype)

    def whole(
        self, entry: ModelEntry, config: Mapping[str, Any], tensors: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Options and tensors of the same model with its backbone inside."""
        if not digest_in(config):
            return dict(config), dict(tensors)
        found = self._backbone_weights(entry, config, say)
        return {**config, OPTION: ""}, {**prefixed(BACKBONE, found.tensors), **tensors}

    # ------------------------------------------------------------ training

    def check(self, job: Job) -> None:
        choose_device(job.device)
        job.check_task(OPTIONS)
        recipe, options = job.recipe, {**OPTIONS, **job.recipe.task}
        if options["dtype"] not in FEATURE_DTYPES:
            raise OptionError(
                f"task.dtype cannot be {options['dtype']!r}",
                f"it is: {' or '.join(FEATURE_DTYPES)}",
            )
        if not isinstance(options["batch"], int) or options["batch"] < 0:
            raise OptionError(f"task.batch must be a whole number, not {options['batch']!r}")
        views = [word for word in recipe.augment if word not in VIEWS]
        solver = recipe.optimizer == "lbfgs"
        for asked, what in (
            (bool(views), f"augments with {' or '.join(VIEWS)}, not with {', '.join(views)}"),
            (recipe.mixup > 0, "has no mixup"),
            (recipe.precision != "float32", f"does not train in {recipe.precision}"),
            (process()[1] > 1, "is one process"),
            (job.entry.task != "classification", "trains classifiers only"),
            (solver and recipe.accumulate > 1, "gives lbfgs all features at once"),
        ):
            if asked:
                raise cannot_train(job, what)
        self.check_optimizer(job)

    def fit(self, job: Job) -> Fitted | None:
        job = frozen_job(job, self.features(job))
        model = self._sketch(job.entry, job.config)
        torch.manual_seed(job.recipe.seed)
        head = Head(model.head.to_empty(device="cpu"))
        for layer in head.modules():
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()
        if job.init is not None:
            self.load_state(head, job.init)
        # The test set is measured with the whole model, from the same features.
        return replace(Loop(TorchLearner(job, head), job).fit(), test_scores=None)

    def prepare(self, job: Job) -> Sequence[Path]:
        """Before the first of many trainings: the pass, where a person sees how it goes."""
        return [view.path for views in self.features(job).values() for view in views]

    def features(self, job: Job) -> dict[str, list[Features]]:
        """By split, the views of it; whatever of them is not in the cache is computed now."""
        options = {**OPTIONS, **job.recipe.task}
        backbone = self._backbone(job.entry, job.config)
        resume = f"zoo train --resume {job.run.path}" if job.run else ""

        def of(split: str, view: str) -> Features:
            return extract(
                backbone, job.preprocess, job.dataset, split, view=view, dtype=options["dtype"],
                device=choose_device(job.device), batch=options["batch"],
                display=Display(job.display.quiet), resume=resume,
            )  # fmt: skip

        views = dict.fromkeys(("plain", *job.recipe.augment))
        found = {"train": [of("train", view) for view in views]}
        if job.dataset.test is not None and len(job.dataset.test):
            found["test"] = [of("test", "plain")]
        return found

    def _backbone(self, entry: ModelEntry, config: Mapping[str, Any]) -> Backbone:
        sketch = self._sketch(entry, config)

        def make() -> nn.Module:
            head = to_arrays(self._sketch(entry, config).head.to_empty(device="cpu"))
            model = self.assemble(entry, config, prefixed("head.", head))
            assert isinstance(model, FrozenModel)
            return model.backbone

        return Backbone.of(sketch, digest_in(config), make)

    def _sketch(self, entry: ModelEntry, config: Mapping[str, Any]) -> FrozenModel:
        sketch = self.sketch(entry, config)
        assert isinstance(sketch, FrozenModel), f"{entry.target} must make a zoo.FrozenModel"
        return sketch

    # ------------------------------------------------------------ using

    def predict_batch(self, model: nn.Module, images: Tensor) -> np.ndarray:
        size = batch_for(next(model.parameters()).device, images.shape[2])
        predict = super().predict_batch
        return np.concatenate([predict(model, part) for part in torch.split(images, size)])

    def score_split(
        self, model: nn.Module, preprocess: Preprocess, dataset: Dataset, split: str
    ) -> tuple[np.ndarray, float]:
        """Scores of all pictures of a split from their features, and milliseconds for a picture.

        The time is that of the whole model, taken of a few pictures.
        """
        assert isinstance(model, FrozenModel)
        digest = digest_of_tensors(to_arrays(model.backbone))
        backbone = Backbone.of(model, digest, lambda: model.backbone)
        features = cached(backbone, preprocess, dataset, split) or extract(
            backbone, preprocess, dataset, split, display=Display()
        )
        pictures = dataset.split(split)
        assert pictures is not None
        few = preprocess.batch(list(pictures.images[:TIMED]), backend=self.backend)
        started = time.perf_counter()
        self.predict_batch(model, few)
        taken = 1000 * (time.perf_counter() - started) / len(few)
        with torch.inference_mode():
            rows = torch.split(torch.from_numpy(features.array), EVALUATION_BATCH)
            scores = [model.eval().head(part.float()).numpy() for part in rows]
        return np.concatenate(scores), taken


class Head(nn.Module):
    """What is trained: features to scores, with the names that it has in the whole model."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, features: Tensor) -> Tensor:
        scores: Tensor = self.head(features)
        return scores


class Lbfgs(Classification):
    """The head by L-BFGS: an epoch is a number of its iterations over all features at once."""

    optimizers = ()  # it steps by itself

    def step(self, batch: Batch, update: Update) -> dict[str, Tensor]:
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        solver: Any = torch.optim.LBFGS(
            parameters, max_iter=ITERATIONS, history_size=HISTORY, line_search_fn="strong_wolfe"
        )

        def objective() -> Tensor:
            solver.zero_grad()
            loss = self.loss(self.model(batch.images), batch)
            squares = torch.stack([p.square().sum() for p in parameters if p.ndim > 1]).sum()
            whole = loss + self.recipe.weight_decay / 2 * squares
            torch.autograd.backward(whole)
            return whole

        solver.step(objective)
        with torch.no_grad():
            logits = self.model(batch.images)
            right = (logits.argmax(1) == batch.labels).float().mean()
            return {"loss": self.loss(logits, batch), "accuracy": right}


@dataclass(frozen=True)
class FrozenJob(Job):
    """The same job on features."""

    features: Mapping[str, Sequence[Features]] = field(default_factory=dict)

    def training_loader(self, **how: Any) -> Loader:
        rows = len(self.parts[0])
        size = rows if self.entry.task == LBFGS else min(self.recipe.batch_size, rows)
        return self._loader(
            self.dataset.train, self.features["train"], indices=self.parts[0], batch_size=size,
            seed=self.recipe.seed, **how,
        )  # fmt: skip

    def evaluation_loader(
        self, split: Split, indices: np.ndarray | None = None, **how: Any
    ) -> Loader:
        views = self.features["train" if split is self.dataset.train else "test"]
        return self._loader(
            split, views[:1], indices=indices, batch_size=EVALUATION_BATCH, shuffle=False, **how
        )

    def _loader(self, split: Split, views: Sequence[Features], **how: Any) -> Loader:
        assert split.labels is not None
        return FeatureLoader([view.array for view in views], split.labels, **how)  # type: ignore[return-value]


def frozen_job(job: Job, features: Mapping[str, Sequence[Features]]) -> FrozenJob:
    values = {spec.name: getattr(job, spec.name) for spec in fields(Job)}
    task = LBFGS if job.recipe.optimizer == "lbfgs" else job.entry.task
    values["entry"] = replace(job.entry, task=task)
    values["recipe"] = replace(job.recipe, task=FrozenDict())  # its options were those of the pass
    return FrozenJob(**values, features=features)


class FeatureLoader:
    """The rows `indices` of a split, epoch after epoch, each time from one of its views."""

    def __init__(
        self,
        views: Sequence[np.ndarray],  # (n, width) each, of the same pictures
        labels: np.ndarray,
        *,
        batch_size: int,
        indices: np.ndarray | None = None,
        seed: int = 0,
        shuffle: bool = True,
        device: Any = "cpu",
        **_: Any,  # what only pictures need: backend, channels_last, shard
    ) -> None:
        self.indices = np.arange(len(labels)) if indices is None else np.asarray(indices, np.int64)
        self.batch_size = batch_size
        self._views = [torch.from_numpy(view) for view in views]
        self._labels = labels
        self._seed, self._shuffle, self._device = seed, shuffle, device
        self._order: tuple[int, np.ndarray] = (-1, self.indices)

    def __len__(self) -> int:
        return math.ceil(len(self.indices) / self.batch_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        for number in range(start, len(self)):
            yield self.batch(epoch, number)

    def batch(self, epoch: int, number: int) -> Batch:
        """A function of the settings, the epoch and the number; nothing is remembered."""
        first = number * self.batch_size
        positions = np.arange(first, min(first + self.batch_size, len(self.indices)))
        rows = self.indices[self._epoch_order(epoch)[positions]]
        features = self._rows(0, rows)
        if len(self._views) > 1:
            view = Draws(self._seed, epoch, positions).bits("view") % len(self._views)
            for other in range(1, len(self._views)):
                here = np.flatnonzero(view == other)
                features[torch.from_numpy(here)] = self._rows(other, rows[here])
        labels = torch.from_numpy(self._labels[rows])
        return Batch(features.to(self._device), labels.to(self._device), rows)

    def _rows(self, view: int, rows: np.ndarray) -> torch.Tensor:
        return self._views[view].index_select(0, torch.from_numpy(rows)).float()

    def _epoch_order(self, epoch: int) -> np.ndarray:
        if self._order[0] != epoch:
            count = len(self.indices)
            order = permutation(count, self._seed, epoch) if self._shuffle else np.arange(count)
            self._order = (epoch, order)
        return self._order[1]
