"""Networks of this framework as parts of an ONNX graph, layer by layer; torch is not needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zoo_numpy import nn


def to_onnx(model: nn.Module, graph: Any, inputs: Any, examples: Any) -> Any:
    """Write a network into the graph of zoo-export: from the symbol of its images to its logits."""
    return model.eval()(Traced(graph, inputs[0])).symbol


class Traced:
    """An image on its way through a network: each layer adds its operator to the graph."""

    def __init__(self, graph: Any, symbol: Any) -> None:
        self.graph, self.symbol = graph, symbol

    def add(self, operator: str, *given: Any, **attributes: Any) -> Traced:
        arrays = (array.data if hasattr(array, "data") else array for array in given)
        made = self.graph.apply(operator, self.symbol, *arrays, **attributes)
        return Traced(self.graph, made)

    def through(self, layer: nn.Module) -> Traced | None:
        """What a layer gives; None: it is made of others, which its `forward` calls."""
        known = LAYERS.get(type(layer))
        return known(self, layer) if known else None

    def relu(self) -> Traced:
        return self.add("Relu")

    def flatten(self, start_dim: int = 0) -> Traced:
        return self.add("Flatten", axis=start_dim)


def _linear(x: Traced, layer: Any) -> Traced:
    return x.add("Gemm", layer.weight, *([] if layer.bias is None else [layer.bias]), transB=1)


def _convolution(x: Traced, layer: Any) -> Traced:
    bias = [] if layer.bias is None else [layer.bias]
    return x.add("Conv", layer.weight, *bias, **_steps(layer, layer.weight.shape[2:]))


def _batch_norm(x: Traced, layer: Any) -> Traced:
    given = layer.weight, layer.bias, layer.running_mean, layer.running_var
    return x.add("BatchNormalization", *given, epsilon=layer.eps)


def _pooling(operator: str, **more: int) -> Callable[[Traced, Any], Traced]:
    return lambda x, layer: x.add(operator, **_steps(layer, layer.kernel_size), **more)


def _steps(layer: Any, kernel: Any) -> dict[str, list[int]]:
    pads = [*nn.pair(layer.padding)] * 2
    return {"kernel_shape": [*kernel], "strides": [*nn.pair(layer.stride)], "pads": pads}


LAYERS: Mapping[type, Callable[[Traced, Any], Traced]] = {
    nn.Linear: _linear,
    nn.Conv2d: _convolution,
    nn.BatchNorm2d: _batch_norm,
    nn.AvgPool2d: _pooling("AveragePool", count_include_pad=1),
    nn.MaxPool2d: _pooling("MaxPool"),
    nn.Flatten: lambda x, layer: x.flatten(layer.start_dim),
    nn.ReLU: lambda x, layer: x.relu(),
    nn.LeakyReLU: lambda x, layer: x.add("LeakyRelu", alpha=layer.negative_slope),
    nn.Sigmoid: lambda x, layer: x.add("Sigmoid"),
    nn.Dropout: lambda x, layer: x,
}
