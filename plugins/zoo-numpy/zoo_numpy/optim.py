"""Optimisers: they change parameters in place, and their state is arrays and plain numbers."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from zoo_numpy.tensor import Array, Tensor

State = dict[str, Array]  # what is kept for one parameter; empty before its first step


class Optimizer:
    """All parameters have the same options; a schedule sets `param_groups[0]["lr"]`."""

    defaults: Mapping[str, Any] = {}

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-3, **options: Any) -> None:
        self.params = list(params)
        if not self.params:
            raise ValueError(f"{type(self).__name__} needs at least one parameter")
        if unknown := options.keys() - self.defaults.keys():
            raise TypeError(f"{type(self).__name__} has no options {sorted(unknown)}")
        self.param_groups = [{"lr": lr, **self.defaults, **options}]
        self.state: list[State] = [{} for _ in self.params]

    def update(self, p: Array, grad: Array, state: State, options: Mapping[str, Any]) -> None:
        """Take one step: change p and state in place."""
        raise NotImplementedError

    def step(self) -> None:
        for tensor, state in zip(self.params, self.state, strict=True):
            if tensor.grad is not None:
                self.update(tensor.data, tensor.grad.data, state, self.param_groups[0])

    def zero_grad(self) -> None:
        for tensor in self.params:
            tensor.grad = None

    def state_dict(self) -> dict[str, Any]:
        """`state` maps names to arrays, for safetensors; `param_groups` is options, for JSON."""
        named = {f"{i}.{k}": v.copy() for i, s in enumerate(self.state) for k, v in s.items()}
        return {"state": named, "param_groups": [dict(self.param_groups[0])]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        state: list[State] = [{} for _ in self.params]
        for name, value in state_dict["state"].items():
            index, key = name.split(".")
            shapes = [(), *(tensor.shape for tensor in self.params[int(index) :][:1])]
            if len(shapes) == 1 or np.shape(value) not in shapes:
                raise ValueError(f"no parameter fits the optimiser's {name}, {np.shape(value)}")
            state[int(index)][key] = np.array(value)
        self.state = state
        self.param_groups[0].update(state_dict["param_groups"][0])


class SGD(Optimizer):
    defaults = {"momentum": 0.0, "weight_decay": 0.0}

    def update(self, p: Array, grad: Array, state: State, options: Mapping[str, Any]) -> None:
        if options["weight_decay"]:
            grad = grad + options["weight_decay"] * p
        if options["momentum"]:
            velocity = state.setdefault("momentum_buffer", np.zeros_like(p))
            velocity *= options["momentum"]
            velocity += grad
            grad = velocity
        p -= float(options["lr"]) * grad  # float: NumPy's float64 would widen the product


class Adam(Optimizer):
    defaults = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
    decoupled = False  # does weight decay go around the averages?

    def update(self, p: Array, grad: Array, state: State, options: Mapping[str, Any]) -> None:
        lr, (beta1, beta2), decay = float(options["lr"]), options["betas"], options["weight_decay"]
        if not state:
            state["step"] = np.zeros((), dtype=np.int64)
            state["exp_avg"], state["exp_avg_sq"] = np.zeros_like(p), np.zeros_like(p)
        if decay and self.decoupled:
            p *= 1 - lr * decay
        elif decay:
            grad = grad + decay * p
        state["step"] += 1
        step, mean, square = int(state["step"]), state["exp_avg"], state["exp_avg_sq"]
        mean += (1 - beta1) * (grad - mean)
        square += (1 - beta2) * (grad * grad - square)
        # Both averages began at zero: dividing by 1 - beta ** step makes up for it.
        scale = np.sqrt(square) / math.sqrt(1 - beta2**step) + options["eps"]
        p -= lr / (1 - beta1**step) * mean / scale


class AdamW(Adam):
    defaults = {**Adam.defaults, "weight_decay": 0.01}
    decoupled = True
