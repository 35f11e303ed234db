"""`Tensor`: an array that remembers how it was computed, so that `backward()` can derive it.

Every operation, here and in nn.py, ends in `node(result, (input, rule), ...)`. A rule takes the
gradient of the result and returns that of one input; `backward` does everything else: the order,
the sums where a tensor was used twice, and the sums where it was broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    return out


def _unary(f: Any, rule: Callable[[Array, Array, Array], Array]) -> Callable[[Tensor], Tensor]:
    """A method for y = f(x); rule(g, x, y) turns g, the gradient of y, into that of x."""

    def method(self: Tensor) -> Tensor:
        x, y = self.data, f(self.data)
        return node(y, (self, lambda g: rule(g, x, y)))

    return method


def _binary(f: Any, to_a: Any, to_b: Any) -> Callable[[Tensor, Any], Tensor]:
    """A method for y = f(a, b), with one rule for each side."""

    def method(self: Tensor, other: Any) -> Tensor:
        left, right = _operands(self, other)
        a, b = left.data, right.data
        y = f(a, b)
        return node(y, (left, lambda g: to_a(g, a, b, y)), (right, lambda g: to_b(g, a, b, y)))

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

    def backward(self, gradient: Any = None, retain_graph: bool = False) -> None:
        """Add d self / d leaf to the `grad` of each leaf that requires it, freeing the graph."""
        if not self.requires_grad:
            raise RuntimeError("backward() needs a tensor that depends on one with requires_grad")
        if gradient is None and self.data.size != 1:
            raise RuntimeError(f"backward() of a tensor of shape {self.shape} needs a gradient")
        start = np.asarray(1 if gradient is None else gradient, dtype=self.dtype)
        grads = {id(self): np.broadcast_to(start, self.shape)}
        for tensor in self._topological():
            grad = grads.pop(id(tensor))  # complete: all that used this tensor came before it
            if not tensor._inputs:
                total = grad if tensor.grad is None else tensor.grad.data + grad
                tensor.grad = Tensor(np.array(total, tensor.dtype, order="C"))  # its own copy
                continue
            for source, rule in tensor._inputs:
                part = _unbroadcast(np.asarray(rule(grad)), source.shape)
                key = id(source)
                # Not +=: a rule may return the very array that it was given (addition does).
                grads[key] = grads[key] + part if key in grads else part
            if not retain_graph:
                tensor._inputs = None

    def _topological(self) -> list[Tensor]:
        """All that self depends on, each after its users. No recursion: graphs get deep."""
        order: list[Tensor] = []
        seen: set[int] = set()
        stack = [(self, False)]
        while stack:
            tensor, inputs_done = stack.pop()
            if inputs_done:
                order.append(tensor)
            elif id(tensor) not in seen:
                if tensor._inputs is None:
                    raise RuntimeError("this graph was freed; call backward(retain_graph=True)")
                seen.add(id(tensor))
                stack.append((tensor, True))
                stack.extend((source, False) for source, _ in tensor._inputs)
        return order[::-1]

    # The table of derivatives
    __neg__ = _unary(np.negative, lambda g, x, y: -g)
    exp = _unary(np.exp, lambda g, x, y: g * y)
    log = _unary(np.log, lambda g, x, y: g / x)
    relu = _unary(lambda x: np.maximum(x, 0), lambda g, x, y: g * (y > 0))
    # sigmoid is 1 / (1 + exp(-x)), written so that it cannot overflow
    sigmoid = _unary(lambda x: np.exp(-np.logaddexp(0, -x)), lambda g, x, y: g * y * (1 - y))

    __add__ = __radd__ = _binary(np.add, lambda g, a, b, y: g, lambda g, a, b, y: g)
    __mul__ = __rmul__ = _binary(np.multiply, lambda g, a, b, y: g * b, lambda g, a, b, y: g * a)
    __sub__ = _binary(np.subtract, lambda g, a, b, y: g, lambda g, a, b, y: -g)
    __truediv__ = _binary(np.divide, lambda g, a, b, y: g / b, lambda g, a, b, y: -g * y / b)
    __rsub__ = _binary(lambda a, b: b - a, lambda g, a, b, y: -g, lambda g, a, b, y: g)
    __rtruediv__ = _binary(
        lambda a, b: b / a, lambda g, a, b, y: -g * y / a, lambda g, a, *_: g / a
    )
    __pow__ = _binary(  # the wheres keep 0 ** -1 out of x ** 0, and log(0) out of 0 ** x
        np.power,
        lambda g, a, b, y: g * b * a ** (np.where(b == 0, 1, b) - 1),
        lambda g, a, b, y: g * y * np.log(np.where(a == 0, 1, a)),
    )

    def __matmul__(self, other: Any) -> Tensor:
        a, b = _operands(self, other)
        if b.ndim == 1:  # a vector is a column on the right, a row on the left
            return (a @ b.reshape(-1, 1))[..., 0]
        if a.ndim == 1:
            return (a.reshape(1, -1) @ b)[..., 0, :]
        return node(
            a.data @ b.data,  # (..., n, k) @ (..., k, m)
            (a, lambda g: g @ b.data.swapaxes(-1, -2)),
            (b, lambda g: a.data.swapaxes(-1, -2) @ g),
        )

    def sum(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        def rule(g: Array) -> Array:
            g = g if dim is None or keepdim else np.expand_dims(g, dim)
            return np.broadcast_to(g, self.shape)

        return node(self.data.sum(axis=dim, keepdims=keepdim), (self, rule))

    def mean(self, dim: Dims = None, keepdim: bool = False) -> Tensor:
        total = self.sum(dim, keepdim)
        return total / (self.numel() / max(total.numel(), 1))

    def softmax(self, dim: int) -> Tensor:
        powers = (self - Tensor(self.data.max(axis=dim, keepdims=True))).exp()
        return powers / powers.sum(dim, keepdim=True)

    def reshape(self, *shape: Any) -> Tensor:
        return node(self.data.reshape(*shape), (self, lambda g: g.reshape(self.shape)))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        start, end = start_dim % self.ndim, end_dim % self.ndim + 1
        merged = math.prod(self.shape[start:end])
        return self.reshape(*self.shape[:start], merged, *self.shape[end:])

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        return node(self.data.swapaxes(dim0, dim1), (self, lambda g: g.swapaxes(dim0, dim1)))

    def __getitem__(self, index: Any) -> Tensor:
        parts = index if isinstance(index, tuple) else (index,)
        parts = tuple(part.data if isinstance(part, Tensor) else part for part in parts)

        def rule(g: Array) -> Array:
            out = np.zeros_like(self.data)
            if any(isinstance(part, list | np.ndarray) for part in parts):
                np.add.at(out, parts, g)  # an index array may name one element twice
            else:
                out[parts] = g
            return out

        return node(self.data[parts], (self, rule))

    view = reshape
    T = property(lambda self: self.transpose(0, 1))

    # What follows is about the array inside, and has no gradient.
    shape = property(lambda self: self.data.shape)
    ndim = property(lambda self: self.data.ndim)
    dtype = property(lambda self: self.data.dtype)
    __hash__ = object.__hash__  # by identity, as in torch, although == compares numbers

    def numel(self) -> int:
        return self.data.size

    def item(self) -> Any:
        return self.data.item()

    def numpy(self) -> Array:
        return self.data

    def detach(self) -> Tensor:
        return Tensor(self.data)

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
