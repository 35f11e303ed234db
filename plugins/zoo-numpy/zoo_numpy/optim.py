"""Optimisers. They change parameters in place."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from zoo_numpy.tensor import Array, Tensor, copy_into


class Optimizer:
    """All parameters have the same options; a schedule sets `param_groups[0]["lr"]`."""

    defaults: Mapping[str, Any] = {}
    kept: tuple[str, ...] = ()  # names of the arrays to keep for each parameter
    decoupled = False  # does weight decay go around them?
    update: Callable[..., None]  # one step of parameter number i: changes p and what is kept

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-3, **options: Any) -> None:
        self.params = list(params)
        if not self.params:
            raise ValueError(f"{type(self).__name__} needs at least one parameter")
        if unknown := options.keys() - self.defaults.keys():
            raise TypeError(f"{type(self).__name__} has no options {sorted(unknown)}")
        self.param_groups = [{"lr": lr, **self.defaults, **options}]
        self.state: dict[str, Array] = {"steps": np.zeros(len(self.params), dtype=np.int64)}
        for i, tensor in enumerate(self.params):
            self.state |= {f"{i}.{name}": np.zeros_like(tensor.data) for name in self.kept}

    def step(self) -> None:
        options = dict(self.param_groups[0])
        lr = float(options.pop("lr"))  # NumPy's float64 would widen what it multiplies
        decay = options.pop("weight_decay")
        for i, tensor in enumerate(self.params):
            if tensor.grad is None:
                continue
            p, grad = tensor.data, tensor.grad.data
            if decay and self.decoupled:
                p *= 1 - lr * decay
            elif decay:
                grad = grad + decay * p
            self.state["steps"][i] += 1
            self.update(i, p, grad, lr, **options)

    def zero_grad(self) -> None:
        for tensor in self.params:
            tensor.grad = None

    def state_dict(self) -> dict[str, Array]:
        """Copies of what is kept; arrays alone, for a file. Options are the program's to give."""
        return {name: array.copy() for name, array in self.state.items()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        copy_into(self.state, state_dict)


class SGD(Optimizer):
    defaults = {"momentum": 0.0, "weight_decay": 0.0}
    kept = ("momentum_buffer",)

    def update(self, i: int, p: Array, grad: Array, lr: float, momentum: float) -> None:
        velocity = self.state[f"{i}.momentum_buffer"]
        velocity *= momentum
        velocity += grad
        p -= lr * velocity


class Adam(Optimizer):
    defaults = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
    kept = ("exp_avg", "exp_avg_sq")

    def update(self, i: int, p: Array, grad: Array, lr: float, betas: Any, eps: float) -> None:
        mean, square = self.state[f"{i}.exp_avg"], self.state[f"{i}.exp_avg_sq"]
        mean += (1 - betas[0]) * (grad - mean)
        square += (1 - betas[1]) * (grad * grad - square)
        # Both averages began at zero: dividing by 1 - beta ** step makes up for it.
        unbias = [1 - beta ** int(self.state["steps"][i]) for beta in betas]
        p -= lr / unbias[0] * mean / (np.sqrt(square) / math.sqrt(unbias[1]) + eps)


class AdamW(Adam):
    defaults = {**Adam.defaults, "weight_decay": 0.01}
    decoupled = True
