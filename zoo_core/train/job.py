"""A training job: everything that a trainer is given, and the interface that a trainer has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from zoo_core.data.arrays import Dataset, Split
from zoo_core.data.loader import Loader
from zoo_core.data.preprocess import Preprocess
from zoo_core.data.splits import subset_indices, train_validation
from zoo_core.errors import OptionError
from zoo_core.train.run import Run
from zoo_core.types import ModelEntry, Recipe

if TYPE_CHECKING:
    from zoo_core.train.display import Display
    from zoo_core.train.events import Events

EVALUATION_BATCH = 256


@dataclass(frozen=True)
class Job:
    """One training, fully decided. Only the process that owns `run` writes to it."""

    entry: ModelEntry
    config: Mapping[str, Any]  # all options of the model
    dataset: Dataset
    recipe: Recipe
    preprocess: Preprocess
    run: Run | None  # None in all processes of a distributed training but the first
    events: Events
    display: Display
    device: str = "auto"
    resume_from: Run | None = None
    checkpoint_seconds: float = 30.0
    init: Mapping[str, np.ndarray] | None = None  # tensors to start from, already checked

    @cached_property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices into the training split: what is trained on, what is kept for validation."""
        recipe, labels = self.recipe, self.dataset.train.labels
        indices = subset_indices(len(self.dataset.train), recipe.subset, recipe.seed, labels)
        if not recipe.validation_fraction:
            return indices, indices[:0]
        train, validation = train_validation(
            indices, recipe.validation_fraction, recipe.seed, labels
        )
        if not len(validation):
            raise OptionError(
                f"validation_fraction {recipe.validation_fraction:g} of {len(indices)} pictures "
                "leaves none for validation"
            )
        return train, validation

    def training_loader(self, **how: Any) -> Loader:
        """Batches to learn from. `how` is the learner's: backend, device, channels_last, shard."""
        recipe = self.recipe
        return Loader(
            self.dataset.train,
            indices=self.parts[0],
            batch_size=min(recipe.batch_size, len(self.parts[0])),
            preprocess=self.preprocess,
            augment=recipe.augment,
            mixup=recipe.mixup,
            seed=recipe.seed,
            **how,
        )

    def evaluation_loader(
        self, split: Split, indices: np.ndarray | None = None, **how: Any
    ) -> Loader:
        """The pictures of a split in their order, as they are."""
        return Loader(
            split,
            indices=indices,
            batch_size=EVALUATION_BATCH,
            preprocess=self.preprocess,
            shuffle=False,
            **how,
        )


@dataclass(frozen=True)
class Fitted:
    """What a trainer gives back: the weights, and how it went."""

    tensors: Mapping[str, np.ndarray]
    epochs: int
    best_epoch: int | None
    stopped_early: bool
    seconds: float
    images_per_second: float


@dataclass(frozen=True)
class Description:
    """What there is to say about a built model."""

    trainable: int
    total: int
    bytes: int  # of all tensors
    structure: str


class Trainer(Protocol):
    """What the target of a TrainerEntry must have. The core calls only these."""

    backend: str  # which arrays the loader makes for it: "torch" or "numpy"

    def build(self, entry: ModelEntry, config: Mapping[str, Any]) -> Any:
        """An untrained model."""

    def tensor_spec(
        self, entry: ModelEntry, config: Mapping[str, Any]
    ) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of every tensor of the model, by name, without allocating them."""

    def load_state(self, model: Any, tensors: Mapping[str, np.ndarray]) -> None:
        """Put weights into a built model. Names and shapes are already known to fit.

        Tensors that are not given stay as they are. A trainer may also have `assemble`, which makes
        a model that keeps the tensors instead of copying them, and `export`; see TorchTrainer.
        """

    def describe(self, model: Any) -> Description: ...

    def environment(self, device: str) -> dict[str, Any]:
        """For run.json: versions of what the result depends on, `device` and `threads`."""

    def check(self, job: Job) -> None:
        """Refuse a job that asks for something this trainer cannot do, before it has a run."""

    def fit(self, job: Job) -> Fitted | None:
        """Train. None in a process that does not own the run."""

    def predict_batch(self, model: Any, images: Any) -> np.ndarray:
        """Scores (B, classes) of a batch that the loader or `Preprocess` made."""


def process() -> tuple[int, int]:
    """The number of this process and how many train together, as torchrun tells them."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
