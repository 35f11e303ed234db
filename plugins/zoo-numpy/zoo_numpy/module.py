"""`Module`: what every layer and network is, with its parameters, its saved state and its modes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from zoo_numpy.tensor import Array, Tensor


class Parameter(Tensor):
    """A tensor that is trained."""

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data, requires_grad)


class Buffer(Tensor):
    """A tensor that is saved with its module but not trained, like a running mean."""


class Module:
    """A piece of a network: the tensors and modules that were assigned to its attributes."""

    training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, child in vars(self).items():
            if isinstance(child, Module):
                yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def _named(self, *kinds: type) -> Iterator[tuple[str, Any]]:
        for prefix, module in self.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, kinds):
                    yield f"{prefix}.{name}" if prefix else name, value

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        seen: set[int] = set()  # a parameter that two layers share is listed once
        for name, value in self._named(Parameter):
            if id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def parameters(self) -> Iterator[Parameter]:
        return (value for _, value in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Buffer]]:
        return self._named(Buffer)

    def state_dict(self) -> dict[str, Array]:
        """Every parameter and buffer, as copies: later training does not change them."""
        return {name: value.data.copy() for name, value in self._named(Parameter, Buffer)}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Copy in arrays, or torch's tensors. If anything is wrong, nothing is changed."""
        own = {name: value.data for name, value in self._named(Parameter, Buffer)}
        found = {name: np.asarray(value) for name, value in state_dict.items() if name in own}
        problems = [f"{name} is missing" for name in own if strict and name not in found]
        problems += [f"{name} is not in it" for name in state_dict if strict and name not in own]
        for name, value in found.items():
            if value.shape != own[name].shape:
                problems.append(f"{name} has shape {own[name].shape}, not {value.shape}")
            elif not np.can_cast(value.dtype, own[name].dtype, "same_kind"):
                problems.append(f"{name} is {own[name].dtype}, not {value.dtype}")
        if problems:
            raise RuntimeError(f"the state dict does not fit this module: {'; '.join(problems)}")
        for name, value in found.items():
            own[name][...] = value

    def rng_state(self) -> dict[str, str]:
        """Where each generator (dropout's) stands, as JSON text: an exact resume needs it."""
        return {name: json.dumps(g.bit_generator.state) for name, g in self._named(Generator)}

    def load_rng_state(self, state: Mapping[str, str]) -> None:
        for name, generator in self._named(Generator):
            generator.bit_generator.state = json.loads(state[name])

    def train(self, mode: bool = True) -> Self:
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        return self.train(False)

    def zero_grad(self) -> None:
        for parameter in self.parameters():
            parameter.grad = None

    def __repr__(self) -> str:
        lines = [f"\n  {name} {value.shape}" for name, value in self._named(Parameter, Buffer)]
        return f"{type(self).__name__}({''.join(lines)})"
