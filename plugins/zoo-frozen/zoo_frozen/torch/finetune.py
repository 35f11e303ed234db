"""Fine-tuning of frozen models: which layers learn, how far each moves, and whether that helped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parametrize

from zoo import Fitted, Job, Loop, OptionError, Recipe, Split
from zoo.kit import (
    Loader,
    Supervised,
    TorchLearner,
    best_of,
    choose_device,
    duration,
    fill_model,
    keep_freed_memory,
    paired,
    timed_steps,
    to_array,
    to_arrays,
)
from zoo_frozen.torch.backbones import OPTION, FrozenModel
from zoo_frozen.torch.extract import Extractor, batch_for

AUTO, HEAD, LAST, ALL, LORA = "auto", "head", "last", "all", "lora"
BATCH_STATS = ("frozen", "trained")
MOST_RANK = 1024  # with more, nothing is narrow
OPTIONS = {"finetune": AUTO, "layer_decay": 1.0, "batch_stats": BATCH_STATS[0]}
# Of `auto`: few epochs, because each is a pass and more, and the passes that they may cost at most.
EPOCHS, DEAREST = 2, 3.0
JUDGES = 50  # validation images: fewer cannot tell whether fine-tuning helped


@dataclass(frozen=True)
class Finetuning:
    """What `task.finetune` and the options beside it ask for."""

    way: str  # last, all, lora
    count: int  # layers, or the rank
    layer_decay: float
    batch_stats: str

    def __str__(self) -> str:
        return self.way if self.way == ALL else f"{self.way}:{self.count}"


def asked_for(recipe: Recipe) -> Finetuning | None:
    """How a recipe fine-tunes; None where the head alone learns, as it does with `auto`: only a new
    training, before it begins, makes something else of that word."""
    options = {**OPTIONS, **recipe.task}
    way, _, count = str(options["finetune"]).partition(":")
    counted = way in (LAST, LORA)
    if way not in (AUTO, HEAD, LAST, ALL, LORA) or counted != (count.isdigit() and int(count) > 0):
        what = f"task.finetune cannot be {options['finetune']!r}"
        raise OptionError(
            what, "it is auto, head, all, last:N (layers) or lora:R (rank); N and R are at least 1"
        )
    if way == LORA and int(count) > MOST_RANK:
        raise OptionError(f"the rank of lora is at most {MOST_RANK}, not {count}", "try lora:8")
    if options["batch_stats"] not in BATCH_STATS:
        what = f"task.batch_stats cannot be {options['batch_stats']!r}"
        raise OptionError(what, f"it is {' or '.join(BATCH_STATS)}")
    decay = options["layer_decay"]
    if type(decay) not in (int, float) or not 0 < decay <= 1:
        raise OptionError("task.layer_decay must be a number above 0 and at most 1")
    if way == AUTO and "finetune" in recipe.task:
        return None
    if way in (AUTO, HEAD):
        for name in ("layer_decay", "batch_stats"):
            if options[name] != OPTIONS[name]:
                what = f"task.{name} is for fine-tuning, but task.finetune is {way}"
                raise OptionError(what, "--set task.finetune=all trains the backbone too")
        return None
    how = float(options["layer_decay"]), str(options["batch_stats"])
    return Finetuning(way, int(count or 0), *how)


# ---------------------------------------------------------------- the layers of a backbone


def layers_of(backbone: nn.Module) -> list[list[nn.Parameter]]:
    """The parameters of any network, layer by layer from the images on: blocks and what is between.

    A norm by itself belongs to the layer before it; tokens and positions belong to the first one.
    """
    layers: list[list[nn.Parameter]] = [[]]
    seen: set[nn.Parameter] = set()
    for part in _parts(backbone):
        given = [p for p in part.parameters() if p not in seen]
        seen.update(given)
        starts = any(p.ndim > 1 for p in given) and any(p.ndim > 1 for p in layers[-1])
        layers += [given] if starts else []
        layers[-1] += [] if starts else given
    layers[0] += [p for p in backbone.parameters() if p not in seen]
    return layers


def _stack(module: nn.Module) -> bool:
    """Whether a module is a row of blocks, and not one block that is written as a row of layers."""
    rows = isinstance(module, nn.Sequential | nn.ModuleList)
    return rows and any(True for child in module.children() for _ in child.children())


def _parts(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        # What stands in a row is a block, whatever rows it has inside.
        inside = child.modules() if not _stack(module) else [child]
        if any(map(_stack, inside)):
            yield from _parts(child)
        else:
            yield child


# ---------------------------------------------------------------- what learns


def unfreeze(model: FrozenModel, how: Finetuning) -> None:
    """Let the layers that were asked for learn, besides the head."""
    layers = layers_of(model.backbone)
    if how.way == LAST and how.count > len(layers):
        what = f"task.finetune={how} asks for more than the {len(layers)} layers of this backbone"
        raise OptionError(what, "--set task.finetune=all trains all of them")
    chosen = layers[-how.count :] if how.way == LAST else layers
    near = {p: len(layers) - place for place, layer in enumerate(layers) for p in layer}
    learned: dict[nn.Parameter, int] = {p: near[p] for layer in chosen for p in layer}
    if how.batch_stats == BATCH_STATS[1]:
        norms = (m for m in model.backbone.modules() if isinstance(m, _BatchNorm))
        model.live = [norm for norm in norms if norm.weight in learned]
        for norm in model.live:
            for name, buffer in norm.named_buffers():
                setattr(norm, name, buffer.clone())
    if how.way == LORA:
        learned = {p: near[w] for w, low in _adapt(model.backbone, how.count) for p in low}
    for p in (*learned, *model.head.parameters()):
        p.data = p.data.clone()  # the process keeps the weights of the backbone for others
        p.requires_grad_(True)
    names = {p: name for name, p in model.named_parameters()}
    if how.layer_decay != 1:
        model.lr_scales = {names[p]: how.layer_decay**steps for p, steps in learned.items()}


class LowRank(nn.Module):
    """A matrix plus a product of two narrow ones, which is zero at first."""

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        rows, columns = len(weight), weight[0].numel()
        narrow = torch.empty(rank, columns, device=weight.device)
        self.narrow = nn.Parameter(nn.init.normal_(narrow, std=columns**-0.5))
        self.wide = nn.Parameter(torch.zeros(rows, rank, device=weight.device))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + (self.wide @ self.narrow).view(weight.shape)


def _adapt(
    backbone: nn.Module, rank: int
) -> list[tuple[nn.Parameter, tuple[nn.Parameter, nn.Parameter]]]:
    """Put a LowRank on each matrix that has more numbers than it: the matrix, what learns."""
    found = []
    for module in list(backbone.modules()):
        named = "in_proj_weight" if isinstance(module, nn.MultiheadAttention) else ""
        named = "weight" if isinstance(module, nn.Linear | nn.Conv2d) else named
        weight = getattr(module, named, None) if named else None
        if weight is not None and rank * (len(weight) + weight[0].numel()) < weight.numel():
            low = LowRank(weight, rank)
            parametrize.register_parametrization(module, named, low)
            found.append((weight, (low.narrow, low.wide)))
    return found


def merge(model: nn.Module) -> None:
    """Make an ordinary model of one with LowRank parts."""
    for module in list(model.modules()):
        for name in list(getattr(module, "parametrizations", ())):
            parametrize.remove_parametrizations(module, name)


class Finetuner(TorchLearner):
    """A checkpoint holds what learns; the rest is in the weights of the backbone."""

    def __init__(self, job: Job, model: FrozenModel) -> None:
        learned = {name for name, p in model.named_parameters() if p.requires_grad}
        for name, module in model.named_modules():
            if module in model.live:
                learned |= {f"{name}.{buffer}" for buffer, _ in module.named_buffers()}
        self._learned = sorted(learned)
        super().__init__(job, model)

    def read(self, part: Any) -> dict[str, np.ndarray]:
        if not isinstance(part, nn.Module):
            return super().read(part)
        state = part.state_dict()
        return {name: to_array(state[name]) for name in self._learned}

    def write(self, part: Any, arrays: Mapping[str, np.ndarray]) -> None:
        if not isinstance(part, nn.Module):
            return super().write(part, arrays)
        fill_model(part, arrays, strict=False)


def fit(
    job: Job, how: Finetuning, model: FrozenModel, head: Callable[[], Fitted], said: np.ndarray
) -> Fitted:
    """Train a model from its solved head on, and keep what is better on the validation images.

    said: what it says of these images before, (n, targets); head: gives the head to keep instead.
    """
    unfreeze(model, how)
    most = batch_for(choose_device(job.device), job.preprocess.size)

    def loader(split: Split, *, batch_size: int, shuffle: bool = True, **given: Any) -> Loader:
        size = batch_size if shuffle else min(batch_size, most)
        return Loader(split, batch_size=size, shuffle=shuffle, **given)

    job = replace(job, loader=loader)
    learner = Finetuner(job, model)
    fitted = replace(Loop(learner, job).fit(), test_scores=None)
    labels, held_out = job.dataset.train.labels, job.parts[1]
    facts: dict[str, Any] = {"way": str(how), "kept": "finetuned"}
    if labels is None or not len(held_out):
        facts["told"] = f"{how}; without validation images the gain is unknown"
        job.display.say(f"Fine-tuned {facts['told']}: --set validation_fraction=0.1 measures it.")
    else:
        learner.evaluate(job.evaluation_loader(job.dataset.train, held_out, **learner.loading()))
        assert learner.scored is not None and isinstance(learner.task, Supervised)
        gain = compare(learner.task, said, learner.scored, labels[held_out])
        facts |= {**vars(gain), "gain": gain.gain, "told": f"{how}: {gain}"}
        if not gain.convinces:
            facts["kept"] = "probe"
            remark = (
                f"fine-tuning did not help enough; the head on the frozen backbone is kept: {gain}"
            )
            return replace(
                fitted, tensors=head().tensors, best_epoch=0, facts={"finetune": facts},
                remarks=(*fitted.remarks, remark),
            )  # fmt: skip
        job.display.say(f"Fine-tuning helped: {gain}.")
    merge(learner.published)
    whole, facts = to_arrays(learner.published), {"finetune": facts}
    return replace(fitted, tensors=whole, config={OPTION: ""}, facts=facts)


# ---------------------------------------------------------------- whether it pays, and helped


@dataclass(frozen=True)
class Price:
    """What fine-tuning would take, and a pass over all images, in seconds."""

    way: Finetuning
    finetuning: float
    feature_pass: float

    @property
    def fair(self) -> bool:
        return self.finetuning <= DEAREST * self.feature_pass

    def __str__(self) -> str:
        passes = f"{self.finetuning / self.feature_pass:.1f} times the feature pass"
        return f"fine-tuning {self.way} takes about {duration(self.finetuning)}, {passes}"


def price(job: Job, how: Finetuning, model: FrozenModel) -> Price:
    """Measure a few real steps, in turns with the pass: what else the machine does slows both."""
    device = choose_device(job.device)
    batch = batch_for(device, job.preprocess.size)
    through = job.preprocess, device, "plain", batch, job.recipe.precision
    extractor = Extractor(model.backbone, *through)
    unfreeze(model, how)
    keep_freed_memory()  # as the pass and the training do
    count = min(job.recipe.batch_size, len(job.parts[0]))
    seen_in = extractor.paces(job.dataset.train.images[:count])
    both = zip(*zip(timed_steps(job, Finetuner(job, model)), seen_in, strict=False), strict=True)
    step, seen = (best_of(seconds) / count for seconds in both)
    learned, judged = (len(part) for part in job.parts)
    epochs = job.recipe.epochs
    whole = len(job.dataset.train) + len(job.dataset.test or ())
    return Price(how, epochs * learned * step + (epochs + 1) * judged * seen, whole * seen)


@dataclass(frozen=True)
class Gain:
    """What fine-tuning brought on the same validation images, with an interval of 95 %."""

    figure: str  # accuracy, or the loss where there is none
    images: int
    probe: float
    finetuned: float
    interval: tuple[float, float]  # of the gain; above 0 is better

    @property
    def gain(self) -> float:
        return (
            self.finetuned - self.probe
            if self.figure == "accuracy"
            else self.probe - self.finetuned
        )

    @property
    def convinces(self) -> bool:
        """Whether it is more than one standard error: of two models that are about as good, the
        simpler one does better on other images. NaN does not."""
        low, high = self.interval
        return self.gain > (high - low) / 2 / NormalDist().inv_cdf(0.975)

    def __str__(self) -> str:
        scale, unit = (100, " %") if self.figure == "accuracy" else (1, "")
        before, after, gain, low, high = (
            f"{scale * value:.{1 if unit else 4}f}"
            for value in (self.probe, self.finetuned, self.gain, *self.interval)
        )
        points = " points" if unit else ""
        told = f"{self.figure} of {self.images:,} validation images {before}{unit} before and "
        return (
            f"{told}{after}{unit} after: a gain of {gain}{points} (95 % interval {low} to {high})"
        )


def compare(task: Supervised, probe: np.ndarray, finetuned: np.ndarray, labels: np.ndarray) -> Gain:
    """Two sets of outputs (n, targets) for the same images."""
    if task.targets.kind == "class":
        before, after = ((given.argmax(1) == labels).astype(float) for given in (probe, finetuned))
        won, lost = int((after > before).sum()), int((before > after).sum())
        found = paired(won, lost, len(labels)).interval
        return Gain("accuracy", len(labels), float(before.mean()), float(after.mean()), found)
    wanted = torch.from_numpy(labels)
    losses = [task.loss(torch.from_numpy(o), wanted, "none").double().numpy()
              for o in (probe, finetuned)]  # fmt: skip
    gains = losses[0] - losses[1]
    spread = gains.std(ddof=1) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
    low, high = (
        float(gains.mean() + side * NormalDist().inv_cdf(0.975) * spread) for side in (-1, 1)
    )
    return Gain("loss", len(gains), float(losses[0].mean()), float(losses[1].mean()), (low, high))
