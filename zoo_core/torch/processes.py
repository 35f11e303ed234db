"""Several processes that torchrun started and that train together: what they tell each other.

torch.distributed connects them, with gloo on CPUs and NCCL on GPUs, as torchrun's environment says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from zoo_core.io.errors import Interrupted, UsageError

# As DistributedDataParallel: gradients travel in pieces of this size, the first ones sooner.
FIRST, PIECE = 1 << 20, 25 << 20  # bytes
AGREED = (Interrupted, UsageError, SystemExit)  # ends that all processes come to


@contextmanager
def joined() -> Iterator[None]:
    """Connect the processes for the block, unless the program that calls us has done so."""
    if dist.is_initialized():
        yield
        return
    if not all(os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT")):
        what = "MASTER_ADDR and MASTER_PORT do not say where the processes meet"
        raise UsageError(what, "start them with torchrun; otherwise: unset RANK WORLD_SIZE")
    dist.init_process_group()
    closes = True
    try:
        yield
    except BaseException as error:
        # Others may wait for this process, and closing waits for them: torchrun ends them.
        closes = isinstance(error, AGREED)
        raise
    finally:
        if closes:  # the threads of an open group run into the end of Python, and abort at times
            dist.destroy_process_group()


def shared(make: Callable[[], bytes]) -> bytes:
    """What the first process makes. Where it raises an error, that is its own; the others end."""
    made: list[bytes | None] = [None]
    try:
        made = [make() if dist.get_rank() == 0 else None]
    finally:
        dist.broadcast_object_list(made, 0, device=torch.device("cpu"))
    if made[0] is None:
        raise SystemExit(0)
    return made[0]


def summed(values: np.ndarray, device: torch.device | str = "cpu") -> np.ndarray:
    """The sum of an array over all processes, in double precision."""
    total = torch.as_tensor(values, dtype=torch.float64).to(device, copy=True)
    dist.all_reduce(total)
    return total.cpu().numpy()


class Reduction:
    """Averages the gradients of one optimiser over all processes while backward goes on.

    The engine of DistributedDataParallel, whose wrapper cannot serve several networks and losses.
    With the gradients travel a few numbers, `said`; `heard` is their average over all processes.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], said: int) -> None:
        device = parameters[0].device
        self._news = nn.Parameter(torch.zeros(said, device=device))
        self.said = self.heard = torch.zeros(said, device=device)
        self._given = [self._news, *reversed(parameters)]  # as backward reaches them
        engine: Any = dist  # it says little of these two, which DistributedDataParallel uses
        pieces, sizes = engine._compute_bucket_assignment_by_size(self._given, [FIRST, PIECE])
        self._reducer = engine.Reducer(
            self._given, pieces, sizes, dist.group.WORLD, bucket_bytes_cap=PIECE,
            first_bucket_bytes_cap=FIRST, gradient_as_bucket_view=True,
        )  # fmt: skip
        # The engine lays out its pieces anew, once, by the order of the first backward: this one.
        # Sums round differently in other pieces, and a resumed run must have the same ones.
        self._reducer.prepare_for_backward([])
        for parameter in self._given:
            _Reach.apply(self.nothing, torch.zeros_like(parameter), parameter).backward()
        self._reducer._rebuild_buckets()
        for parameter in self._given:
            parameter.grad = None

    @property
    def nothing(self) -> Tensor:
        """A loss for a process without images."""
        return torch.zeros((), device=self.said.device, requires_grad=True)

    def backward(self, loss: Tensor) -> None:
        """Backward, from which all processes come back with the same gradients."""
        self._reducer.prepare_for_backward([])
        reached = _Reach.apply(loss, self.said, *self._given)
        torch.autograd.backward(reached, inputs=self._given)
        assert self._news.grad is not None
        self.heard, self._news.grad = self._news.grad.clone(), None


class _Reach(torch.autograd.Function):
    """The loss, as if all parameters had a part in it: each gets a gradient, if only of zeros.

    The first of them gets `said`. The engine waits until every parameter has been reached.
    """

    @staticmethod
    def forward(ctx: Any, loss: Tensor, said: Tensor, *parameters: Tensor) -> Tensor:
        ctx.said, ctx.others = said, len(parameters) - 1
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient, None, ctx.said, *[None] * ctx.others
