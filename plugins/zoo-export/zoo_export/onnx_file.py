"""ONNX files: the model as its framework writes it, with what a Form puts around it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo import kit
from zoo_export.graph import ANSWERS, OUTPUTS, RAW, Arrays, Case, Form, Graph

TORCHS = "zoo_export.torch:to_onnx"  # for all frameworks whose models are modules of torch
Run = Callable[[Sequence[np.ndarray]], Arrays]


def core_of(model: Any, target: Any, form: Form, case: Case) -> Any:
    """The model alone as ONNX, as its framework writes it; target: it, or what draws samples."""
    framework, graph = model.zoo.framework, Graph()
    written_by = framework.capabilities.get("onnx", TORCHS if framework.backend == "torch" else "")
    if not written_by:
        what = f"{type(framework).__name__} does not say how its models become ONNX"
        raise zoo.UsageError(what, "docs/export.md says how a framework declares it")
    write = kit.resolve(written_by, f"exporting model {model.zoo.entry.name!r}")
    examples = case.given
    if form.part in (ANSWERS, OUTPUTS):
        examples = [np.asarray(kit.as_input(model, case.given[0]))]
    examples = [np.repeat(one[:1], 2, axis=0) for one in examples]  # 1 image would stay 1 image
    given = [
        graph.input(f"input_{number}", one.dtype.name, ("batch", *one.shape[1:]))
        for number, one in enumerate(examples)
    ]
    return graph.model({"outputs": write(target, graph, given, examples)}, {"outputs": None})


def write_onnx(path: Path, form: Form, core: Any, case: Case, told: Mapping[str, Any]) -> Run:
    """Write a model with what the form puts around it; how to run what was written."""
    graph = Graph()
    named = zip(inputs_of(form, case.given), case.given, strict=True)
    given = [graph.input(name, a.dtype.name, shape, words) for (name, shape, words), a in named]
    made = form(graph, lambda *images: graph.include(core, *images), *given)
    model = graph.model(made, case.wanted, str(told["outputs"]), zoo=json.dumps(told))
    path.write_bytes(model.SerializeToString())
    return runner(path)


def runner(path: Path) -> Run:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = [one.name for one in session.get_inputs()]
    outputs = [one.name for one in session.get_outputs()]

    def run(given: Sequence[np.ndarray]) -> Arrays:
        made = session.run(None, dict(zip(inputs, given, strict=True)))
        return dict(zip(outputs, made, strict=True))

    return run


def inputs_of(form: Form, given: Sequence[np.ndarray]) -> list[tuple[str, tuple[Any, ...], str]]:
    """Name, shape and words of each input."""
    if form.part in (ANSWERS, OUTPUTS):
        words = "RGB bytes, 0 to 255, in any height and width"
        return [("image", ("batch", "height", "width", 3), words)]
    shapes = [("batch", *array.shape[1:]) for array in given]
    if form.part == RAW:
        return [("input", shapes[0], "images as the preprocessing in the metadata makes them")]
    named = [("noise", "normally distributed"), ("condition", "numbers of the classes")]
    return [(n, shape, words) for (n, words), shape in zip(named, shapes, strict=False)]
