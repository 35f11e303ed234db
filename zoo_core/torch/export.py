"""Torch models as files for others: ONNX, or a torch program (.pt2); compared, then kept."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo_core.io.errors import ZooError
from zoo_core.io.files import temporary_folder
from zoo_core.io.targets import describe, missing_dependency

TOLERANCE = 1e-3  # of the largest number in the answer: other kernels round differently


def export(model: nn.Module, images: Tensor, path: Path) -> float:
    """Write a model and return by how much the written one differs on the images."""
    if path.suffix == ".onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            if importlib.util.find_spec(package) is None:
                raise missing_dependency(package, "writing ONNX")
    expected = _answers(model, images)
    write = _write_onnx if path.suffix == ".onnx" else _write_program
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(path) as folder:
            written = folder / path.name
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")  # of the exporter, about itself
                difference = _difference(expected, write(model, images, written))
            written.replace(path)
            return difference
    except OSError as error:
        raise ZooError(f"{path} could not be written: {error.strerror or error}") from error
    except ZooError:
        raise
    except Exception as error:
        kind = type(model).__name__
        raise ZooError(
            f"{kind} cannot be exported to {path.suffix}: {describe(error)[:300]}",
            "run the command again with --debug for the traceback",
        ) from error


def _program(model: nn.Module, images: Tensor) -> Any:
    # AUTO: any number of images, unless the model itself insists on this one.
    return torch.export.export(
        model, (images,), dynamic_shapes=({0: torch.export.Dim.AUTO},), strict=False
    )


def _write_program(model: nn.Module, images: Tensor, path: Path) -> list[np.ndarray]:
    """Write, and give the answers of what was written."""
    torch.export.save(_program(model, images), path)
    return _answers(torch.export.load(path).module(), images)


def _write_onnx(model: nn.Module, images: Tensor, path: Path) -> list[np.ndarray]:
    import onnxruntime

    torch.onnx.export(
        _program(model, images), (), str(path), input_names=["images"], external_data=False,
        verbose=False,
    )  # fmt: skip
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return list(session.run(None, {"images": images.numpy()}))


@torch.no_grad()
def _answers(model: Any, images: Tensor) -> list[np.ndarray]:
    leaves = torch.utils._pytree.tree_leaves(model(images))
    return [leaf.detach().float().numpy() for leaf in leaves if isinstance(leaf, Tensor)]


def _difference(expected: list[np.ndarray], found: list[np.ndarray]) -> float:
    if [one.shape for one in expected] != [one.shape for one in found]:
        raise ZooError("the written model gives another shape than the model; it is not kept")
    difference = max(float(np.abs(a - b).max()) for a, b in zip(expected, found, strict=True))
    allowed = TOLERANCE * max(float(np.abs(one).max()) for one in expected)
    if not difference <= allowed:
        raise ZooError(
            f"the written model differs from the model by {difference:.2g}; it is not kept"
        )
    return difference
