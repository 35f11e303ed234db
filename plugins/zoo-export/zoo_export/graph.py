"""What an exported file computes: bytes become the model's input, its outputs become answers.

`Form` is written once, with what torch's tensors and the symbols of an ONNX graph can both do. A
framework adds its model: its capability `onnx` writes it into a Graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL

import zoo
from zoo import kit

OPSET, IR_VERSION = 18, 10  # of a graph whose model needs no newer ones
BITS = 22  # of the weights that Pillow resizes with
# From 13.0 on it resizes down first where the height shrinks much more than the width.
TALL_FIRST = int(PIL.__version__.partition(".")[0]) >= 13
PADDING = 128  # the grey beside images that are padded
LUMA = (0.299, 0.587, 0.114)  # of red, green and blue in grey: ITU-R 601
GREY = np.array((19595.0, 38470.0, 7471.0)).reshape(3, 1, 1)  # / 2 ** 16, as in Pillow
ANSWERS, OUTPUTS, SAMPLES, RAW = "answers", "outputs", "samples", "raw"  # parts of a model
Call = Callable[..., Any]  # the model: arrays to arrays
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Form:
    """What a file takes and gives: answers about images, samples, or raw outputs."""

    part: str  # ANSWERS or OUTPUTS for images as bytes, SAMPLES, or RAW: nothing is put around it
    preprocess: zoo.Preprocess
    targets: zoo.Targets

    def __call__(self, xp: Any, call: Call, *given: Any) -> dict[str, Any]:
        """The outputs by name; xp: how arrays are made here, an ONNX Graph or its like in torch."""
        if self.part == RAW:
            return {"outputs": call(*given)}
        if self.part == SAMPLES:
            return {"image": self._pixels(xp, call(*given))}
        outputs, targets = call(self._prepared(xp, *given)), self.targets
        if self.part == OUTPUTS:
            return {"outputs": outputs}
        if targets.kind == "numbers":
            std, mean = (np.array(values, np.float32) for values in (targets.std, targets.mean))
            return {"numbers": outputs * xp.put(std) + xp.put(mean) if len(std) else outputs}
        if targets.kind == "class":
            calm = targets.temperature != 1
            return {"probabilities": xp.softmax(outputs / targets.temperature if calm else outputs)}
        found = xp.sigmoid(outputs)
        thresholds = np.array(targets.thresholds or [0.5] * len(targets.names), np.float32)
        return {"probabilities": found, "chosen": found >= xp.put(thresholds)}

    def _prepared(self, xp: Any, image: Any) -> Any:
        """uint8 (B, height, width, 3) as `Preprocess` makes it: float32 (B, c, size, size)."""
        p = self.preprocess
        (down, over_y, shrunk_y), (across, over_x, shrunk_x) = (
            _resizing(xp, image, axis, p) for axis in (1, 2)
        )
        planes = xp.cast(image.permute(0, 3, 1, 2), "float64")
        if p.stored_channels == 1:
            planes = (((planes * xp.put(GREY)).sum(1, keepdim=True) + 2**15) / 2**16).floor()
        # Whole numbers, and bytes after each step: to the bit as in Pillow, in its order too.
        given = planes, down, across.permute(1, 0)
        tall = (shrunk_y > 0) & (shrunk_y > shrunk_x * 2)
        planes = xp.choose(tall, _down_first if TALL_FIRST else _across_first, _across_first, given)
        if p.fit == "pad":
            planes = planes + (over_y @ over_x.permute(1, 0) - 1) * -PADDING
        planes = xp.cast(planes, "float32")
        if p.stored_size != p.size:
            whole = p.resize or p.size
            middle = slice((whole - p.size) // 2, (whole - p.size) // 2 + p.size)
            weights = kit.resize_weights(p.stored_size, whole, p.interpolation)[middle]
            right = xp.put(np.ascontiguousarray(weights.T))
            planes = (xp.put(weights) @ (planes @ right)).clamp(0, 255)
        if p.channels < p.stored_channels:
            luma = np.array(LUMA, np.float32).reshape(3, 1, 1)
            planes = (planes * xp.put(luma)).sum(1, keepdim=True)
        std, mean = (np.reshape(values, (-1, 1, 1)) for values in (p.std, p.mean))
        scale, bias = (1 / (255 * std)).astype(np.float32), (-mean / std).astype(np.float32)
        return planes * xp.put(scale) + xp.put(bias)  # one grey channel becomes three where needed

    def _pixels(self, xp: Any, drawn: Any) -> Any:
        """What the model makes, (B, c, h, w), as bytes (B, h, w, c)."""
        std, mean = (
            xp.put(np.reshape(values, (-1, 1, 1)).astype(np.float32))
            for values in (self.preprocess.std, self.preprocess.mean)
        )
        levels = ((drawn * std + mean) * 255).round().clamp(0, 255)
        return xp.cast(levels.permute(0, 2, 3, 1), "uint8")


@dataclass(frozen=True)
class Case:
    """What a file is tried with, what it must give, and how far it may be from that."""

    words: str
    given: list[np.ndarray]
    wanted: Arrays
    allowed: float


def _bytes(sums: Any) -> Any:
    return (sums / 2**BITS + 0.5).floor().clamp(0, 255)


def _across_first(planes: Any, down: Any, across: Any) -> Any:
    return _bytes(down @ _bytes(planes @ across))


def _down_first(planes: Any, down: Any, across: Any) -> Any:
    return _bytes(_bytes(down @ planes) @ across)


def _resizing(xp: Any, image: Any, axis: int, p: zoo.Preprocess) -> tuple[Any, Any, Any]:
    """The weights that bring a side to the stored size, (size, n), as Pillow has them, in units of
    2 ** -BITS; whether each row is inside the image, (size, 1); and how many pixels fewer there are
    then, (1,). Axis 1: rows, 2: columns."""
    size, places = p.stored_size, xp.places(image, axis)
    sides = [xp.places(image, one).amax(0, keepdim=True) + 1 for one in (1, 2)]  # float64 (1,)
    length = sides[axis - 1]
    rows = xp.put(np.arange(size)[:, None] + 0.5)  # the middle of each, float64 (size, 1)
    inner, start = length * 0 + size, length * 0
    step = length / size
    if p.fit == "crop":
        side = sides[0].minimum(sides[1])
        start, step = ((length - side) / 2).floor(), side / size
    elif p.fit == "pad":
        inner = (length * size / sides[0].maximum(sides[1])).round().clamp(1)
        rows, step = rows - ((inner * -1 + size) / 2).floor(), length / inner
    distance = (places + 0.5 - (rows * step + start)).abs() / step.clamp(1)
    near = (distance * -1 + 1).clamp(0)
    inside = xp.cast((rows > 0) & (rows < inner), "float64")
    weights = (near / near.sum(1, keepdim=True).clamp(1e-9) * 2**BITS + 0.5).floor()
    return weights * inside, inside, length - inner


class Symbol:
    """An array of an ONNX graph, with the operators and a few methods of torch's tensors."""

    def __init__(self, graph: Graph, name: str, dtype: str) -> None:
        self.graph, self.name, self.dtype = graph, name, dtype

    def apply(self, operator: str, *others: Any, dtype: str = "", **attributes: Any) -> Symbol:
        """This, and what else an operator of ONNX takes; numbers become of this dtype."""
        given = (o if isinstance(o, Symbol) else np.asarray(o, self.dtype) for o in others)
        return self.graph.apply(operator, self, *given, dtype=dtype, **attributes)

    def _operator(name: str, dtype: str = "") -> Any:  # type: ignore[misc]
        return lambda self, *others: self.apply(name, *others, dtype=dtype)

    __add__, __sub__, __mul__ = _operator("Add"), _operator("Sub"), _operator("Mul")
    __truediv__, __matmul__ = _operator("Div"), _operator("MatMul")
    __and__, __gt__ = _operator("And"), _operator("Greater", "bool")
    __lt__, __ge__ = _operator("Less", "bool"), _operator("GreaterOrEqual", "bool")
    abs, floor, round = _operator("Abs"), _operator("Floor"), _operator("Round")
    minimum, maximum, relu = _operator("Min"), _operator("Max"), _operator("Relu")

    def clamp(self, low: float, high: float | None = None) -> Symbol:
        least = self.apply("Max", low)
        return least if high is None else least.apply("Min", high)

    def permute(self, *order: int) -> Symbol:
        return self.apply("Transpose", perm=order)

    def amax(self, axis: int, *, keepdim: bool) -> Symbol:
        return self.graph.apply("ReduceMax", self, np.array([axis]), keepdims=int(keepdim))

    def sum(self, axis: int, *, keepdim: bool) -> Symbol:
        return self.graph.apply("ReduceSum", self, np.array([axis]), keepdims=int(keepdim))


class Graph:
    """An ONNX graph that is written operator by operator: `graph.apply("Relu", x)`."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.constants: list[Any] = []
        self.functions: list[Any] = []
        self.opsets, self.ir_version, self.count = {"": OPSET}, IR_VERSION, 0

    def input(self, name: str, dtype: str, shape: Sequence[int | str], words: str = "") -> Symbol:
        self.inputs.append(_value(name, dtype, shape, words))
        return Symbol(self, name, dtype)

    def put(self, array: np.ndarray) -> Symbol:
        """A constant."""
        from onnx import numpy_helper

        name, array = f"constant_{len(self.constants)}", np.asarray(array)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return Symbol(self, name, array.dtype.name)

    def apply(self, operator: str, *given: Any, dtype: str = "", **attributes: Any) -> Symbol:
        """What an operator of ONNX makes of symbols and arrays; dtype: unless as the first."""
        from onnx import helper

        inputs = [one if isinstance(one, Symbol) else self.put(one) for one in given]
        self.count += 1
        name = f"{operator.lower()}_{self.count}"
        names = [one.name for one in inputs]
        self.nodes.append(helper.make_node(operator, names, [name], name, **attributes))
        return Symbol(self, name, dtype or inputs[0].dtype)

    def include(self, model: Any, *given: Symbol) -> Symbol:
        """The nodes of another ONNX model, its inputs these; its only output."""
        from onnx import compose, helper

        model = compose.add_prefix(model, "model/")
        for one, symbol in zip(model.graph.input, given, strict=True):
            self.nodes.append(helper.make_node("Identity", [symbol.name], [one.name]))
        self.nodes += model.graph.node
        self.constants += model.graph.initializer
        self.functions += model.functions
        for opset in model.opset_import:
            self.opsets[opset.domain] = max(opset.version, self.opsets.get(opset.domain, 0))
        self.ir_version = max(self.ir_version, model.ir_version)
        (output,) = model.graph.output
        return Symbol(self, output.name, "float32")

    def model(
        self, outputs: Mapping[str, Symbol], like: Mapping[str, Any], words: str = "", **said: str
    ) -> Any:
        """The whole as a model; like: an example of each output, or None. said: metadata."""
        from onnx import helper

        ends = [helper.make_node("Identity", [one.name], [name]) for name, one in outputs.items()]
        values = [
            _value(n, "float32", None) if a is None
            else _value(n, a.dtype.name, ("batch", *a.shape[1:]))
            for n, a in like.items()
        ]  # fmt: skip
        graph = helper.make_graph(
            self.nodes + ends, "zoo", self.inputs, values, self.constants, doc_string=words
        )
        opsets = [helper.make_opsetid(*one) for one in self.opsets.items()]
        made = helper.make_model(
            graph, opset_imports=opsets, functions=self.functions, ir_version=self.ir_version,
            producer_name="zoo",
        )  # fmt: skip
        helper.set_model_props(made, said)
        return made

    def cast(self, symbol: Symbol, dtype: str) -> Symbol:
        from onnx import helper

        to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.apply("Cast", symbol, dtype=dtype, to=to)

    def places(self, image: Symbol, axis: int) -> Symbol:
        """0, 1, 2 ... along an axis, float64."""
        length = self.apply("Shape", image, dtype="int64", start=axis, end=axis + 1)
        one = self.apply("Squeeze", length)
        counted = self.apply("Range", np.int64(0), one, np.int64(1))
        return self.cast(counted, "float64")

    def choose(self, condition: Symbol, yes: Call, no: Call, given: Sequence[Symbol]) -> Symbol:
        """What one of two functions makes of symbols."""
        from onnx import helper

        branches = {}
        for name, branch in (("then_branch", yes), ("else_branch", no)):
            outside, self.nodes = self.nodes, []
            made = branch(*given)
            inside, self.nodes = self.nodes, outside
            value = _value(made.name, made.dtype, None)
            branches[name] = helper.make_graph(inside, name, [], [value])
        return self.apply("If", condition, dtype=made.dtype, **branches)

    def softmax(self, scores: Symbol) -> Symbol:
        return scores.apply("Softmax", axis=1)

    def sigmoid(self, scores: Symbol) -> Symbol:
        return scores.apply("Sigmoid")


def _value(name: str, dtype: str, shape: Sequence[int | str] | None, words: str = "") -> Any:
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, shape, doc_string=words)
