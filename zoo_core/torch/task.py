"""What a torch model is trained for: tasks own forward, losses and metrics; the optimisers."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo_core.data.loader import Batch
from zoo_core.io.errors import OptionError, TrainingError
from zoo_core.io.targets import resolve
from zoo_core.spec.answers import (
    CLASS,
    CLASSES,
    NONE,
    NUMBERS,
    Answers,
    ClassAnswers,
    ClassesAnswers,
    Figure,
    NumberAnswers,
    Targets,
)
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.recipe import FrozenDict, Recipe
from zoo_core.spec.registry import command_function
from zoo_core.train.job import SEARCHED, Job

Update = Callable[[str, Tensor], None]
SumOver = Callable[[np.ndarray], np.ndarray]
USE = "use"  # `task.use`: another task than the labels call for


class LBFGS(torch.optim.LBFGS):
    """Weight decay is a penalty on matrices. It forgets between steps, so has nothing to save."""

    def __init__(self, parameters: list[nn.Parameter], weight_decay: float) -> None:
        super().__init__(parameters, max_iter=25, history_size=10, line_search_fn="strong_wolfe")
        self.matrices = [p for p in parameters if p.ndim > 1]
        self.weight_decay = weight_decay

    def step(self, closure: Callable[[], Tensor]) -> Tensor:  # type: ignore[override]
        def objective() -> Tensor:
            loss = closure()
            squares = torch.stack([p.square().sum() for p in self.matrices]).sum()
            penalty = self.weight_decay / 2 * squares
            torch.autograd.backward(penalty)
            return loss + penalty

        loss: Tensor = super().step(objective)  # type: ignore[no-untyped-call]
        self.state.clear()
        return loss


@dataclass(frozen=True)
class Optimizer:
    """An optimiser that recipes can name; add one to the table below, and nowhere else."""

    make: Callable[..., torch.optim.Optimizer]
    searched: str  # what a search varies where nobody says, and how far
    options: tuple[str, ...] = ("lr", "weight_decay")  # fields of the recipe that it takes
    closure: bool = False  # whether a step asks for the loss of all rows, again and again
    adaptive: bool = True  # whether the size of a gradient does not change the size of a step


OPTIMIZERS = {
    "adam": Optimizer(torch.optim.Adam, SEARCHED["adam"]),
    "adamw": Optimizer(torch.optim.AdamW, SEARCHED["adamw"]),
    "sgd": Optimizer(
        torch.optim.SGD, SEARCHED["sgd"], ("lr", "weight_decay", "momentum"), adaptive=False
    ),
    # L-BFGS finds its steps by itself; how much to shrink is open.
    "lbfgs": Optimizer(LBFGS, "weight_decay=log:1e-06:0.01", ("weight_decay",), closure=True),
}


def parameter_groups(model: nn.Module, parameters: list[nn.Parameter], decay: str) -> list[Any]:
    """The parameters of an optimiser, apart by what decays and by how fast each learns.

    A model may have `lr_scales`: factors of the rate, by the names of parameters.
    """
    scales: Mapping[str, float] = getattr(model, "lr_scales", {})
    if decay == "all" and not scales:
        return parameters
    names = {p: name.removeprefix("_orig_mod.") for name, p in model.named_parameters()}
    shrinks = matrices(model, parameters) if decay == "matrices" else set(parameters)
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for p in parameters:
        scale = scales.get(names.get(p, ""), 1.0)
        groups.setdefault((scale, p in shrinks), []).append(p)
    return [
        {"params": given, "lr_scale": scale, **({} if shrunk else {"weight_decay": 0.0})}
        for (scale, shrunk), given in groups.items()
    ]


def matrices(model: nn.Module, parameters: Iterable[nn.Parameter]) -> set[nn.Parameter]:
    """Those that `decay=matrices` shrinks. Norms, biases, tokens, positions and embeddings are no
    matrices, nor is what a module lists by name in its attribute `no_decay`."""
    left_out: set[nn.Parameter] = set()
    for module in model.modules():
        named = ("weight",) if isinstance(module, nn.Embedding) else ()
        named = getattr(module, "no_decay", named)
        left_out.update(p for name, p in module.named_parameters() if name in named)
    return {
        p
        for p in parameters
        if p.ndim > 1 and not (p.ndim == 3 and len(p) == 1) and p not in left_out
    }


class Task(ABC):
    """The base of all tasks. Subclass it for a new sort of training; see docs/training.md.

    The loop calls `step` for every batch. A step computes losses and calls `update(name, loss)`,
    once for each optimiser: that runs backward, clips, and takes the optimiser's step. It returns
    figures of the batch as tensors; nothing in it may wait for the device. `step` may run
    several times for one batch (L-BFGS).
    """

    kinds: tuple[str, ...] = ()  # what its models are for; entries declare the same words
    needs: tuple[str, ...] = ()  # "class", "classes", "numbers", "none"; (): any
    answers: type[Answers] | None = None  # what a model called with images gives; None: no answer
    figures: Mapping[str, Figure] = {"loss": Figure(better="lower")}  # of `evaluate`
    optimizers: tuple[str, ...] = ("model",)
    options: Mapping[str, Any] = {}  # `task.<name>` settings with their defaults
    mixes = False  # whether `step` knows what MixUp and CutMix do to labels
    smooths = False  # whether `step` uses the recipe's label_smoothing
    weighs = False  # whether `step` uses the recipe's class_weights
    pairs = False  # whether `step` needs `batch.second`, each image augmented once more

    @classmethod  # noqa: B027 - optional
    def check(cls, job: Job) -> None:
        """Refuse a job before it has a run: a ValueError says in a sentence what is wrong."""

    def __init__(self, model: nn.Module, recipe: Recipe, targets: Targets) -> None:
        """targets: what the labels are and are called; `settings` has all of `options`."""
        self.model: Any = model  # a subclass knows which network it was written for
        self.recipe = recipe
        self.targets = targets
        self.settings = {**self.options, **recipe.task}
        self.scored: np.ndarray | None = None  # by the last `evaluate` of a supervised task

    def parameters(self, name: str) -> Iterable[nn.Parameter]:
        """The parameters of one of `optimizers`; here, all of the model."""
        return list(self.model.parameters())

    def make_optimizer(self, name: str) -> torch.optim.Optimizer:
        """The optimiser that the recipe names. Its learning rate is set before every step."""
        chosen = OPTIMIZERS[self.recipe.optimizer]
        options: dict[str, Any] = {field: getattr(self.recipe, field) for field in chosen.options}
        # One kernel for all parameters instead of several for each: most of a small model's step.
        if "fused" in inspect.signature(chosen.make).parameters:
            options["fused"] = True
        given = [p for p in self.parameters(name) if p.requires_grad]
        # L-BFGS takes one group, and its penalty is on matrices alone.
        groups = given if chosen.closure else parameter_groups(self.model, given, self.recipe.decay)
        return chosen.make(groups, **options)

    def start(self, model: nn.Module) -> None:  # noqa: B027 - optional
        """Put what the settings decide into a new model, or into the copy that is averaged."""

    @abstractmethod
    def step(self, batch: Batch, update: Update) -> dict[str, Tensor]:
        """Learn from a batch: compute the losses, call `update(name, loss)` for each optimiser.

        Give back means over the batch as detached scalars on the device, `loss` among them.
        """

    @abstractmethod
    def evaluate(
        self, model: nn.Module, batches: Iterator[Batch], sum_over: SumOver
    ) -> dict[str, float]:
        """Figures of a split, means over its images, `loss` among them.

        model: in evaluation, perhaps the averaged one. A batch may be empty where several processes
        share a split: add up sums and counts, give them to sum_over as one array of NumPy, which
        adds it over all processes, and divide then.
        """

    def finish(self, model: nn.Module, batches: Iterator[Batch]) -> None:  # noqa: B027 - optional
        """Work that is left after the last epoch, on the training images as they are. It may change
        tensors of the model; done again, it must give the same ones."""

    def plots(self, model: nn.Module, batches: Iterator[Batch]) -> Mapping[str, Any]:
        """What the report shows besides: figures of matplotlib by name.

        batches: of the test images, or of the training images where there are none, in a random
        order, the same each time; take as many as a plot needs. The plot NAME becomes
        pictures/task-NAME.png.
        """
        return {}

    def remarks(self, lines: Sequence[Mapping[str, Any]]) -> list[str]:
        """Sentences for the report about what went wrong, from the lines of metrics.jsonl."""
        return []


class Supervised(Task):
    """Learns the labels of images. Subclasses say what a loss is; the rest is the same."""

    answers: type[Answers]
    mixes = True

    def __init__(self, model: nn.Module, recipe: Recipe, targets: Targets) -> None:
        super().__init__(model, recipe, targets)
        weights = targets.weights(recipe.class_weights) if self.weighs else None
        self.weights = None if weights is None else torch.tensor(weights, dtype=torch.float32)

    @abstractmethod
    def loss(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        """Of a batch, or with reduction "none" of every image, (B,)."""

    def seen(self, outputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Further figures of a batch in training."""
        return {}

    def step(self, batch: Batch, update: Update) -> dict[str, Tensor]:
        outputs = self.outputs(self.model, batch)
        if batch.mixed_labels is None:
            loss = self.loss(outputs, batch.labels)
        else:
            given = (batch.labels, batch.mixed_labels)
            one, other = (self.loss(outputs, labels, "none") for labels in given)
            loss = (batch.weight * one + (1 - batch.weight) * other).mean()
        update("model", loss)
        return {"loss": loss.detach(), **self.seen(outputs.detach(), batch.labels)}

    def outputs(self, model: nn.Module, batch: Batch) -> Tensor:
        """(B, targets). A stranger's model may give something else, and must hear of it."""
        outputs: Tensor = model(batch.images)
        wanted = (len(batch), len(self.targets.names))
        given = tuple(getattr(outputs, "shape", ())) or type(outputs).__name__
        if given != wanted:
            what = "numbers" if self.targets.kind == NUMBERS else "classes"
            raise TrainingError(
                f"the model gives {given} for {wanted[0]} images of {wanted[1]} {what}, "
                f"not {wanted}",
                "its last layer must have num_classes outputs; zoo plugin check says more",
            )
        return outputs

    def evaluate(
        self, model: nn.Module, batches: Iterator[Batch], sum_over: SumOver
    ) -> dict[str, float]:
        totals = self.answers(self.targets)
        said = [np.empty((0, len(self.targets.names)), np.float32)]
        for batch in batches:
            if len(batch):
                said.append(self.outputs(model, batch).float().cpu().numpy())
                totals.add(said[-1], batch.labels.cpu().numpy())
        self.scored = np.concatenate(said)
        totals.sums = sum_over(totals.sums)
        return totals.summary()


class Classification(Supervised):
    """Cross-entropy, with label smoothing, MixUp and CutMix.

    Weights are those of images: smoothing takes the same share from each. A mean is over images, so
    that the parts of a batch add up.
    """

    kinds, needs, answers = ("classification",), (CLASS,), ClassAnswers
    smooths = weighs = True

    def loss(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        smoothing = self.recipe.label_smoothing
        if self.weights is None:
            return F.cross_entropy(outputs, labels, label_smoothing=smoothing, reduction=reduction)
        self.weights = self.weights.to(outputs.device)
        losses = F.cross_entropy(outputs, labels, label_smoothing=smoothing, reduction="none")
        losses = losses * self.weights[labels]
        return losses.mean() if reduction == "mean" else losses

    def seen(self, outputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"accuracy": (outputs.argmax(1) == labels).float().mean()}


class Multilabel(Supervised):
    """Cross-entropy of each class by itself: there, or not."""

    kinds, needs, answers = ("classification",), (CLASSES,), ClassesAnswers
    smooths = weighs = True

    def loss(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        smoothing = self.recipe.label_smoothing
        wanted = labels.to(outputs.dtype) * (1 - smoothing) + smoothing / 2
        plain = torch.ones_like(outputs[0])  # the kernel without them rounds differently
        losses = F.binary_cross_entropy_with_logits(
            outputs, wanted, pos_weight=plain, reduction="none"
        )
        if self.weights is not None:
            self.weights = self.weights.to(outputs.device)
            losses = losses * torch.where(labels > 0, self.weights, 1.0)
        losses = losses.mean(1)
        return losses.mean() if reduction == "mean" else losses


class Regression(Supervised):
    """Squared error of standardised numbers, or Huber's, which large errors matter less to."""

    kinds, needs, answers = ("regression",), (NUMBERS,), NumberAnswers
    options = {"loss": "mse"}
    LOSSES: ClassVar[Mapping[str, Callable[..., Tensor]]] = {
        "mse": F.mse_loss,
        "huber": F.huber_loss,
    }

    @classmethod
    def check(cls, job: Job) -> None:
        if (given := job.recipe.task.get("loss", "mse")) not in cls.LOSSES:
            raise ValueError(f"task.loss is {' or '.join(cls.LOSSES)}, not {given!r}")

    def loss(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        mean, std = (
            torch.tensor(values, dtype=torch.float32, device=outputs.device)
            for values in (self.targets.mean, self.targets.std)
        )
        wanted = ((labels - mean) / std).to(outputs.dtype)
        losses = self.LOSSES[self.settings["loss"]](outputs, wanted, reduction="none").mean(1)
        return losses.mean() if reduction == "mean" else losses


BUILT_IN = {CLASS: Classification, CLASSES: Multilabel, NUMBERS: Regression, NONE: Classification}


def find_task(
    entry: ModelEntry, targets: Targets, settings: Mapping[str, Any] = FrozenDict()
) -> type[Task]:
    """The entry's own task, the one that `task.use` names, or the one that the targets call for.

    `task.use` is a name in `zoo` that a package brings: what comes with a recipe imports no code.
    """
    if entry.own_task:
        kind: type[Task] = resolve(entry.task, f"task {entry.task!r}")
        return kind
    if not (name := settings.get(USE)):
        return BUILT_IN[targets.kind]
    try:
        found = command_function(str(name))
    except AttributeError as error:
        raise OptionError(f"there is no task {name!r}: {error}", "zoo plugins") from None
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise OptionError(f"task.{USE} names a task, and zoo.{name} is something else")
    return found
