"""`Tensor`: an array that remembers how it was computed, so that `backward()` can derive it.

Every operation, here and in nn.py, ends in `node(result, (input, rule), ...)`. A rule takes the
gradient of the result and returns that of one input; `backward` does everything else: the order,
the sums where a tensor was used twice, and the sums where it was broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as safetensors

Array = NDArray[Any]
Rule = Callable[[Array], Array]
Dims = int | tuple[int, ...] | None

_recording: ContextVar[bool] = ContextVar("recording", default=True)


@contextmanager
def no_grad() -> Iterator[None]:
    """Inside `with no_grad():`, or under `@no_grad()`, results forget where they came from."""
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


def node(data: Array, *inputs: tuple[Tensor, Rule]) -> Tensor:
    """The result of an operation. Inputs that need no gradient are dropped, with their rules."""
    out = Tensor(data)
    if _recording.get():
        out._inputs = tuple((tensor, rule) for tensor, rule in inputs if tensor.requires_grad)
        out.requires_grad = bool(out._inputs)
        out._depth = 1 + max((tensor._depth for tensor, _ in out._inputs), default=0)
    return out


def _operation(f: Any, *rules: Any) -> Callable[..., Tensor]:
    """A method for y = f(a, ...), with a rule for each input: rule(a, ..., y, g)."""

    def method(self: Tensor, *other: Any) -> Tensor:
        inputs = _operands(self, *other) if other else (self,)
        arrays = [tensor.data for tensor in inputs]
        y = f(*arrays)
        return node(y, *zip(inputs, (partial(rule, *arrays, y) for rule in rules), strict=True))

    return method


class Tensor:
    """An array with a gradient. It shares the array it is given; Python's floats become float32."""

    __array_ufunc__ = None  # so that NumPy leaves `array * tensor` to our __rmul__

    def __init__(self, data: Any, requires_grad: bool = False, dtype: Any = None) -> None:
        if dtype is None and not hasattr(data, "dtype"):
            dtype = np.float32 if np.asarray(data).dtype == np.float64 else None
        self.data: Array = np.asarray(data, dtype=dtype)
        if requires_grad and self.data.dtype.kind != "f":
            raise TypeError(f"only floating-point tensors have gradients, not {self.data.dtype}")
        self.requires_grad = requires_grad
        self.grad: Tensor | None = None
        # What this was computed from. Empty for a leaf; None once backward() has freed it.
        self._inputs: tuple[tuple[Tensor, Rule], ...] | None = ()
        self._depth = 0  # of a leaf; else one more than that of the deepest input

    def backward(self, gradient: Any = None, retain_graph: bool = False) -> None:
        """Add d self / d leaf to the `grad` of each leaf that requires it, freeing the graph."""
        if not self.requires_grad:
            raise RuntimeError("backward() needs a tensor that depends on one with requires_grad")
        if gradient is None and self.data.size != 1:
            raise RuntimeError(f"backward() of a tensor of shape {self.shape} needs a gradient")
        start = np.asarray(1 if gradient is None else gradient, dtype=self.dtype)
        grads = {self: np.broadcast_to(start, self.shape)}  # that have still to be passed on
        while grads:
            # The deepest was used by none of the others: its gradient is complete.
            tensor = max(grads, key=attrgetter("_depth"))
            grad = grads.pop(tensor)
            if tensor._inputs is None:
                raise RuntimeError("this graph was freed; call backward(retain_graph=True)")
            for source, rule in tensor._inputs:
                part = _unbroadcast(np.asarray(rule(grad)), source.shape)
                # Not +=: a rule may return the very array that it was given (addition does).
                grads[source] = grads[source] + part if source in grads else part
            if not tensor._depth:
                total = grad if tensor.grad is None else tensor.grad.data + grad
                tensor.grad = Tensor(np.array(total, tensor.dtype, order="C"))  # its own copy
            elif not retain_graph:
                tensor._inputs = None

    # The table of derivatives: f, then for each input how g, the gradient of y, becomes its own
    __neg__ = _operation(np.negative, lambda x, y, g: -g)
    exp = _operation(np.exp, lambda x, y, g: g * y)
    log = _operation(np.log, lambda x, y, g: g / x)
    relu = _operation(lambda x: np.maximum(x, 0), lambda x, y, g: g * (y > 0))
    # sigmoid is 1 / (1 + exp(-x)), written so that it cannot overflow
    sigmoid = _operation(lambda x: np.exp(-np.logaddexp(0, -x)), lambda x, y, g: g * y * (1 - y))

    __add__ = __radd__ = _operation(np.add, lambda a, b, y, g: g, lambda a, b, y, g: g)
    __mul__ = __rmul__ = _operation(np.multiply, lambda a, b, y, g: g * b, lambda a, b, y, g: g * a)
    __sub__ = _operation(np.subtract, lambda a, b, y, g: g, lambda a, b, y, g: -g)
    __truediv__ = _operation(np.divide, lambda a, b, y, g: g / b, lambda a, b, y, g: -g * y / b)
    __rsub__ = _operation(lambda a, b: b - a, lambda a, b, y, g: -g, lambda a, b, y, g: g)
    __rtruediv__ = _operation(
        lambda a, b: b / a, lambda a, b, y, g: -g * y / a, lambda a, b, y, g: g / a
    )
    __pow__ = _operation(  # the wheres keep 0 ** -1 out of x ** 0, and log(0) out of 0 ** x
        np.power,
        lambda a, b, y, g: g * b * a ** (np.where(b == 0, 1, b) - 1),
        lambda a, b, y, g: g * y * np.log(np.where(a == 0, 1, a)),
    )

    def __matmul__(self, other: Any) -> Tensor:
        a, b = _operands(self, other)
        if b.ndim == 1:  # a vector is a column on the right, a row on the left
            return (a @ b.reshape(-1, 1))[..., 0]
        if a.ndim == 1:
            return (a.reshape(1, -1) @ b)[..., 0, :]
        return node(
            a.data @ b.data,  # (..., n, k) @ (..., k, m)
            # This is g @ b.T, written so that it is faster if b is as wide as a convolution's
            (a, lambda g: (b.data @ g.swapaxes(-1, -2)).swapaxes(-1, -2)),
            (b, lambda g: a.data.swapaxes(-1, -2) @ g),
        )

    def sum(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        total = self.data.sum(axis=dim, keepdims=True)
        out = node(total, (self, lambda g: np.broadcast_to(g, self.shape)))
        return out if keepdim else out.reshape(total.squeeze(axis=dim).shape)

    def mean(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        total = self.sum(dim, keepdim)
        return total / (self.data.size / max(total.data.size, 1))

    def reshape(self, *shape: Any) -> Tensor:
        return node(self.data.reshape(*shape), (self, lambda g: g.reshape(self.shape)))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        start, end = start_dim % self.ndim, end_dim % self.ndim + 1
        merged = math.prod(self.shape[start:end])
        return self.reshape(*self.shape[:start], merged, *self.shape[end:])

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        return node(self.data.swapaxes(dim0, dim1), (self, lambda g: g.swapaxes(dim0, dim1)))

    def permute(self, *dims: int) -> Tensor:
        back = np.argsort(dims)
        return node(self.data.transpose(dims), (self, lambda g: g.transpose(back)))

    def __getitem__(self, index: Any) -> Tensor:
        parts = index if isinstance(index, tuple) else (index,)
        parts = tuple(part.data if isinstance(part, Tensor) else part for part in parts)

        def rule(g: Array) -> Array:
            out = np.zeros_like(self.data)
            np.add.at(out, parts, g)  # not out[parts] += g: an index may name one element twice
            return out

        return node(self.data[parts], (self, rule))

    view = reshape
    T = property(lambda self: self.transpose(0, 1))

    # What follows is about the array inside, and has no gradient.
    shape = property(lambda self: self.data.shape)
    ndim = property(lambda self: self.data.ndim)
    dtype = property(lambda self: self.data.dtype)
    __hash__ = object.__hash__  # by identity, as in torch, although == compares numbers

    def item(self) -> Any:
        return self.data.item()

    def argmax(self, dim: int | None = None) -> Tensor:
        return Tensor(self.data.argmax(axis=dim))

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return Tensor(self.data == np.asarray(other))

    def __bool__(self) -> bool:
        return bool(self.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.data, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        array = np.array2string(self.data, separator=", ")
        return f"Tensor({array}{', requires_grad=True' if self.requires_grad else ''})"


def _operands(a: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    """Both sides as tensors. A number or integers must not turn float32 into float64."""
    if isinstance(other, int | float | np.number) and a.dtype.kind == "f":
        return a, Tensor(other, dtype=a.dtype)
    b = other if isinstance(other, Tensor) else Tensor(other)
    if a.dtype.kind == "f" and b.dtype.kind in "iub":
        b = Tensor(b, dtype=a.dtype)
    elif b.dtype.kind == "f" and a.dtype.kind in "iub":
        a = Tensor(a, dtype=b.dtype)
    return a, b


def _unbroadcast(grad: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the axes along which an input of this shape was repeated."""
    if grad.shape == shape:
        return grad
    grad = np.asarray(grad.sum(axis=tuple(range(grad.ndim - len(shape)))))
    repeated = tuple(i for i, n in enumerate(shape) if n == 1)
    return np.asarray(grad.sum(axis=repeated, keepdims=True))


def save(state: Mapping[str, Array], path: str | Path) -> None:
    """The same state dict gives the same bytes: no metadata, whose keys have no fixed order."""
    safetensors.save_file({k: np.asarray(v, order="C") for k, v in state.items()}, path)


load = safetensors.load_file


def copy_into(own: Mapping[str, Array], state: Mapping[str, Any], strict: bool = True) -> None:
    """Copy arrays, or torch's tensors, into our own. If anything is wrong, nothing is changed."""
    pairs = {name: (own[name], np.asarray(state[name])) for name in own if name in state}
    problems = [f"{name} is missing" for name in own if strict and name not in state]
    problems += [f"{name} is not in it" for name in state if strict and name not in own]
    problems += [
        f"{name} is {array.dtype} {array.shape}, not {value.dtype} {value.shape}"
        for name, (array, value) in pairs.items()
        if array.shape != value.shape or not np.can_cast(value.dtype, array.dtype, "same_kind")
    ]
    if problems:
        raise RuntimeError(f"the state dict does not fit: {'; '.join(problems)}")
    for array, value in pairs.values():
        array[...] = value
