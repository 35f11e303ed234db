"""A torch model that learns: steps, averaged weights, a state to save and to restore."""

from __future__ import annotations

import copy
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from zoo_core.data.draws import Draws
from zoo_core.data.loader import Batch, Loader
from zoo_core.errors import OptionError, TrainingError
from zoo_core.targets import resolve
from zoo_core.train.checkpoint import State
from zoo_core.train.job import Job
from zoo_core.train.loop import Place
from zoo_core.train.torch_runtime import Runtime
from zoo_core.train.torch_task import Classification, Task


class TorchLearner:
    def __init__(self, job: Job, model: nn.Module) -> None:
        recipe = job.recipe
        self.recipe = recipe
        self.runtime = Runtime(job.device, recipe.precision)
        self.channels_last = has_convolutions(model)
        layout = torch.channels_last if self.channels_last else torch.preserve_format
        self.model = model.to(self.runtime.device, memory_format=layout)  # type: ignore[call-overload]
        compiled = torch.compile(self.model) if recipe.compile else self.model
        self.task = task_kind(job)(cast(nn.Module, compiled), job.recipe, job.dataset.classes)
        self.optimizers = {name: self.task.make_optimizer(name) for name in self.task.optimizers}
        # With several optimisers a loss must reach the parameters of its own one alone.
        several = len(self.optimizers) > 1
        self._inputs = {
            name: parameters_of(optimizer) if several else None
            for name, optimizer in self.optimizers.items()
        }
        self.averaged = copy.deepcopy(self.model) if recipe.ema else None
        self._precise = torch.float32 if self.runtime.device.type == "mps" else torch.float64
        self.start_epoch()
        self._bad = torch.full((), -1, dtype=torch.int64, device=self.runtime.device)

    def loading(self) -> dict[str, Any]:
        return {
            "backend": "torch",
            "device": self.runtime.device,
            "channels_last": self.channels_last,
            "shard": (self.runtime.rank, self.runtime.world),
        }

    # ------------------------------------------------------------ learning

    def start_epoch(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._count = 0

    def step(self, batch: Batch, place: Place) -> None:
        self.model.train()
        # Dropout depends on the position alone, so that there is no generator state to restore.
        here = Draws(self.recipe.seed, place.epoch, np.array([place.batch]))
        self.runtime.seed(int(here.bits(f"step.{self.runtime.rank}")[0]))
        parts = batch.split(self.recipe.accumulate)
        try:
            for number, part in enumerate(parts):
                self._learn(part, place, last=number == len(parts) - 1)
        except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            raise TrainingError(
                f"the memory of {self.runtime.device} is too small for a batch of {place.size}",
                f"try --set batch_size={max(1, place.size // 2)}, or --set accumulate=2 for the "
                "same result in smaller steps",
            ) from error
        if self.averaged is not None:
            self._average(place.step)

    def _learn(self, batch: Batch, place: Place, last: bool) -> None:
        share = len(batch) / place.size

        def update(name: str, loss: Tensor) -> None:
            # Shares of the whole batch, so that parts and processes add up to its mean.
            scaler = self.runtime.scaler
            whole = scaler.scale(loss * share if share != 1 else loss)
            torch.autograd.backward(whole, inputs=self._inputs[name])
            if last:
                self._apply(name, place.lr)

        if not len(batch):  # the last batch may be smaller than the number of processes
            for name in self.optimizers:
                self._apply(name, place.lr)
            return
        with self.runtime.autocast():
            figures = self.task.step(batch, update)
        self._count += len(batch)
        for name, value in figures.items():
            value = value.to(self._precise) * len(batch)
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        if figures:
            fine = torch.stack([torch.isfinite(value) for value in figures.values()]).all()
            self._bad = torch.where((self._bad < 0) & ~fine, place.step, self._bad)

    def _apply(self, name: str, lr: float) -> None:
        optimizer, scaler = self.optimizers[name], self.runtime.scaler
        parameters = parameters_of(optimizer)
        self.runtime.average_gradients(parameters)
        if self.recipe.clip_grad:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(parameters, self.recipe.clip_grad)
        for group in optimizer.param_groups:
            group["lr"] = lr * group.get("lr_scale", 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def _average(self, step: int) -> None:
        """Move the averaged weights towards the current ones; quickly at first, then slowly."""
        assert self.averaged is not None
        weight = 1 - min(self.recipe.ema, (1 + step) / (10 + step))
        ours, theirs = [], []
        for mean, now in zip(tensors_of(self.averaged), tensors_of(self.model), strict=True):
            if mean.is_floating_point():
                ours.append(mean)
                theirs.append(now)
            else:
                mean.copy_(now)
        torch._foreach_lerp_(ours, theirs, weight)

    # ------------------------------------------------------------ measuring

    def totals(self, everywhere: bool = False) -> dict[str, float]:
        if not self._count:
            return {}
        values = np.array([self._count, *(value.item() for value in self._sums.values())])
        if everywhere:
            values = self.runtime.sum(values)
        return {name: float(v / values[0]) for name, v in zip(self._sums, values[1:], strict=True)}

    def first_bad_step(self) -> int | None:
        step = int(self._bad)
        return None if step < 0 else step

    @torch.inference_mode()
    def evaluate(self, loader: Loader) -> dict[str, float]:
        model = self.averaged if self.averaged is not None else self.model
        model.eval()
        with self.runtime.autocast():
            return self.task.evaluate(model, loader.epoch(0), self.runtime.sum)

    def any_process(self, flag: bool) -> bool:
        return bool(self.runtime.sum(np.array([float(flag)]))[0])

    # ------------------------------------------------------------ state

    def weights(self) -> dict[str, np.ndarray]:
        return to_numpy(self.averaged if self.averaged is not None else self.model)

    def state(self) -> State:
        tensors = {f"model.{name}": array for name, array in to_numpy(self.model).items()}
        if self.averaged is not None:
            tensors |= {f"ema.{name}": array for name, array in to_numpy(self.averaged).items()}
        for name, optimizer in self.optimizers.items():
            for number, parameter in enumerate(parameters_of(optimizer)):
                for key, value in optimizer.state.get(parameter, {}).items():
                    tensors[f"optimizer.{name}.{number}.{key}"] = array_of(value)
        tensors |= {f"sum.{name}": array_of(value) for name, value in self._sums.items()}
        values = {
            "count": self._count,
            "sums": list(self._sums),
            "scaler": self.runtime.scaler.state_dict(),
        }
        return State(tensors, values)

    def load(self, state: State) -> None:
        fill(self.model, part(state.tensors, "model."))
        if self.averaged is not None:
            fill(self.averaged, part(state.tensors, "ema."))
        for name, optimizer in self.optimizers.items():
            parameters = parameters_of(optimizer)
            for key, array in part(state.tensors, f"optimizer.{name}.").items():
                number, _, slot = key.partition(".")
                parameter = parameters[int(number)]
                value = torch.from_numpy(array.copy())
                if value.shape == parameter.shape:
                    # Same layout as the parameter, which the fused kernels rely on.
                    value = torch.empty_like(parameter.detach()).copy_(value)
                optimizer.state[parameter][slot] = value
        if self.runtime.rank == 0:  # the sums are those of the first process
            self._count = state.values["count"]
            self._sums = {
                name: torch.from_numpy(state.tensors[f"sum.{name}"].copy()).to(self.runtime.device)
                for name in state.values["sums"]
            }
        if state.values["scaler"]:
            self.runtime.scaler.load_state_dict(state.values["scaler"])


def task_kind(job: Job) -> type[Task]:
    """The task of a model, with its options checked."""
    name = job.entry.task
    kind: type[Task] = (
        Classification if name == "classification" else resolve(name, f"task {name!r}")
    )
    for option in job.recipe.task:
        if option not in kind.options:
            known = ", ".join(kind.options) or "none"
            raise OptionError(
                f"the task of model {job.entry.name!r} has no option {option!r}", f"it has: {known}"
            )
    if kind is Classification and not job.dataset.classes:
        raise OptionError(
            f"model {job.entry.name!r} is a classifier, and {job.dataset.name} has no labels",
            "put the pictures of each class into a folder of its own",
        )
    return kind


def out_of_memory(error: Exception) -> bool:
    """The CPU's allocator raises a plain RuntimeError, and `memory format` is something else."""
    words = ("out of memory", "not enough memory", "allocate memory")
    return not isinstance(error, RuntimeError) or any(word in str(error) for word in words)


def has_convolutions(model: nn.Module) -> bool:
    """Whether channels-last pays: real convolutions, not just the cutting into patches."""
    return any(
        isinstance(layer, nn.Conv2d) and layer.kernel_size != layer.stride
        for layer in model.modules()
    )


def tensors_of(model: nn.Module) -> list[Tensor]:
    return list(model.state_dict(keep_vars=True).values())


def parameters_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def array_of(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().numpy()


def to_numpy(model: nn.Module) -> dict[str, np.ndarray]:
    """The tensors of a model, without copies where they are on the CPU already."""
    return {name: array_of(tensor) for name, tensor in model.state_dict().items()}


@torch.no_grad()
def fill(model: nn.Module, tensors: dict[str, np.ndarray]) -> None:
    """Put arrays into a model's tensors, which keep their place and layout."""
    for name, tensor in model.state_dict().items():
        tensor.copy_(torch.from_numpy(tensors[name].copy()))


def part(tensors: Any, prefix: str) -> dict[str, np.ndarray]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
