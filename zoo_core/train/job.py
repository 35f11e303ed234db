"""A training job: everything that a trainer is given, and the interface that a trainer has."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from zoo_core.data.arrays import Dataset, Split
from zoo_core.data.loader import Loader
from zoo_core.data.preprocess import Preprocess
from zoo_core.data.splits import subset_indices, train_validation
from zoo_core.errors import OptionError
from zoo_core.models import build_target
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
    # Whether to stop, after the epochs so far; a function of these lines alone, see Loop.fit.
    give_up: Callable[[Sequence[Mapping[str, Any]]], bool] | None = None

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

    def check_task(
        self, options: Collection[str], *, labels: bool = True, mixes: bool = True
    ) -> None:
        """Refuse options that the task has not, and pictures that it can do nothing with.

        labels: whether it needs them; mixes: whether it knows mixed ones.
        """
        for option in self.recipe.task:
            if option not in options:
                known = ", ".join(options) or "none"
                raise OptionError(
                    f"the task of model {self.entry.name!r} has no option {option!r}",
                    f"it has: {known}",
                )
        if labels and not self.dataset.classes:
            what = "is a classifier" if self.entry.task == "classification" else "needs labels"
            raise OptionError(
                f"model {self.entry.name!r} {what}, and {self.dataset.name} has no labels",
                "put the pictures of each class into a folder of its own",
            )
        cutmix = any(word.startswith("cutmix") for word in self.recipe.augment)
        if not mixes and (self.recipe.mixup or cutmix):
            raise OptionError(
                f"the task of model {self.entry.name!r} knows no mixed pictures",
                "leave out mixup and cutmix",
            )

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
    cpu_seconds: float
    images_per_second: float
    remarks: Sequence[str] = ()  # what went wrong, in sentences for the report


@dataclass(frozen=True)
class Description:
    """What there is to say about a built model."""

    trainable: int
    total: int
    bytes: int  # of all tensors
    structure: str


class Trainer(Protocol):
    """What the target of a TrainerEntry must have. The core calls only these.

    What has a body here is for a framework that trains classifiers in one process on a CPU, and
    whose models have torch's names with NumPy's arrays: its trainer inherits it.
    """

    backend: str  # which arrays the loader makes for it: "torch" or "numpy"
    task_options: Mapping[str, Collection[str]] = {}  # for `check` below: values of `task.<name>`

    def build(self, entry: ModelEntry, config: Mapping[str, Any]) -> Any:
        """An untrained model."""
        return build_target(entry, config)

    def sketch(self, entry: ModelEntry, config: Mapping[str, Any]) -> Any:
        """A model that is only looked at, with `describe`; best without memory."""
        return self.build(entry, config)

    def tensor_spec(
        self, entry: ModelEntry, config: Mapping[str, Any]
    ) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of every tensor of the model, by name. Best without allocating them."""
        state = self.build(entry, config).state_dict()
        return {name: (array.shape, str(array.dtype)) for name, array in state.items()}

    def load_state(self, model: Any, tensors: Mapping[str, np.ndarray]) -> None:
        """Put weights into a built model. Names and shapes are already known to fit.

        Tensors that are not given stay as they are. A trainer may also have `assemble`, which makes
        a model that keeps the tensors instead of copying them, and `export`; see TorchTrainer. One
        whose models refer to weights elsewhere has `complete`, `whole` and `score_split`, and one
        that makes something that many trainings share has `ready`; see FrozenTrainer.
        """
        model.load_state_dict(tensors, strict=False)

    def describe(self, model: Any) -> Description:
        parameters = [(math.prod(p.shape), p.requires_grad) for p in model.parameters()]
        return Description(
            trainable=sum(count for count, trained in parameters if trained),
            total=sum(count for count, _ in parameters),
            bytes=sum(array.nbytes for array in model.state_dict().values()),
            structure=str(model),
        )

    def environment(self, device: str) -> dict[str, Any]:
        """For run.json: versions of what the result depends on, `device` and `threads`."""
        blas = np.show_config("dicts")["Build Dependencies"]["blas"]
        asked = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS", "")
        threads = int(asked) if asked.isdigit() else os.cpu_count() or 1
        name = f"{blas['name']} {blas.get('version', '')}"
        return {"blas": name, "device": "cpu", "threads": threads}

    def check(self, job: Job) -> None:
        """Refuse a job that asks for something this trainer cannot do, before it has a run."""
        recipe = job.recipe
        for asked, what in (
            (job.device not in ("auto", "cpu"), f"has no device {job.device!r}"),
            (recipe.compile, "has nothing to compile"),
            (recipe.precision != "float32", f"does not train in {recipe.precision}"),
            (recipe.optimizer == "lbfgs", "has no lbfgs"),
            (process()[1] > 1, "is one process"),
            (job.entry.task != "classification", "trains classifiers only"),
        ):
            if asked:
                raise OptionError(
                    f"model {job.entry.name!r} cannot be trained like this: its trainer, "
                    f"{job.entry.trainer}, {what}"
                )
        job.check_task(self.task_options)
        for option, value in recipe.task.items():
            if value not in (allowed := self.task_options[option]):
                raise OptionError(
                    f"task.{option} of model {job.entry.name!r} cannot be {value!r}",
                    f"it is: {' or '.join(allowed)}",
                )

    def fit(self, job: Job) -> Fitted | None:
        """Train. None in a process that does not own the run."""

    def predict_batch(self, model: Any, images: Any) -> np.ndarray:
        """Scores (B, classes) of a batch that the loader or `Preprocess` made."""

    def measure(
        self,
        entry: ModelEntry,
        model: Any,
        recipe: Recipe,
        loader: Loader,
        classes: tuple[str, ...],
    ) -> dict[str, float]:
        """Figures of the pictures of a loader, for a model whose task is not classification."""
        raise OptionError(f"trainer {entry.trainer!r} measures classifiers only")


def optimizer_options(recipe: Recipe) -> dict[str, float]:
    """What a recipe says to the optimiser that it names. The rate is set anew at every step."""
    options = {"lr": recipe.lr, "weight_decay": recipe.weight_decay}
    return options | ({"momentum": recipe.momentum} if recipe.optimizer == "sgd" else {})


def process() -> tuple[int, int]:
    """The number of this process and how many train together, as torchrun tells them."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
