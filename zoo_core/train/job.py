"""A training job: everything that a trainer is given, and the interface that a trainer has."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from zoo_core.data.dataset import Dataset, Split
from zoo_core.data.loader import EVALUATION_BATCH, Loader
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.errors import OptionError, check_names
from zoo_core.io.process import process
from zoo_core.io.targets import describe
from zoo_core.runs.run import Run
from zoo_core.spec.answers import NONE, WORDS, Targets
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import Config, Description, Framework, framework_of
from zoo_core.spec.plugins import load_plugins
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import registry
from zoo_core.spec.settings import FIELDS, as_typed
from zoo_core.train.display import Display

Say = Callable[[str], None]

# What a search varies where nobody says: Adam's rates are those of the published search. A trainer
# that names no optimisers has exactly these; torch's own table is OPTIMIZERS in torch/task.py.
_RATES = f"lr=log:{math.exp(-10)!r}:{math.exp(-4)!r}"
SEARCHED = {"adam": _RATES, "adamw": _RATES, "sgd": "lr=log:0.001:1.0"}
# Fields of a recipe that the core applies for every trainer: they decide what a Job hands over.
APPLIED = frozenset(
    {"subset", "validation_fraction", "preprocess", "seed", "portable", "model", "task", "data"}
)


class Events:
    """The listeners of one run. One that raises is warned about and dropped."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._listeners, self._warn = load_plugins().listeners(), warn

    def send(self, hook: str, **arguments: Any) -> None:
        for plugin, hooks in list(self._listeners.items()):
            try:
                getattr(hooks, hook)(**arguments)
            except (Exception, SystemExit) as error:
                del self._listeners[plugin]
                what = f"plugin {plugin!r} raised {describe(error)} in {hook}"
                self._warn(f"{what}; it is not called again in this run")


@dataclass(frozen=True)
class Job:
    """One training, with all that decides it. Only the process that has `run` writes to it."""

    entry: ModelEntry
    trainer: Trainer
    config: Config  # all options of the model
    dataset: Dataset
    parts: tuple[np.ndarray, np.ndarray]  # of the training split: to train on, for validation
    recipe: Recipe
    preprocess: Preprocess
    events: Events
    display: Display
    device: str = "auto"
    checkpoint_seconds: float = 30.0
    run: Run | None = None  # None before it starts, and in all processes but the first
    resume_from: Run | None = None
    described: Description | None = None  # of the model; None where the run has it already
    init: Mapping[str, np.ndarray] | None = None  # tensors to start from, already checked
    # Whether to stop, after the epochs so far; a function of these lines alone, see Loop.fit.
    give_up: Callable[[Sequence[Mapping[str, Any]]], bool] | None = None
    loader: Callable[..., Loader] = Loader  # a trainer may read something other than images

    def check_task(
        self,
        options: Collection[str],
        *,
        needs: Collection[str] = ("class",),
        mixes: bool = True,
        smooths: bool = True,
        weighs: bool = True,
    ) -> None:
        """Refuse unknown options, data without the labels it needs, and what it would ignore.

        needs: kinds of targets, "class", "classes", "numbers" and "none"; (): any.
        """
        task = f"the task of model {self.entry.name!r}"
        check_names(task, self.recipe.task, options)
        found = self.dataset.targets.kind
        if needs and found not in needs:
            wanted = " or ".join(WORDS[kind] for kind in needs)
            raise OptionError(
                f"model {self.entry.name!r} needs {wanted}, and {self.dataset.name} has "
                f"{WORDS[found]}",
                "put the images of each class into a folder of its own"
                if found == NONE
                else f"models that are trained whole learn them: {', '.join(_trained_whole())}",
            )
        cutmix = any(word.split("/")[-1].startswith("cutmix") for word in self.recipe.augment)
        if not mixes and (self.recipe.mixup or cutmix):
            raise OptionError(f"{task} does not support mixed images", "leave out mixup and cutmix")
        if not smooths and self.recipe.label_smoothing:
            raise OptionError(f"{task} does not use label_smoothing", "leave it out")
        asked, classes = self.recipe.class_weights, len(self.dataset.targets.names)
        if not weighs and asked != "none":
            raise OptionError(f"{task} does not use class_weights", "leave it out")
        if isinstance(asked, tuple) and len(asked) != classes:
            what = f"class_weights has {len(asked)} numbers for {classes} classes"
            names = ", ".join(self.dataset.targets.names)
            raise OptionError(what, f"give one for each of {names}, in this order")

    def training_loader(self, **how: Any) -> Loader:
        """Batches to learn from. `how` is the learner's: backend, device, channels_last, shard."""
        recipe, data, indices = self.recipe, self.dataset.train, self.parts[0]
        how |= {"augment": recipe.augment, "mixup": recipe.mixup, "seed": recipe.seed}
        how |= {"batch_size": min(recipe.batch_size, len(indices)), "preprocess": self.preprocess}
        how["pairs"] = self.trainer.pairs(self.entry, self.dataset.targets)
        return self.loader(data, indices=indices, **how)

    def training_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """All images to train on at once, float32 (n, c, h, w), and their labels, as in zoo.Split.

        As evaluation sees them, in their order: for a trainer that fits in one go.
        """
        loader = self.evaluation_loader(self.dataset.train, self.parts[0], backend="numpy")
        batches = [(batch.images, batch.labels) for batch in loader.epoch(0)]
        images, labels = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
        return images, labels

    def evaluation_loader(
        self, split: Split, indices: np.ndarray | None = None, **how: Any
    ) -> Loader:
        """The images of a split in their order, as they are."""
        how |= {"batch_size": EVALUATION_BATCH, "preprocess": self.preprocess, "shuffle": False}
        return self.loader(split, indices=indices, **how)


def _trained_whole() -> list[str]:
    """Some models that learn whatever labels there are."""
    models = registry().models
    return [one.name for one in models if one.trainer == "torch" and not one.own_task][:3]


@dataclass(frozen=True)
class Fitted:
    """What a trainer gives back: the weights, and how it went.

    A trainer that fits in one go gives `Fitted(tensors)`; the core then takes the time.
    """

    tensors: Mapping[str, np.ndarray]  # with the names and dtypes of tensor_spec
    epochs: int = 1
    best_epoch: int | None = None  # by validation loss; 0: the weights are of before the first
    stopped_early: bool = False
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    images_per_second: float = 0.0
    remarks: Sequence[str] = ()  # what went wrong, in sentences for the report
    # What a classifier with exactly these weights says of the test set, where that is known.
    test_scores: np.ndarray | None = None
    # Options in which the finished model differs from the job's: those that its tensors fit.
    config: Config = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)  # more for the `result` of run.json


class Trainer(Framework):
    """A framework that can train; what the target of a TrainerEntry must be. Subclass it.

    `fit` and `predict_batch` are yours to write. The core refuses a recipe that sets anything that
    is not in `honours`, and run.json records only what is. So name there what your code reads: a
    trainer that uses the zoo's loop writes `honours = zoo.Loop.honours | {"optimizer", ...}`.
    """

    honours: Collection[str] = APPLIED  # fields of the recipe; those here are always honoured
    # With "optimizer" in honours: it has these, and what a search varies with each.
    optimizers: Mapping[str, str] = SEARCHED
    task_options: Mapping[str, Collection[str]] = {}  # for `check`: values of `task.<name>`
    needs: Collection[str] = ("class",)  # for `check`: the labels it can learn; see Job.check_task

    def check(self, job: Job) -> None:
        """Refuse what this trainer cannot do; here, all but classifiers in one CPU process.

        It is called before a run exists and before anything is fetched; raise a zoo.ZooError.
        """
        refuse(job, {f"has no device {job.device!r}": job.device not in ("auto", "cpu")})
        self.check_optimizer(job)
        job.check_task(self.task_options, needs=self.needs)
        for option, value in job.recipe.task.items():
            if value not in (allowed := self.task_options[option]):
                raise OptionError(
                    f"task.{option} of model {job.entry.name!r} cannot be {value!r}",
                    f"it is: {' or '.join(allowed)}",
                )

    def check_optimizer(self, job: Job) -> None:
        """Refuse an optimiser that this trainer does not have; some have none."""
        if "optimizer" in self.honours and job.recipe.optimizer not in self.optimizers:
            raise OptionError(
                f"model {job.entry.name!r} cannot be trained with {job.recipe.optimizer!r}: its "
                f"trainer, {job.entry.trainer}, has no such optimizer",
                f"choose {' or '.join(self.optimizers)}",
            )

    def updates(self, recipe: Recipe, images: int) -> int | None:
        """How often a training changes the weights; None: it decides that by itself."""
        if not {"epochs", "batch_size"} <= honoured(self):
            return None
        return recipe.epochs * math.ceil(images / recipe.batch_size)

    def complete(self, entry: ModelEntry, config: Config, say: Say) -> dict[str, Any]:
        """The options of a model to train, with what only this machine can tell filled in.

        For options such as the digest of weights that have to be fetched first; `say` tells a
        person what takes long.
        """
        return dict(config)

    def default_recipe(self, entry: ModelEntry, settings: Mapping[str, Any]) -> str:
        """The recipe that a training starts from where nobody names one, by what is set."""
        return "default"

    def further(
        self,
        job: Job,
        name: str,
        settings: Mapping[str, Any],
        build: Callable[[str, Mapping[str, Any]], Job],
        say: Say,
    ) -> tuple[Job, str]:
        """The job to train, and its recipe's name, where nobody names one: this, or a longer one.

        Asked once, before a run begins, so it may measure. settings: what a person has set;
        build: gives the job of another recipe, with these and more settings.
        """
        return job, name

    def outline(self, job: Job) -> Description:
        """How large the model of a job is, and how much of it this training changes."""
        return self.describe(self.sketch(job.entry, job.config))

    def choose_precision(self, job: Job) -> str:
        """What `precision=auto` means for this job on this machine; it may measure."""
        return "float32"

    def prepare(self, job: Job) -> Sequence[Path]:
        """Make what many trainings of this sort share, and give its files; a search calls it once.

        For work such as the features of a frozen backbone; here there is nothing to share.
        """
        return ()

    def pairs(self, entry: ModelEntry, targets: Targets) -> bool:
        """Whether batches to learn from have each image twice, augmented apart: `Batch.second`."""
        return False

    @abstractmethod
    def fit(self, job: Job) -> Fitted:
        """Train, and give back the weights: in every process, where several train together.

        job.init: tensors to start from, for a trainer that honours `init`. job.resume_from: the run
        to go on with, which `zoo.Loop` does from its last checkpoint. A trainer without checkpoints
        simply trains again. A line of metrics.jsonl for each epoch is the loop's work; where there
        is none at the end, the core measures and writes one.
        """


def honoured(trainer: Trainer) -> frozenset[str]:
    """The fields of a recipe that a training with this trainer depends on."""
    return APPLIED | frozenset(trainer.honours)


def ignored(trainer: Trainer, recipe: Recipe) -> dict[str, Any]:
    """What a recipe sets, and this trainer would not notice."""
    others = (name for name in FIELDS if name not in honoured(trainer))
    return {name: value for name in others if (value := getattr(recipe, name)) != FIELDS[name]}


def refuse_ignored(entry: ModelEntry, trainer: Trainer, recipe: Recipe) -> None:
    """Refuse a recipe that asks for what would not happen."""
    for name, value in ignored(trainer, recipe).items():
        used = ", ".join(field for field in FIELDS if field in honoured(trainer))
        raise OptionError(
            f"model {entry.name!r} cannot be trained with {name}={as_typed(value)}: its trainer, "
            f"{entry.trainer}, does not use {name}",
            f"leave out {name}; it uses: {used}",
        )


def refuse(job: Job, more: Mapping[str, bool]) -> None:
    """Refuse what a trainer of classifiers in one process cannot do; more: in words, if asked."""
    several, other_task = process()[1] > 1, job.entry.own_task
    ours = {"is one process": several, "has no tasks of plugins": other_task}
    for what, asked in {**more, **ours}.items():
        if asked:
            raise OptionError(
                f"model {job.entry.name!r} cannot be trained like this: its trainer, "
                f"{job.entry.trainer}, {what}"
            )


def trainer_of(entry: ModelEntry) -> Trainer:
    """The trainer that a model names, ready to use."""
    return cast(Trainer, framework_of(entry))
