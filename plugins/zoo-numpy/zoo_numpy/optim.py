"""Optimisers: they change parameters in place, and their state is arrays and plain numbers."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from zoo_numpy.tensor import Array, Tensor

Options = dict[str, Any]
State = dict[str, Array]  # what is kept for one parameter; empty before its first step


class Optimizer:
    """`params` is tensors, or dicts of tensors and options; a schedule sets `group["lr"]`."""

    defaults: ClassVar[Options] = {}

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, **options: Any) -> None:
        groups = list(params)
        if not groups:
            raise ValueError(f"{type(self).__name__} needs at least one parameter")
        if isinstance(groups[0], Tensor):
            groups = [{"params": groups}]
        if unknown := options.keys() - self.defaults.keys():
            raise TypeError(f"{type(self).__name__} has no options {sorted(unknown)}")
        options = {"lr": lr, **self.defaults, **options}
        self.param_groups = [{**options, **g, "params": list(g["params"])} for g in groups]
        self.state: list[State] = [{} for _ in self._parameters()]

    def _parameters(self) -> list[tuple[Tensor, Options]]:
        return [(tensor, group) for group in self.param_groups for tensor in group["params"]]

    def update(self, p: Array, grad: Array, state: State, options: Options) -> None:
        """Take one step: change p and state in place."""
        raise NotImplementedError

    def step(self) -> None:
        for state, (tensor, group) in zip(self.state, self._parameters(), strict=True):
            if tensor.grad is not None:
                self.update(tensor.data, tensor.grad.data, state, group)

    def zero_grad(self) -> None:
        for tensor, _ in self._parameters():
            tensor.grad = None

    def state_dict(self) -> dict[str, Any]:
        """`state` maps names to arrays, for safetensors; `param_groups` is options, for JSON."""
        named = {f"{i}.{k}": v.copy() for i, s in enumerate(self.state) for k, v in s.items()}
        options = [{k: v for k, v in g.items() if k != "params"} for g in self.param_groups]
        return {"state": named, "param_groups": options}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        shapes = [tensor.shape for tensor, _ in self._parameters()]
        state: list[State] = [{} for _ in shapes]
        for name, value in state_dict["state"].items():
            index, key = name.split(".")
            if int(index) >= len(shapes) or np.shape(value) not in ((), shapes[int(index)]):
                raise ValueError(f"no parameter fits the optimiser's {name}, {np.shape(value)}")
            state[int(index)][key] = np.array(value)
        for group, options in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update(options)
        self.state = state


class SGD(Optimizer):
    defaults: ClassVar[Options] = {"momentum": 0.0, "weight_decay": 0.0, "nesterov": False}

    def update(self, p: Array, grad: Array, state: State, options: Options) -> None:
        if options["weight_decay"]:
            grad = grad + options["weight_decay"] * p
        if momentum := options["momentum"]:
            velocity = state.setdefault("momentum_buffer", np.zeros_like(p))
            velocity *= momentum
            velocity += grad
            grad = grad + momentum * velocity if options["nesterov"] else velocity
        p -= float(options["lr"]) * grad  # float: NumPy's float64 would widen the product


class Adam(Optimizer):
    defaults: ClassVar[Options] = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
    decoupled = False  # does weight decay go around the averages?

    def update(self, p: Array, grad: Array, state: State, options: Options) -> None:
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
    defaults: ClassVar[Options] = {**Adam.defaults, "weight_decay": 0.01}
    decoupled = True
