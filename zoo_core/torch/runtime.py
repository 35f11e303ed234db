"""Where and how torch computes: device, precision, seeds, processes. Tasks see none of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from zoo_core.io.errors import OptionError
from zoo_core.io.process import process
from zoo_core.io.targets import missing_dependency


class Runtime:
    """One process, or one of several that torchrun started and Accelerate connects."""

    def __init__(self, device: str = "auto", precision: str = "float32") -> None:
        self.rank, self.world = process()
        self._accelerator = _accelerator(device) if self.world > 1 else None
        self.device = self._accelerator.device if self._accelerator else choose_device(device)
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

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up the gradients of all processes, whose losses are already shares of the whole.

        Done here rather than by wrapping the model, so that a task with several networks and
        optimisers works in several processes without knowing it.
        """
        if self._accelerator is None:
            return
        # A process without images in this batch has no gradients, and takes part all the same.
        for p in (given := list(parameters)):
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        gradients = [p.grad for p in given if p.grad is not None]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        flat = self._accelerator.reduce(flat, reduction="sum")
        parts = flat.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Add up an array over all processes."""
        if self._accelerator is None:
            return values
        tensor = torch.as_tensor(values, dtype=self.precise, device=self.device)
        total: Tensor = self._accelerator.reduce(tensor, reduction="sum")
        return total.cpu().numpy()


def choose_device(name: str) -> torch.device:
    """The device that was asked for, or the quickest one that is here."""
    here = ["cuda"] * torch.cuda.is_available() + ["mps"] * torch.backends.mps.is_available()
    here.append("cpu")
    if name == "auto":
        return torch.device(here[0])
    if name.partition(":")[0] not in here:
        raise OptionError(
            f"there is no device {name!r} on this machine", f"there is: {', '.join(here)}"
        )
    return torch.device(name)


def _accelerator(device: str) -> Any:
    try:
        from accelerate import Accelerator
    except ImportError as error:
        raise missing_dependency("accelerate", "training in several processes") from error
    return Accelerator(cpu=choose_device(device).type == "cpu")


class Machine(NamedTuple):
    """What torch computes on here, for `zoo doctor`."""

    words: str
    quick_bfloat16: bool


def describe_machine() -> Machine:
    device = choose_device("auto").type
    if device == "cpu":
        words = f"on the CPU with {torch.get_num_threads()} thread(s), no GPU found"
    else:
        words = f"on {torch.cuda.get_device_name() if device == 'cuda' else device}"
    return Machine(f"torch {torch.__version__}, {words}", device == "cpu" and quick_bfloat16())


def quick_bfloat16() -> bool:
    """Whether this processor has instructions for products of 16 bits; without, they are slow."""
    # Private, but nothing public says it; a torch that has no such function says no.
    asked = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in asked)
