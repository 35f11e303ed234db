"""Layers and losses under torch's names, with torch's arguments, state-dict keys and defaults.

One thing differs: randomness comes from the generator a layer is given, never from a global one.
Images have shape (B, C, H, W), but their batch is innermost in memory: what moves by a pixel is
then a long run of numbers, and convolution and pooling are several times faster. Elementwise
operations keep that order, so it lasts from the first convolution to the flattening.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.random import PCG64, Generator, default_rng

from zoo_numpy.tensor import Array, Tensor, copy_into, node

Pair = int | Sequence[int]  # 3 means (3, 3)
Rng = Generator | None  # None takes a new generator with a seed of its own


class Weightless(Generator):
    """Draws arrays of zeros that take no memory: for a network that is only looked at."""

    def __init__(self) -> None:
        super().__init__(PCG64(0))

    def uniform(self, low: Any = 0, high: Any = 1, size: Any = None) -> Any:
        return np.broadcast_to(np.float32(0), size)


def pair(value: Pair) -> tuple[int, int]:
    first, second = (value, value) if isinstance(value, int) else value
    return first, second


class Parameter(Tensor):
    """A tensor that is trained."""

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data, requires_grad)


class Module:
    """A piece of a network: the tensors and modules that were assigned to its attributes.

    All of its tensors are saved. The parameters among them are trained, the others are buffers,
    like a running mean.
    """

    training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and hasattr(args[0], "through"):  # no tensor: the layer becomes a part of a graph
            made = args[0].through(self)
            if made is not None:
                return made
        return self.forward(*args, **kwargs)

    def _named(self, kind: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """All that is of this kind, here and in the modules inside, with names like conv1.bias."""
        for name, value in vars(self).items():
            if isinstance(value, kind):
                yield prefix + name, value
            if isinstance(value, Module):
                yield from value._named(kind, f"{prefix}{name}.")

    def modules(self) -> Iterator[Module]:
        yield self
        yield from (module for _, module in self._named(Module))

    def parameters(self) -> list[Parameter]:
        """Each of them once, even if two layers share it."""
        return list(dict.fromkeys(value for _, value in self._named(Parameter)))

    def tensors(self) -> dict[str, Tensor]:
        """Every parameter and buffer."""
        return dict(self._named(Tensor))

    def state_dict(self) -> dict[str, Array]:
        """The same as copies of their arrays: later training does not change them."""
        return {name: tensor.data.copy() for name, tensor in self.tensors().items()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        ours = {name: tensor.data for name, tensor in self.tensors().items()}
        copy_into(ours, state_dict, strict)

    def train(self, mode: bool = True) -> Self:
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        return self.train(False)

    def __repr__(self) -> str:
        lines = [f"\n  {name} {value.shape}" for name, value in self._named(Tensor)]
        return f"{type(self).__name__}({''.join(lines)})"


class Sequential(Module):
    def __init__(self, *layers: Module) -> None:
        for index, layer in enumerate(layers):
            setattr(self, str(index), layer)

    def __iter__(self) -> Iterator[Module]:
        return (value for value in vars(self).values() if isinstance(value, Module))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self:
            x = layer(x)
        return x


def _drawn(shape: Sequence[int], bias: bool, generator: Rng) -> tuple[Parameter, Parameter | None]:
    """A weight and a bias. Torch's default, Kaiming uniform with a = sqrt(5), has this bound."""
    rng, bound = generator or default_rng(), 1 / math.sqrt(math.prod(shape[1:]))
    drawn = (rng.uniform(-bound, bound, size) for size in (shape, shape[:1]))
    weight, offset = (array.astype(np.float32, copy=False) for array in drawn)
    return Parameter(weight), Parameter(offset) if bias else None


class Linear(Module):
    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, generator: Rng = None
    ) -> None:
        self.weight, self.bias = _drawn((out_features, in_features), bias, generator)

    def forward(self, x: Tensor) -> Tensor:
        out = x @ self.weight.transpose(0, 1)  # (..., in) @ (in, out)
        return out if self.bias is None else out + self.bias


def _windows(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, fill: float = 0.0) -> Tensor:
    """What the kernel sees at each place: a view of the padded images, (B, C, OH, OW, KH, KW)."""
    if x.ndim != 4:
        raise ValueError(f"expected images of shape (B, C, H, W), not {x.shape}")
    (_, _, h, w), (kh, kw), (sh, sw), (ph, pw) = x.shape, *map(pair, (kernel, stride, padding))
    if h + 2 * ph < kh or w + 2 * pw < kw:
        raise ValueError(f"a {kh}x{kw} kernel does not fit {h}x{w} images padded by ({ph}, {pw})")
    images = x.data.transpose(1, 2, 3, 0)  # (C, H, W, B)
    if ph or pw:
        images = np.pad(images, ((0, 0), (ph, ph), (pw, pw), (0, 0)), constant_values=fill)
    images = np.ascontiguousarray(images)  # copies only if it has to

    def seen(images: Array) -> Array:
        views = sliding_window_view(images, (kh, kw), axis=(1, 2), writeable=True)
        return views[:, ::sh, ::sw].transpose(3, 0, 1, 2, 4, 5)

    def rule(g: Array) -> Array:  # add every window back to where it was seen
        total = np.zeros_like(images, dtype=g.dtype)
        windows = seen(total)
        if sh >= kh and sw >= kw:
            windows[...] = g  # they do not overlap
        else:
            for i, j in np.ndindex(kh, kw):  # they do, but not at one place of the kernel
                windows[..., i, j] += g[..., i, j]
        return total[:, ph : ph + h, pw : pw + w].transpose(3, 0, 1, 2)

    return node(seen(images), (x, rule))


class Conv2d(Module):
    """Every kernel as a row of a matrix, times every window as a column of another."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        *,
        bias: bool = True,
        generator: Rng = None,
    ) -> None:
        self.stride, self.padding = stride, padding
        shape = out_channels, in_channels, *pair(kernel_size)
        self.weight, self.bias = _drawn(shape, bias, generator)

    def forward(self, x: Tensor) -> Tensor:
        o, c, kh, kw = self.weight.shape
        windows = _windows(x, (kh, kw), self.stride, self.padding)
        b, channels, oh, ow, _, _ = windows.shape
        if channels != c:
            raise ValueError(f"this convolution is for {c} channels, the images have {channels}")
        columns = windows.permute(1, 4, 5, 2, 3, 0).reshape(c * kh * kw, oh * ow * b)
        out = self.weight.reshape(o, c * kh * kw) @ columns  # (O, OH * OW * B)
        if self.bias is not None:
            out.data += self.bias.data[:, None]  # in place, which spares a copy of all images
            out = node(out.data, (out, lambda g: g), (self.bias, lambda g: g.sum(axis=1)))
        return out.reshape(o, oh, ow, b).permute(3, 0, 1, 2)


class _Pool2d(Module):
    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> None:
        self.kernel_size, self.padding = pair(kernel_size), pair(padding)
        self.stride = pair(kernel_size if stride is None else stride)
        if any(2 * p > k for p, k in zip(self.padding, self.kernel_size, strict=True)):
            raise ValueError(f"padding {padding} is more than half of the kernel {kernel_size}")


class MaxPool2d(_Pool2d):
    def forward(self, x: Tensor) -> Tensor:
        windows = _windows(x, self.kernel_size, self.stride, self.padding, fill=-np.inf)
        out = windows.data.max(axis=(4, 5))

        def rule(g: Array) -> Array:
            grads = np.empty_like(windows.data)
            for i, j in np.ndindex(self.kernel_size):  # a few steps; argmax is slower
                grads[..., i, j] = g * (windows.data[..., i, j] == out)
                g = g - grads[..., i, j]  # the first of equal maxima takes it all
            return grads

        return node(out, (windows, rule))


class AvgPool2d(_Pool2d):
    def forward(self, x: Tensor) -> Tensor:
        return _windows(x, self.kernel_size, self.stride, self.padding).mean((4, 5))


def _dot(a: Array, b: Array) -> Array:  # the sum of a * b over each channel, (1, C, 1, 1)
    return np.asarray(np.einsum("bchw,bchw->c", a, b)).reshape(1, -1, 1, 1)


class BatchNorm2d(Module):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        self.eps, self.momentum = eps, momentum
        self.weight = Parameter(np.ones(num_features, dtype=np.float32))
        self.bias = Parameter(np.zeros(num_features, dtype=np.float32))
        self.running_mean = Tensor(np.zeros(num_features, dtype=np.float32))
        self.running_var = Tensor(np.ones(num_features, dtype=np.float32))
        self.num_batches_tracked = Tensor(np.zeros((), dtype=np.int64))

    def forward(self, x: Tensor) -> Tensor:
        channels, axes = len(self.weight.data), (0, 2, 3)
        n = x.data.size // channels  # numbers in a channel
        if x.ndim != 4 or x.shape[1] != channels or (self.training and n < 2):
            raise ValueError(f"batch norm of {channels} channels cannot use {x.shape}")
        tensors = self.weight, self.bias, self.running_mean, self.running_var
        weight, bias, mean, var = (t.reshape(1, -1, 1, 1) for t in tensors)  # the same memory
        if not self.training:
            return (x - mean) * (1 / np.sqrt(var.data + self.eps)) * weight + bias
        batch_mean = x.data.mean(axis=axes, keepdims=True)
        x_hat = x.data - batch_mean
        batch_var = _dot(x_hat, x_hat) / n
        mean.data += self.momentum * (batch_mean - mean.data)
        var.data += self.momentum * (batch_var * n / (n - 1) - var.data)
        self.num_batches_tracked.data += 1
        inv_std = 1 / np.sqrt(batch_var + self.eps)
        x_hat *= inv_std

        def to_x(g: Array) -> Array:
            # The batch's mean and variance depend on x too. Their terms take from g what it
            # shares with a constant and with x_hat: normalising loses those two directions.
            grad = x_hat * (_dot(g, x_hat) / -n) + g - g.mean(axis=axes, keepdims=True)
            return np.asarray(grad * (weight.data * inv_std))

        return node(
            x_hat * weight.data + bias.data,
            (x, to_x),
            (weight, lambda g: _dot(g, x_hat)),
            (bias, lambda g: g.sum(axis=axes, keepdims=True)),
        )


class Dropout(Module):
    def __init__(self, p: float = 0.5, generator: Rng = None) -> None:
        if not 0 <= p < 1:
            raise ValueError(f"the dropout probability must be at least 0 and below 1, not {p}")
        self.p, self.generator = p, generator or default_rng()

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        kept = self.generator.random(x.shape, dtype=np.float32) >= self.p
        return x * Tensor(kept / x.dtype.type(1 - self.p))  # scaled up, so that the mean stays


class ReLU(Module):
    forward = staticmethod(Tensor.relu)


class LeakyReLU(Module):
    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return x * Tensor(np.where(x.data > 0, 1, self.negative_slope), dtype=x.dtype)


class Sigmoid(Module):
    forward = staticmethod(Tensor.sigmoid)


class Flatten(Module):
    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)


class MSELoss(Module):
    def forward(self, x: Tensor, target: Any) -> Tensor:
        if x.shape != np.shape(target):  # it would broadcast, and train for something else
            raise ValueError(f"the output has shape {x.shape}, the target {np.shape(target)}")
        difference: Tensor = x - target
        return (difference * difference).mean()


class CrossEntropyLoss(Module):
    """Takes logits (B, C), and as targets class numbers (B,) or probabilities (B, C)."""

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def forward(self, logits: Tensor, target: Any) -> Tensor:
        (batch, classes), wanted = logits.shape, np.asarray(target)
        numbers = wanted.dtype.kind in "iu" and wanted.shape == (batch,)
        if numbers and np.isin(wanted, range(classes)).all():
            wanted = np.eye(classes)[wanted]
        elif wanted.shape != logits.shape:
            asked = f"{batch} integers from 0 to {classes - 1}, or probabilities {logits.shape}"
            raise ValueError(f"targets are {asked}, not {wanted.dtype} {wanted.shape}")
        wanted = wanted * (1 - self.label_smoothing) + self.label_smoothing / classes  # (B, C)
        wanted = wanted.astype(logits.dtype, copy=False)
        z = logits.data - logits.data.max(axis=1, keepdims=True)  # so that exp cannot overflow
        log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))  # log softmax

        def rule(g: Array) -> Array:  # of log and softmax together: there is nothing to divide by
            grad = np.exp(log_p) * wanted.sum(axis=1, keepdims=True) - wanted
            return np.asarray(grad * (g / batch))

        return node(-(wanted * log_p).sum() / batch, (logits, rule))
