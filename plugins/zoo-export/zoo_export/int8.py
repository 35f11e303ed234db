"""ONNX files with weights and activations of 8 bits, kept only if their answers are as good."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo import kit
from zoo_export.graph import Case, Form
from zoo_export.onnx_file import Run, runner, write_onnx

CALIBRATION = 512  # training images that choose the ranges of 8 bits
QUANTISED = ["Conv", "Gemm", "MatMul"]
MEASURED = 256  # images that both files answer at once, at most
AT_ONCE, REPEATS = (1, 64), 7  # images whose time is taken, and how often


@dataclass(frozen=True)
class Quantised:
    """A file with weights and activations of 8 bits, beside the one with floats."""

    images: int  # of the test split that both have answered
    accuracy: float
    original: float
    difference: kit.Difference  # of the accuracies, over the same images
    margin: float  # that the difference may cost at most
    original_bytes: int
    seconds: Mapping[int, tuple[float, ...]]  # by images at once: of this file, of the original


def quantised(core: Any, folder: Path, images: Sequence[np.ndarray]) -> Any:
    """The model alone with weights and activations of 8 bits; images: what shows their ranges."""
    import onnx
    from onnxruntime import quantization

    class Images(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(images)

        def get_next(self) -> dict[str, np.ndarray] | None:
            batch = next(self.left, None)
            return None if batch is None else {"input_0": batch}

    files = [folder / f"{name}.onnx" for name in ("floats", "ready", "bytes")]
    onnx.save(core, files[0])
    quantization.quant_pre_process(files[0], files[1], skip_symbolic_shape=True)
    quantization.quantize_static(
        files[1], files[2], Images(), per_channel=True, op_types_to_quantize=QUANTISED
    )
    return onnx.load(files[2])


def shrink(
    model: Any, form: Form, core: Any, path: Path, case: Case, told: Mapping[str, Any],
    margin: float,
) -> Quantised:  # fmt: skip
    """Replace a file by one with 8 bits, unless its answers are worse."""
    about, at_once = model.zoo, form.preprocess.at_once
    data = zoo.open_dataset(about.dataset, about.data_options, fit=form.preprocess.fit)
    test = data.test
    same = form.targets.kind == "class" and data.targets.names == form.targets.names
    if not same or test is None or test.labels is None:
        what = f"int8 needs test images with one of its classes each, which {data.name} has not"
        raise zoo.UsageError(what)
    rows = np.linspace(0, len(data.train) - 1, min(CALIBRATION, len(data.train))).astype(int)
    parts = np.split(rows, range(min(16, at_once), len(rows), min(16, at_once)))
    seen = [np.asarray(kit.as_input(model, data.train.images[part])) for part in parts]
    original, used = runner(path), path.stat().st_size
    small = path.with_stem("int8")
    smaller = write_onnx(small, form, quantised(core, path.parent, seen), case, told)
    right, each = [], min(MEASURED, at_once)
    with kit.progress("comparing int8 with floats", len(test)) as advance:
        for start in range(0, len(test), each):
            part = slice(start, start + each)
            images, labels = in_colours(test.images[part]), test.labels[part]
            said_by = [run([images])["probabilities"].argmax(1) for run in (smaller, original)]
            right.append([answers == labels for answers in said_by])
            advance(len(images))
    ours, theirs = np.concatenate(right, axis=1)
    found = kit.paired(int((ours & ~theirs).sum()), int((theirs & ~ours).sum()), len(test))
    if found.interval[0] < -margin:
        what = f"int8 may cost {-100 * found.interval[0]:.2f} % of accuracy on {len(test):,} images"
        hint = "--margin allows more, as a share: --margin 0.03"
        raise zoo.ZooError(f"{what}, more than the margin of {100 * margin:g} %", hint)
    images = in_colours(test.images[: max(AT_ONCE)])
    seconds = {n: timed((smaller, original), images[:n]) for n in AT_ONCE}
    small.replace(path)
    return Quantised(
        len(test), float(ours.mean()), float(theirs.mean()), found, margin, used, seconds
    )


def timed(runs: Sequence[Run], images: np.ndarray) -> tuple[float, ...]:
    """Seconds of each for these images: the shortest of several, in turns."""
    took: list[list[float]] = [[] for _ in runs]
    for _ in range(REPEATS):
        for run, found in zip(runs, took, strict=True):
            started = time.perf_counter()
            run([images])
            found.append(time.perf_counter() - started)
    return tuple(map(min, took))


def in_colours(images: np.ndarray) -> np.ndarray:
    """Images as files take them: uint8 (n, h, w, 3)."""
    return np.broadcast_to(images, (*images.shape[:3], 3)).copy()
