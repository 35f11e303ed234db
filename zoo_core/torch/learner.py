"""A torch model that learns: devices, precision, processes, any number of optimisers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from zoo_core.data.draws import Draws
from zoo_core.data.loader import Batch, Loader
from zoo_core.io.errors import OptionError, TrainingError
from zoo_core.io.process import process
from zoo_core.torch.processes import Reduction, summed
from zoo_core.torch.task import OPTIMIZERS, Task, find_task
from zoo_core.train.checkpoint import State, share
from zoo_core.train.job import Job
from zoo_core.train.learner import Learner, Position

ROUNDS = 3  # of measuring
APART = "processes"  # in a checkpoint: what differs between processes


class Runtime:
    """One process, or one of several that train together: its device and its precision."""

    def __init__(self, device: str = "auto", precision: str = "float32") -> None:
        self.rank, self.world = process()
        self.device = choose_device(device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.precise = torch.float32 if self.device.type == "mps" else torch.float64  # for sums
        self._dtype = getattr(torch, precision)
        # float16 loses small gradients unless the loss is scaled up; the others need no scaler.
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "float16")
        # Numbers too small to matter can make convolutions many times slower.
        torch.set_flush_denormal(True)

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, self._dtype, enabled=self._dtype != torch.float32)

    def seed(self, value: int) -> None:
        """Seed what dropout draws from on this device."""
        torch.default_generator.manual_seed(value)
        if self.device.type != "cpu":
            getattr(torch, self.device.type).manual_seed(value)


class TorchLearner(Learner):
    """Takes the steps of a task, whatever the device and the precision."""

    def __init__(self, job: Job, model: nn.Module) -> None:
        self.runtime = Runtime(job.device, job.recipe.precision)
        self.channels_last = wants_channels_last(model)
        layout = torch.channels_last if self.channels_last else torch.preserve_format
        model = model.to(self.runtime.device, memory_format=layout)  # type: ignore[call-overload]
        if self.runtime.world > 1:  # the first process may start from weights that it alone has
            fill_model(model, share(State(to_arrays(model), {})).tensors)
        super().__init__(job, model)
        compiled = torch.compile(self.model) if job.recipe.compile else self.model
        network, targets = cast(nn.Module, compiled), job.dataset.targets
        kind = find_task(job.entry, targets, job.recipe.task)
        self.task = kind(network, job.recipe, targets)
        for network in dict.fromkeys((self.model, self.published)):
            self.task.start(network)
        self.optimizers = {name: self.task.make_optimizer(name) for name in self.task.optimizers}
        self.parts |= {f"optimizer.{name}": made for name, made in self.optimizers.items()}
        self.reductions: dict[str, Reduction] = {}
        if self.runtime.world > 1:
            places = {p: place for place, p in enumerate(self.model.parameters())}
            for name, made in self.optimizers.items():
                own = sorted(parameters_of(made), key=lambda p: places.get(p, len(places)))
                self.reductions[name] = Reduction(own, said=3)
            self._first = next(iter(self.reductions.values()))
            self._heard = self._first.heard
        self._bad = torch.full((), -1, dtype=torch.int64, device=self.runtime.device)

    def loading(self) -> dict[str, Any]:
        return {
            "backend": "torch",
            "device": self.runtime.device,
            "channels_last": self.channels_last,
            "shard": (self.runtime.rank, self.runtime.world),
        }

    def step(self, batch: Batch, place: Position) -> None:
        # Dropout depends on the position alone, so that there is no generator state to restore.
        here = Draws(self.recipe.seed, place.epoch, np.array([place.batch]))
        self.runtime.seed(int(here.bits(f"step.{self.runtime.rank}")[0]))
        self.model.train()
        try:
            super().step(batch, place)
        except (MemoryError, RuntimeError) as error:
            # The CPU's allocator raises a plain RuntimeError, and `memory format` is another one.
            words = ("out of memory", "not enough memory", "allocate memory")
            if isinstance(error, RuntimeError) and not any(word in str(error) for word in words):
                raise
            raise TrainingError(
                f"the memory of {self.runtime.device} is too small for a batch of {place.size}",
                f"try --set batch_size={max(1, place.size // 2)}, or --set accumulate=2 for the "
                "same result in smaller steps",
            ) from error

    def learn(self, batch: Batch, place: Position, last: bool) -> None:
        # Processes average their gradients: each counts as often as there are processes.
        share, applied = len(batch) * self.runtime.world / place.size, False

        def update(name: str, loss: Tensor) -> None:
            nonlocal applied
            # Shares of the whole batch, so that parts and processes add up to its mean.
            whole = self.runtime.scaler.scale(loss * share if share != 1 else loss)
            if last and self.reductions:
                self.reductions[name].backward(whole)
            else:
                # With several optimisers a loss must reach the parameters of its own one alone.
                own = parameters_of(self.optimizers[name]) if len(self.optimizers) > 1 else None
                torch.autograd.backward(whole, inputs=own)
            if last:
                self._apply(name, place.lr)
                applied = True

        if not len(batch):  # the last batch may be smaller than the number of processes
            for name, reduction in self.reductions.items():
                reduction.backward(reduction.nothing)
                self._apply(name, place.lr)
            self.runtime.scaler.update()
            return
        solves = OPTIMIZERS[self.recipe.optimizer].closure
        with self.runtime.autocast():
            figures = self._solve(batch) if solves else self.task.step(batch, update)
        if applied:
            # Not before all optimisers are done: the gradients of earlier parts have this scale.
            self.runtime.scaler.update()
        precise = {name: value.to(self.runtime.precise) for name, value in figures.items()}
        self.add({name: value * len(batch) for name, value in precise.items()}, len(batch))
        if figures:
            fine = torch.stack([torch.isfinite(value) for value in figures.values()]).all()
            self._bad = torch.where((self._bad < 0) & ~fine, place.step, self._bad)

    def _apply(self, name: str, lr: float) -> None:
        optimizer, scaler = self.optimizers[name], self.runtime.scaler
        if self.recipe.clip_grad:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(parameters_of(optimizer), self.recipe.clip_grad)
        for group in optimizer.param_groups:
            group["lr"] = lr * group.get("lr_scale", 1.0)
        scaler.step(optimizer)
        optimizer.zero_grad(set_to_none=True)

    def _solve(self, batch: Batch) -> dict[str, Tensor]:
        """Let the optimiser ask for the loss as often as it likes; the figures after that."""
        (optimizer,) = self.optimizers.values()

        def loss() -> Tensor:
            losses: list[Tensor] = []
            optimizer.zero_grad()
            self.task.step(batch, lambda _, loss: losses.append(loss))
            torch.autograd.backward(losses)
            return losses[0]

        optimizer.step(loss)  # type: ignore[arg-type]
        with torch.no_grad():
            return self.task.step(batch, lambda name, loss: None)

    @torch.inference_mode()
    def scores(self, images: Tensor) -> np.ndarray:
        logits: Tensor = self.published.eval()(images)
        return logits.float().cpu().numpy()

    @torch.no_grad()
    def average(self, weight: float) -> None:
        ours, theirs = [], []
        kept = (m.state_dict(keep_vars=True).values() for m in (self.published, self.model))
        for mean, now in zip(*kept, strict=True):
            if mean.is_floating_point():
                ours.append(mean)
                theirs.append(now)
            else:
                mean.copy_(now)
        torch._foreach_lerp_(ours, theirs, weight)

    def sum_over(self, values: np.ndarray) -> np.ndarray:
        return summed(values, self.runtime.device) if self.runtime.world > 1 else values

    def agreed(self, *wishes: bool) -> Sequence[bool]:
        if not self.reductions:
            return wishes
        # Wishes travel with the gradients of the next step. Those of the step before this one have
        # arrived by now, in all processes: to read them waits for nothing.
        heard, self._heard = self._heard, self._first.heard
        self._first.said = torch.tensor(wishes, dtype=torch.float32, device=self.runtime.device)
        return [value > 0 for value in heard.tolist()]

    def first_bad_step(self) -> int | None:
        if self.reductions:
            later = torch.where(self._bad < 0, torch.iinfo(torch.int64).max, self._bad)
            dist.all_reduce(later, dist.ReduceOp.MIN)
            self._bad = torch.where(later < torch.iinfo(torch.int64).max, later, -1)
        return int(self._bad) if self._bad >= 0 else None

    @torch.inference_mode()
    def evaluate(self, loader: Loader) -> dict[str, float]:
        self._share_buffers()
        self.published.eval()
        total = self.sum_over if loader.world > 1 else lambda sums: sums
        with self.runtime.autocast():
            figures = self.task.evaluate(self.published, loader.epoch(0), total)
        self.scored = self.task.scored if self.runtime.world == 1 else None
        return figures

    @torch.no_grad()
    def finish(self, loader: Loader) -> None:
        self._share_buffers()
        if type(self.task).finish is Task.finish:
            return  # nothing is left to do
        self.scored = None
        self.published.eval()
        with self.runtime.autocast():
            self.task.finish(self.published, loader.epoch(0))

    def remarks(self, lines: Sequence[Mapping[str, Any]]) -> list[str]:
        return self.task.remarks(lines)

    def read(self, part: Any) -> dict[str, np.ndarray]:
        if isinstance(part, nn.Module):
            return to_arrays(part)
        return {
            f"{number}.{slot}": to_array(value)
            for number, parameter in enumerate(parameters_of(part))
            for slot, value in part.state.get(parameter, {}).items()
        }

    def write(self, part: Any, arrays: Mapping[str, np.ndarray]) -> None:
        if isinstance(part, nn.Module):
            return fill_model(part, arrays)
        parameters = parameters_of(part)
        for key, array in arrays.items():
            number, _, slot = key.partition(".")
            parameter = parameters[int(number)]
            value = torch.from_numpy(array.copy())
            if value.shape == parameter.shape:
                # Same layout as the parameter, which the fused kernels rely on.
                value = torch.empty_like(parameter.detach()).copy_(value)
            part.state[parameter][slot] = value

    def state(self) -> State:
        state = super().state()
        values = {**state.values, "scaler": self.runtime.scaler.state_dict()}
        if self.runtime.world == 1:
            return State(state.tensors, values)
        # What each process has for itself: sums, and buffers such as those of batch norm.
        sums = [values["count"], *values["sums"].values()]
        own = np.concatenate([sums, _numbers(self._buffers())])
        rows = np.zeros((self.runtime.world, len(own)))
        rows[self.runtime.rank] = own
        return State({**state.tensors, APART: self.sum_over(rows)}, values)

    def load(self, state: State) -> None:
        super().load(state)
        rows = state.tensors.get(APART, ())
        if self.runtime.world > 1 and len(rows) == self.runtime.world:
            count, sums, rest = np.split(rows[self.runtime.rank], (1, 1 + len(self._sums)))
            self._count = int(count[0])
            self._sums = dict(zip(self._sums, sums.tolist(), strict=True))
            _put(rest, self._buffers())
        elif self.runtime.rank:  # the sums are those of the first process
            self._count, self._sums = 0, dict.fromkeys(self._sums, 0.0)
        self.runtime.scaler.load_state_dict(state.values["scaler"])  # float16 alone has something

    def _buffers(self) -> list[Tensor]:
        return [b for model in dict.fromkeys((self.model, self.published)) for b in model.buffers()]

    def _share_buffers(self) -> None:
        """Give all processes the buffers of the first one, whose model is kept."""
        buffers = list(self.published.buffers())
        if self.runtime.world > 1 and buffers:
            ours = _numbers(buffers)
            _put(self.sum_over(np.zeros_like(ours) if self.runtime.rank else ours), buffers)


def timed_steps(job: Job, learner: TorchLearner) -> Iterator[float]:
    """Seconds of a few real steps, the first of them for warming up."""
    loader = job.training_loader(**learner.loading())
    with closing(loader.epoch(0)) as batches:
        for number in range(min(ROUNDS, len(loader))):
            started = time.perf_counter()
            learner.start_epoch()
            size = min(loader.batch_size, len(loader.indices))
            learner.step(next(batches), Position(0, number, number, job.recipe.lr, size))
            learner.totals()  # waits for a device that is not done yet
            yield time.perf_counter() - started


def best_of(seconds: Sequence[float]) -> float:
    """The shortest, without the one that warmed up."""
    return min(seconds[1:] or seconds)


def wants_channels_last(model: nn.Module) -> bool:
    """Whether that layout pays: real convolutions, not just the cutting into patches."""
    # With 4, 5 or 12 channels the backward pass of torch 2.15 crashed on CPUs without AVX-512.
    layers = (layer for layer in model.modules() if isinstance(layer, nn.Conv2d))
    channels = [layer.out_channels for layer in layers if layer.kernel_size != layer.stride]
    return bool(channels) and all(count % 8 == 0 for count in channels)


def parameters_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _numbers(tensors: Sequence[Tensor]) -> np.ndarray:
    """The values of some small tensors, one after the other; `_put` puts them back."""
    return np.concatenate([np.zeros(0), *(to_array(t).ravel() for t in tensors)])


@torch.no_grad()
def _put(values: np.ndarray, tensors: Sequence[Tensor]) -> None:
    parts = np.split(values, np.cumsum([tensor.numel() for tensor in tensors]))[:-1]
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.copy_(torch.from_numpy(part).view(tensor.shape))


def to_array(tensor: Tensor) -> np.ndarray:
    """A tensor as an array, on the CPU."""
    return tensor.detach().cpu().contiguous().numpy()


def to_arrays(model: nn.Module) -> dict[str, np.ndarray]:
    """The tensors of a model, without copies where they are on the CPU already."""
    return {name: to_array(tensor) for name, tensor in model.state_dict().items()}


def fill_model(model: nn.Module, arrays: Mapping[str, np.ndarray], *, strict: bool = True) -> None:
    """Put arrays into a model's tensors, which keep their place and layout."""
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    model.load_state_dict(tensors, strict=strict)


def choose_device(name: str) -> torch.device:
    """The device that was asked for, or the quickest one that is here."""
    here = ["cuda"] * torch.cuda.is_available() + ["mps"] * torch.backends.mps.is_available()
    here.append("cpu")
    if name == "auto":
        name = here[0]
    if name == "cuda" and process()[1] > 1:  # one for each process of a machine
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    if name.partition(":")[0] not in here:
        hint = f"there is: {', '.join(here)}"
        raise OptionError(f"there is no device {name!r} on this machine", hint)
    return torch.device(name)


def describe_machine() -> tuple[str, bool]:
    """What torch computes on here, and whether bfloat16 pays; for `zoo doctor`."""
    device = choose_device("auto").type
    words = f"on {torch.cuda.get_device_name() if device == 'cuda' else device}"
    if device == "cpu":
        threads = torch.get_num_threads()
        words = f"on the CPU with {threads} thread{'s' * (threads != 1)}, no GPU found"
    return f"torch {torch.__version__}, {words}", device == "cpu" and quick_bfloat16()


def quick_bfloat16() -> bool:
    """Whether this processor has instructions for products of 16 bits; without, they are slow."""
    # Private, but nothing public says it; a torch that has no such function says no.
    asked = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in asked)
