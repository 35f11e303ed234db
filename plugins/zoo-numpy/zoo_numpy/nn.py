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
from numpy.random import Generator, default_rng

from zoo_numpy.tensor import Array, Tensor, node

Pair = int | Sequence[int]  # 3 means (3, 3)
Rng = Generator | None  # None takes a new generator with a seed of its own


def pair(value: Pair) -> tuple[int, int]:
    first, second = (value, value) if isinstance(value, int) else value
    return first, second


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


def _uniform(rng: Generator, fan_in: int, *shape: int) -> Parameter:
    """Kaiming uniform with a = sqrt(5), torch's default, comes to a bound of 1 / sqrt(fan_in)."""
    bound = 1 / math.sqrt(fan_in)
    return Parameter(rng.uniform(-bound, bound, shape).astype(np.float32))


class Linear(Module):
    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, generator: Rng = None
    ) -> None:
        rng = generator or default_rng()
        self.weight = _uniform(rng, in_features, out_features, in_features)
        self.bias = _uniform(rng, in_features, out_features) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        out = x @ self.weight.transpose(0, 1)  # (..., in) @ (in, out)
        return out if self.bias is None else out + self.bias


def _windows(x: Array, kernel: Pair, stride: Pair, padding: Pair, fill: float = 0.0) -> Array:
    """What the kernel sees at each place: a view of the padded x, (B, C, OH, OW, KH, KW)."""
    if x.ndim != 4:
        raise ValueError(f"expected images of shape (B, C, H, W), not {x.shape}")
    (b, c, h, w), (kh, kw), (sh, sw), (ph, pw) = x.shape, *map(pair, (kernel, stride, padding))
    if h + 2 * ph < kh or w + 2 * pw < kw:
        raise ValueError(f"a {kh}x{kw} kernel does not fit {h}x{w} images padded by ({ph}, {pw})")
    inner = x.transpose(1, 2, 3, 0)  # (C, H, W, B)
    if ph or pw:
        inner = np.full((c, h + 2 * ph, w + 2 * pw, b), fill, dtype=x.dtype)
        inner[:, ph : ph + h, pw : pw + w] = x.transpose(1, 2, 3, 0)
    batch_last = np.ascontiguousarray(inner).transpose(3, 0, 1, 2)  # copies only if it has to
    return sliding_window_view(batch_last, (kh, kw), axis=(2, 3))[:, :, ::sh, ::sw]


def _fold(windows: Array, shape: Sequence[int], stride: Pair, padding: Pair) -> Array:
    """The reverse of `_windows`: add every window back to where it was seen, (B, C, H, W)."""
    (b, c, h, w), (sh, sw), (ph, pw) = shape, pair(stride), pair(padding)
    oh, ow, kh, kw = windows.shape[2:]
    out = np.zeros((c, h + 2 * ph, w + 2 * pw, b), dtype=windows.dtype).transpose(3, 0, 1, 2)
    if sh >= kh and sw >= kw:  # windows that do not overlap: one assignment
        places = sliding_window_view(out, (kh, kw), axis=(2, 3), writeable=True)
        places[:, :, ::sh, ::sw] = windows
    else:  # one addition of whole images for each place in the kernel
        for i, j in np.ndindex(kh, kw):
            out[:, :, i : i + sh * oh : sh, j : j + sw * ow : sw] += windows[..., i, j]
    return out[:, :, ph : ph + h, pw : pw + w]


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
        rng, kernel = generator or default_rng(), pair(kernel_size)
        self.stride, self.padding = stride, padding
        fan_in = in_channels * math.prod(kernel)
        self.weight = _uniform(rng, fan_in, out_channels, in_channels, *kernel)
        self.bias = _uniform(rng, fan_in, out_channels) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        o, c, kh, kw = self.weight.shape
        windows = _windows(x.data, (kh, kw), self.stride, self.padding)  # (B, C, OH, OW, KH, KW)
        if x.shape[1] != c:
            raise ValueError(f"this convolution is for {c} channels, the images have {x.shape[1]}")
        b, _, oh, ow, _, _ = windows.shape
        columns = windows.transpose(1, 4, 5, 2, 3, 0).reshape(c * kh * kw, oh * ow * b)
        rows = self.weight.data.reshape(o, c * kh * kw)
        out = rows @ columns  # (O, OH * OW * B)
        if self.bias is not None:
            out += self.bias.data[:, None]

        def flat(g: Array) -> Array:  # (B, O, OH, OW) to (O, OH * OW * B)
            return g.transpose(1, 2, 3, 0).reshape(o, oh * ow * b)

        def to_x(g: Array) -> Array:
            grads = (rows.T @ flat(g)).reshape(c, kh, kw, oh, ow, b)
            return _fold(grads.transpose(5, 0, 3, 4, 1, 2), x.shape, self.stride, self.padding)

        def to_weight(g: Array) -> Array:
            return (columns @ flat(g).T).T.reshape(o, c, kh, kw)  # faster than g @ columns.T

        inputs = [(x, to_x), (self.weight, to_weight)]
        if self.bias is not None:
            inputs.append((self.bias, lambda g: g.sum(axis=(0, 2, 3))))
        return node(out.reshape(o, oh, ow, b).transpose(3, 0, 1, 2), *inputs)


class _Pool2d(Module):
    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> None:
        self.kernel_size, self.padding = pair(kernel_size), pair(padding)
        self.stride = pair(kernel_size if stride is None else stride)
        if any(2 * p > k for p, k in zip(self.padding, self.kernel_size, strict=True)):
            raise ValueError(f"padding {padding} is more than half of the kernel {kernel_size}")


class MaxPool2d(_Pool2d):
    def forward(self, x: Tensor) -> Tensor:
        windows = _windows(x.data, self.kernel_size, self.stride, self.padding, fill=-np.inf)
        out = windows.max(axis=(4, 5))

        def rule(g: Array) -> Array:
            b, c, oh, ow, kh, kw = windows.shape
            grads = np.empty((kh, kw, c, oh, ow, b), dtype=g.dtype).transpose(5, 2, 3, 4, 0, 1)
            waiting = np.ones_like(out, dtype=bool)
            for i, j in np.ndindex(kh, kw):  # a few steps over whole images; argmax is slower
                first = (windows[..., i, j] == out) & waiting  # the first of equal maxima
                waiting ^= first
                np.multiply(g, first, out=grads[..., i, j])
            return _fold(grads, x.shape, self.stride, self.padding)

        return node(out, (x, rule))


class AvgPool2d(_Pool2d):
    def forward(self, x: Tensor) -> Tensor:
        windows = _windows(x.data, self.kernel_size, self.stride, self.padding)
        shape, count = windows.shape, math.prod(self.kernel_size)

        def rule(g: Array) -> Array:
            spread = np.broadcast_to((g / count)[..., None, None], shape)
            return _fold(spread, x.shape, self.stride, self.padding)

        return node(windows.sum(axis=(4, 5)) / count, (x, rule))


def _dot(a: Array, b: Array) -> Array:  # the sum of a * b over each channel, (C,)
    return np.asarray(np.einsum("bchw,bchw->c", a, b))


def _wide(values: Array) -> Array:  # (C,) to (C, 1, 1), to broadcast over images
    return values[:, None, None]


class BatchNorm2d(Module):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        self.eps, self.momentum = eps, momentum
        self.weight = Parameter(np.ones(num_features, dtype=np.float32))
        self.bias = Parameter(np.zeros(num_features, dtype=np.float32))
        self.running_mean = Buffer(np.zeros(num_features, dtype=np.float32))
        self.running_var = Buffer(np.ones(num_features, dtype=np.float32))
        self.num_batches_tracked = Buffer(np.zeros((), dtype=np.int64))

    def forward(self, x: Tensor) -> Tensor:
        weight, bias, training = self.weight, self.bias, self.training
        mean, var = self.running_mean.data, self.running_var.data  # (C,)
        n = x.numel() // weight.numel()  # numbers in a channel
        if x.ndim != 4 or x.shape[1] != weight.numel() or (training and n < 2):
            raise ValueError(f"batch norm of {weight.numel()} channels cannot use {x.shape}")
        if training:
            mean = x.data.mean(axis=(0, 2, 3))
        x_hat = x.data - _wide(mean)  # (B, C, H, W)
        if training:
            var = _dot(x_hat, x_hat) / n
            self.running_mean.data += self.momentum * (mean - self.running_mean.data)
            self.running_var.data += self.momentum * (var * n / (n - 1) - self.running_var.data)
            self.num_batches_tracked.data += 1
        inv_std = 1 / np.sqrt(var + self.eps)
        x_hat *= _wide(inv_std)
        out = x_hat * _wide(weight.data)
        out += _wide(bias.data)

        def to_x(g: Array) -> Array:
            if not training:
                return g * _wide(weight.data * inv_std)
            # The batch's mean and variance depend on x too. Their terms take from g what it
            # shares with a constant and with x_hat: normalising loses those two directions.
            grad = x_hat * _wide(_dot(g, x_hat) / -n)
            grad += g
            grad -= _wide(g.mean(axis=(0, 2, 3)))
            grad *= _wide(weight.data * inv_std)
            return grad

        return node(
            out,
            (x, to_x),
            (weight, lambda g: _dot(g, x_hat)),
            (bias, lambda g: g.sum(axis=(0, 2, 3))),
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
    def forward(self, x: Tensor) -> Tensor:
        return x.relu()


class LeakyReLU(Module):
    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return x * Tensor(np.where(x.data > 0, 1, self.negative_slope), dtype=x.dtype)


class Sigmoid(Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sigmoid()


class Flatten(Module):
    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)


class Identity(Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


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
        if wanted.dtype.kind in "iu" and wanted.shape == (batch,):
            if batch and not 0 <= wanted.min() <= wanted.max() < classes:
                raise ValueError(f"there is a class number outside 0 to {classes - 1}")
            wanted = np.eye(classes)[wanted]
        elif wanted.dtype.kind != "f" or wanted.shape != (batch, classes):
            found = f"{wanted.dtype} of shape {wanted.shape}"
            raise ValueError(f"targets are {batch} integers or floats {logits.shape}, not {found}")
        wanted = wanted * (1 - self.label_smoothing) + self.label_smoothing / classes
        wanted = wanted.astype(logits.dtype, copy=False)  # (B, C)
        z = logits.data - logits.data.max(axis=1, keepdims=True)  # so that exp cannot overflow
        log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))  # log softmax

        def rule(g: Array) -> Array:  # of log and softmax together: there is nothing to divide by
            grad = np.exp(log_p) * wanted.sum(axis=1, keepdims=True) - wanted
            return np.asarray(grad * (g / batch))

        return node(-(wanted * log_p).sum() / batch, (logits, rule))
