"""Torch models in the files of other programs: as a part of an ONNX graph, or as a .pt2."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import zoo
from zoo_export.graph import ANSWERS, OUTPUTS, Form, Graph, Symbol

SIDES = ("batch", "height", "width")  # of `image`


class Arrays:
    """What a Form needs to make tensors; Graph has the same for ONNX."""

    put = staticmethod(torch.from_numpy)
    sigmoid = staticmethod(torch.sigmoid)

    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(1)

    def cast(self, given: Tensor, dtype: str) -> Tensor:
        return given.to(getattr(torch, dtype))

    def choose(self, condition: Tensor, yes: Any, no: Any, given: Sequence[Tensor]) -> Tensor:
        if not torch.compiler.is_compiling():
            chosen: Tensor = (yes if condition else no)(*given)
            return chosen
        made: Tensor = torch.cond(condition, yes, no, tuple(given))
        return made

    def places(self, image: Tensor, axis: int) -> Tensor:
        return torch.arange(image.shape[axis], dtype=torch.float64, device=image.device)


class Called(nn.Module):
    """A model, or a generator's network, as a module."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        network = isinstance(model, nn.Module)
        self.model = model if network else model.model
        self.call = model if network else model.network

    def forward(self, *given: Tensor) -> Tensor:
        outputs: Tensor = self.call(*given)
        return outputs.detach().float()


class Whole(nn.Module):
    """A model with what a Form puts around it."""

    def __init__(self, model: Any, form: Form) -> None:
        super().__init__()
        self.model, self.form = Called(model), form

    def forward(self, *given: Tensor) -> dict[str, Tensor]:
        return self.form(Arrays(), self.model, *given)


def to_onnx(
    model: Any, graph: Graph, inputs: Sequence[Symbol], examples: Sequence[np.ndarray]
) -> Any:
    names = [f"input_{number}" for number, _ in enumerate(inputs)]
    with quietly():
        program = _program(Called(model), examples, ())
        written = torch.onnx.export(program, (), input_names=names, verbose=False)
    assert written is not None
    return graph.include(written.model_proto, *inputs)


def to_pt2(
    model: Any, path: Path, form: Form, examples: Sequence[np.ndarray], about: Mapping[str, Any]
) -> Callable[[Sequence[np.ndarray]], dict[str, np.ndarray]]:
    sides = SIDES if form.part in (ANSWERS, OUTPUTS) else ()
    with quietly():
        program = _program(Whole(model, form), examples, sides)
        torch.export.save(program, path, extra_files={"zoo.json": json.dumps(about)})
        written = torch.export.load(path).module()

    @torch.no_grad()
    def run(given: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        found = written(*map(torch.from_numpy, given))
        return {name: tensor.numpy() for name, tensor in found.items()}

    return run


def _program(module: nn.Module, examples: Sequence[np.ndarray], sides: Sequence[str]) -> Any:
    sizes = dict.fromkeys(range(len(sides) or 1), torch.export.Dim.DYNAMIC)
    tensors = tuple(map(torch.from_numpy, examples))
    try:
        program = torch.export.export(
            module.eval(), tensors, dynamic_shapes={"given": (sizes,) * len(tensors)}, strict=False
        )
    except Exception as error:
        if "specialized it to be a constant" not in str(error):
            raise
        what = "the model is made for one number of images: it uses len() of a tensor, perhaps"
        raise zoo.ZooError(what, "write images.shape[0] in place of len(images)") from error
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)  # paths of files on this disk
    return program


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without what the exporter says about itself."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        yield
