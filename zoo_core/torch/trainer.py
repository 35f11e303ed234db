"""The trainer of torch models, `trainer="torch"`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module

from zoo_core.data.loader import Batch, Loader
from zoo_core.io.errors import OptionError
from zoo_core.io.process import process
from zoo_core.spec.answers import Answers, Figure, Targets
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import Config, TensorSpec, build_target
from zoo_core.spec.recipe import PRECISIONS, Recipe
from zoo_core.spec.registry import registry
from zoo_core.torch.learner import (
    TorchLearner,
    best_of,
    choose_device,
    fill_model,
    quick_bfloat16,
    timed_steps,
)
from zoo_core.torch.processes import summed
from zoo_core.torch.task import OPTIMIZERS, USE, find_task
from zoo_core.torch.width import follow_width
from zoo_core.train.job import Fitted, Job, Trainer
from zoo_core.train.loop import Loop

HOOKS = (  # what torch calls for each part of a module
    module.register_module_parameter_registration_hook,
    module.register_module_buffer_registration_hook,
    module.register_module_module_registration_hook,
)


class TorchTrainer(Trainer):
    """Torch modules of every task."""

    backend = "torch"
    checks = "zoo_author.torch:CHECKS"
    # The task says whether it uses mixup, label_smoothing and class_weights.
    honours = Loop.honours | {
        "optimizer", "momentum", "weight_decay", "decay", "by_width", "label_smoothing",
        "clip_grad", "precision", "compile", "init", "class_weights",
    }  # fmt: skip
    closures = False  # whether it gives an optimiser all rows at once
    more_options: Mapping[str, Any] = {}  # `task.<name>`, besides those of the task

    def __init__(self) -> None:
        usable = (o for o in OPTIMIZERS.items() if self.closures or not o[1].closure)
        self.optimizers = {name: optimizer.searched for name, optimizer in usable}

    def build(self, entry: ModelEntry, config: Config) -> nn.Module:
        model = build_target(entry, config)
        assert isinstance(model, nn.Module)
        return model

    def sketch(self, entry: ModelEntry, config: Config) -> nn.Module:
        # No memory, and no random numbers that nobody needs.
        with torch.device("meta"), at_most(self.most_parts):
            return self.build(entry, config)

    # What tensor_spec looked at: the assemble that follows a check fills it.
    _sketched: tuple[ModelEntry, Config, nn.Module] | None = None

    def tensor_spec(self, entry: ModelEntry, config: Config) -> TensorSpec:
        model = self.sketch(entry, config)
        self._sketched = entry, dict(config), model
        state = model.state_dict().items()
        return {k: (tuple(t.shape), str(t.dtype).removeprefix("torch.")) for k, t in state}

    def load_state(self, model: nn.Module, tensors: Mapping[str, np.ndarray]) -> None:
        fill_model(model, tensors, strict=False)

    def assemble(
        self,
        entry: ModelEntry,
        config: Config,
        tensors: Mapping[str, np.ndarray],
        *,
        device: str = "cpu",
        dtype: str = "",
    ) -> nn.Module:
        """A model that uses these tensors as they are, mapped from a file perhaps: no copy."""
        wanted = getattr(torch, dtype or "float32", None)
        if not isinstance(wanted, torch.dtype) or not wanted.is_floating_point:
            raise OptionError(f"there is no dtype {dtype!r}", "float32, bfloat16, float16, float64")
        kept, self._sketched = self._sketched, None
        same = kept and kept[:2] == (entry, dict(config))
        model = kept[2] if kept and same else self.sketch(entry, config)
        state = model.state_dict(keep_vars=True)
        if state.keys() == tensors.keys() and len({id(t) for t in state.values()}) == len(state):
            mapped = {k: torch.from_numpy(a).to(state[k].dtype) for k, a in tensors.items()}
            model.load_state_dict(mapped, assign=True)
        if any(
            isinstance(value, Tensor) and value.is_meta
            for module in model.modules()
            for held in (module._parameters, module._buffers, vars(module))
            for value in held.values()
        ):  # a buffer that is not saved, a shared weight, a new head, a tensor as an attribute
            model = self.build(entry, config)
            self.load_state(model, tensors)
        return model.to(choose_device(device), wanted if dtype else None).eval()

    def environment(self, device: str) -> dict[str, Any]:
        where, threads = str(choose_device(device)), torch.get_num_threads()
        code = torch.backends.cpu.get_cpu_capability()  # AVX2, AVX512: that torch itself chose
        return {
            "torch": torch.__version__, "device": where, "threads": threads, "instructions": code,
        }  # fmt: skip

    def check(self, job: Job) -> None:
        choose_device(job.device)
        if job.recipe.by_width and not job.entry.width:
            others = ", ".join(entry.name for entry in registry().models if entry.width)
            problem = f"model {job.entry.name!r} has no option for the width of all its layers"
            raise OptionError(f"{problem}, which by_width needs", f"these have one: {others}")
        task = find_task(job.entry, job.dataset.targets, job.recipe.task)
        own = {} if job.entry.own_task else {USE: ""}
        able = {"mixes": task.mixes, "smooths": task.smooths, "weighs": task.weighs}
        job.check_task({**own, **self.more_options, **task.options}, needs=task.needs, **able)
        try:
            task.check(job)
        except ValueError as error:
            what = f"model {job.entry.name!r} cannot be trained like this"
            raise OptionError(f"{what}: {error}") from error
        self.check_optimizer(job)
        images, processes = min(job.recipe.batch_size, len(job.parts[0])), process()[1]
        if images < processes:
            what = f"a batch of {images} images is too small for {processes} processes"
            raise OptionError(what, "choose a larger batch_size, or start fewer processes")

    def choose_precision(self, job: Job) -> str:
        """bfloat16 where the machine has instructions for it and a few steps are faster."""
        device = choose_device(job.device)
        able = quick_bfloat16() if device.type == "cpu" else device.type == "cuda"
        if not able or process()[1] > 1:  # processes that measure would not agree
            return "float32"
        # In turns: what else the machine does slows both.
        tried = (replace(job, recipe=replace(job.recipe, precision=p)) for p in PRECISIONS[:2])
        exact, rounded = zip(*zip(*map(self.paces, tried), strict=True), strict=True)
        return PRECISIONS[best_of(rounded) < best_of(exact)]

    def paces(self, job: Job) -> Iterator[float]:
        """Seconds of a few pieces of what takes most of the time of a job."""
        return timed_steps(job, TorchLearner(job, self.build(job.entry, job.config)))

    def fit(self, job: Job) -> Fitted:
        # The weights at the start are a function of the seed, on every machine and in any process.
        torch.manual_seed(job.recipe.seed)
        model = self.build(job.entry, job.config)
        if job.recipe.by_width:
            option = job.entry.width
            narrow = self.sketch(job.entry, {**job.config, option: job.entry.config[option]})
            follow_width(model, narrow, job.recipe.optimizer)
        if job.init is not None:
            self.load_state(model, job.init)
        return Loop(TorchLearner(job, model), job).fit()

    def pairs(self, entry: ModelEntry, targets: Targets) -> bool:
        return find_task(entry, targets).pairs

    def answers(self, entry: ModelEntry, targets: Targets) -> Answers | None:
        kind = find_task(entry, targets).answers
        return kind(targets) if kind else None

    def figures(self, entry: ModelEntry, targets: Targets) -> Mapping[str, Figure]:
        own = find_task(entry, targets).figures if entry.own_task else {}
        return {**super().figures(entry, targets), **own}

    @torch.inference_mode()
    def measure(
        self, entry: ModelEntry, model: Any, recipe: Recipe, loader: Loader, targets: Targets
    ) -> dict[str, float]:
        task = find_task(entry, targets)(model.eval(), recipe, targets)
        total = summed if loader.world > 1 else lambda sums: sums
        return task.evaluate(model, _batches(model, loader), total)

    @torch.inference_mode()
    def plots(
        self, entry: ModelEntry, model: Any, recipe: Recipe, loader: Loader, targets: Targets
    ) -> Mapping[str, Any]:
        task = find_task(entry, targets)(model.eval(), recipe, targets)
        return task.plots(model, _batches(model, loader))

    @torch.inference_mode()
    def predict_batch(self, model: nn.Module, images: Tensor) -> np.ndarray:
        model.eval()
        like = next(model.parameters())
        logits: Tensor = model(images.to(like.device, like.dtype))
        return logits.float().cpu().numpy()


@contextlib.contextmanager
def at_most(parts: int | None) -> Iterator[None]:
    """Stop the building of a module, with a ValueError, once it has more parts than these."""
    ours, found = threading.get_ident(), 0

    def count(*_: object) -> None:
        nonlocal found
        found += threading.get_ident() == ours  # others may build at the same time
        if parts is not None and found > parts:
            raise ValueError(f"it would have more than {parts:,} tensors and layers")

    with contextlib.ExitStack() as undo:
        for register in HOOKS if parts is not None else ():
            undo.callback(register(count).remove)
        yield


def _batches(model: nn.Module, loader: Loader) -> Iterator[Batch]:
    """The images of a loader, which makes them on the CPU, where the model is."""
    device = next(model.parameters()).device
    for batch in loader.epoch(0):
        labels = None if batch.labels is None else batch.labels.to(device)
        yield replace(batch, images=batch.images.to(device), labels=labels)
