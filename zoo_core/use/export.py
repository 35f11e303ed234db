"""Trained models as files of other programs, which need nothing else to use them.

A file takes images as bytes and gives answers: resizing, normalisation and what the outputs mean
are inside. It is kept only if it says what the model says.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from zoo_core import __version__
from zoo_core.data.datasets import open_dataset
from zoo_core.data.loader import EVALUATION_BATCH
from zoo_core.io.console import percent, progress, size
from zoo_core.io.errors import UsageError, ZooError
from zoo_core.io.files import temporary_folder
from zoo_core.io.targets import Displayed, describe, missing_dependency
from zoo_core.runs.statistics import Difference, paired
from zoo_core.spec.answers import ANSWERS as ANSWERS_OF
from zoo_core.spec.answers import CLASS, CLASSES
from zoo_core.spec.framework import FORMATS, framework_of
from zoo_core.spec.registry import as_reference
from zoo_core.use.generate import Generator, sampler_of
from zoo_core.use.graph import ANSWERS, OUTPUTS, RAW, SAMPLES, Form, Graph
from zoo_core.use.load import About, as_input, blocks, load_model, loaded
from zoo_core.use.predict import answers_of
from zoo_core.weights.manifest import all_weights
from zoo_core.weights.references import obtain

COUNTS = (1, 7)  # images at once
SAME, OTHER, LEVELS, ROUNDING = 1e-4, 1e-2, 1.0, 1e-3
CALIBRATION = 512  # training images that choose the ranges of 8 bits
MARGIN = 0.01  # of accuracy that 8 bits may lose
QUANTISED = ["Conv", "Gemm", "MatMul"]
AT_ONCE, REPEATS = (1, 64), 7  # images whose time is taken, and how often
Arrays = dict[str, np.ndarray]
Run = Callable[[Sequence[np.ndarray]], Arrays]


@dataclass(frozen=True)
class Case:
    """What a file is tried with, what it must give, and how far it may be from that."""

    words: str
    given: list[np.ndarray]
    wanted: Arrays
    allowed: float


@dataclass(frozen=True)
class Quantised:
    """A file with weights and activations of 8 bits, beside the one with floats."""

    images: int  # of the test split that both have answered
    accuracy: float
    original: float
    difference: Difference  # of the accuracies, over the same images
    margin: float  # that the difference may cost at most
    original_bytes: int
    seconds: Mapping[int, tuple[float, ...]]  # by images at once: of this file, of the original


@dataclass(frozen=True, repr=False)
class Exported(Displayed):
    """A file that was written, and how it compares with the model."""

    path: Path
    bytes: int
    gives: tuple[str, ...]  # the names of its outputs
    images: str  # what it was tried with
    differences: Mapping[str, float]  # the largest, for each try
    int8: Quantised | None = None

    _html = "zoo_core.report.notebook:exported_html"

    def __repr__(self) -> str:
        return f"Exported({self.path}, {size(self.bytes)}, gives {', '.join(self.gives)})"

    def facts(self) -> dict[str, str]:
        """What there is to say about it."""
        words, worst = max(self.differences.items(), key=itemgetter(1))
        found = {
            "file": f"{self.path}, {size(self.bytes)}",
            "gives": ", ".join(self.gives),
            "compared on": self.images,
            "largest difference": f"{worst:.1e}, {words}",
        }
        if small := self.int8:
            low, high = (f"{100 * end:+.2f}" for end in small.difference.interval)
            both = f"{percent(small.accuracy)}; with floats {percent(small.original)}"
            margin = f"{low} to {high} %, where -{100 * small.margin:g} % is allowed"
            found["accuracy"] = f"{both}, on the same {small.images:,} images"
            found["difference"] = f"{margin} (95 % interval, {small.difference.test})"
            found["size"] = f"{self.bytes / small.original_bytes:.2f} of that with floats"
            for count, (ours, theirs) in small.seconds.items():
                found[f"{count} at once"] = f"{theirs / ours:.2f} times as fast as with floats"
        return found


def export(
    model: Any,
    path: str | Path,
    *,
    raw: bool = False,
    generate: bool = False,
    int8: bool = False,
    margin: float = MARGIN,
    runs: Path | None = None,
) -> Exported:
    """Write a trained model as a file that other programs use without the zoo.

        zoo.export("cnn", "cnn.onnx")             # image in, probabilities out
        zoo.export("cnn", "cnn.onnx", int8=True)  # smaller and quicker, if it is as good

    model: a run, weights, or a model that `zoo.load` returned, on the CPU. path: it ends in .onnx
    or .pt2. raw: from normalised images to logits. generate: samples, of a model that also answers.
    int8: kept only if its accuracy is surely no more than `margin` below. docs/export.md says what
    is in the file.
    """
    path, located = Path(path), None
    if path.suffix not in FORMATS:
        raise UsageError(f"{path} must end in {' or '.join(FORMATS)}")
    if int8 and (path.suffix != ".onnx" or raw or generate):
        raise UsageError("int8 is for an .onnx file that answers about images")
    for package in FORMATS[path.suffix][1]:
        if find_spec(package) is None:
            raise missing_dependency(package, f"writing {path.suffix}")
    if isinstance(model, str | Path):
        located = (weights := obtain(as_reference(model), runs)).located
        model = load_model(weights)
    model = loaded(model)
    about, options = model.zoo, dict(located.data_options) if located else {}
    if about.preprocess is None:
        raise UsageError("an untrained model has nothing to export", "zoo train gives it weights")
    form = form_of(model, raw, generate)
    images, words = pictures(about, options)
    cases = cases_of(model, form, images)
    what = f"{type(model).__name__} cannot be exported to {path.suffix}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(path) as folder:
            new, smaller = folder / path.name, None
            if path.suffix == ".onnx":
                core = core_of(model, form, cases[0])
                run = write_onnx(new, form, core, cases[0], said(about, form))
            else:
                sizes = [case.given for case in cases if len(case.given[0]) > 1]
                target, told = target_of(model, form), said(about, form)
                run = framework_of(about.entry).to_pt2(target, new, form, sizes[-1], told)
            differences = {case.words: difference(case, run(case.given)) for case in cases}
            for case in cases:
                if not differences[case.words] <= case.allowed:
                    off = f"differs from the model's by {differences[case.words]:.2g}"
                    kept = f"with {case.words}; the file was not saved"
                    raise ZooError(f"the output of the exported file {off} {kept}")
            if int8:
                smaller = shrink(model, form, core, new, cases[0], options, margin)
            new.replace(path)
    except OSError as error:
        raise ZooError(f"{path} could not be written: {error.strerror or error}") from error
    except ZooError:
        raise
    except Exception as error:
        hint = "run the command again with --debug for the traceback"
        raise ZooError(f"{what}: {describe(error)[:300]}", hint) from error
    gives = tuple(cases[0].wanted)
    return Exported(path, path.stat().st_size, gives, words, differences, smaller)


def form_of(model: Any, raw: bool, generate: bool) -> Form:
    """What the file of a model takes and gives."""
    about, part = model.zoo, RAW
    answers = framework_of(about.entry).answers(about.entry, about.targets)
    if generate or (not raw and answers is None and "generate" in about.entry.capabilities):
        part, sampler = SAMPLES, sampler_of(model)
        if type(sampler.generator).network is Generator.network:
            what = f"{type(sampler.generator).__name__} has no method `network`"
            raise UsageError(f"{what}, which exported samples need", "docs/hooks.md describes it")
    elif not raw:
        usual = answers and getattr(ANSWERS_OF.get(answers.targets.kind), "values", None)
        known = answers is not None and type(answers).values is usual
        part = ANSWERS if known else OUTPUTS  # a plugin's own answers have a meaning of their own
        colours = about.preprocess.stored_channels
        if colours not in (1, 3):
            raise UsageError(f"images of {colours} channels are not RGB", "--raw exports the model")
    targets = answers_of(model).targets if part == ANSWERS else about.targets
    return Form(part, about.preprocess, targets)


def target_of(model: Any, form: Form) -> Any:
    return sampler_of(model).generator if form.part == SAMPLES else model


def said(about: About, form: Form) -> dict[str, Any]:
    """What the file says about itself, as JSON."""
    told = about.to_dict()
    licenses = (one.license for _, one in all_weights()[0] if one.sha256 == about.digest)
    outputs = {RAW: told["outputs"], **WORDS}[form.part]
    if form.part == ANSWERS and form.targets.kind in (CLASS, CLASSES):
        outputs = "probabilities of the classes"
        outputs += ", and whether each is above its threshold" * (form.targets.kind == CLASSES)
    more = {"license": next(licenses, ""), "zoo": __version__}
    return {**told, "outputs": outputs, **more}


WORDS = {
    ANSWERS: "numbers in their units",
    OUTPUTS: "what the model gives for prepared images",
    SAMPLES: "samples: RGB or grey bytes (batch, height, width, channels)",
}


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


def pictures(about: About, options: Mapping[str, Any]) -> tuple[np.ndarray, str]:
    """A few images of the model's own data, uint8 (n, s, s, c), or made-up ones; and in words."""
    p, count = about.preprocess, max(COUNTS)
    assert p is not None
    try:
        data = open_dataset(
            about.dataset, options, fetch=False, fit=p.fit, report=lambda line: None
        )
        split = data.test or data.train
        rows = np.linspace(0, len(split) - 1, count).astype(int)
        return np.asarray(split.images[rows]), f"images of {data.name}"
    except ZooError:
        rng, shape = np.random.default_rng(0), (count, 5, 5, p.stored_channels)
        return rng.integers(0, 256, shape, np.uint8), f"made-up images: {about.dataset} is not here"


def cases_of(model: Any, form: Form, images: np.ndarray) -> list[Case]:
    """What the file must say: of one image and of several, at the model's size and at another."""
    p, framework, cases = model.zoo.preprocess, framework_of(model.zoo.entry), []
    side = p.stored_size
    for count in COUNTS:
        if form.part == SAMPLES:
            sampler = sampler_of(model)
            noise, chosen = sampler.noise(count, seed=0), sampler.choose(count)
            given = [noise] if chosen is None else [noise, chosen]
            wanted = {"image": sampler.draw(noise, chosen).images}
            cases.append(Case(f"{count} samples", given, wanted, LEVELS))
            continue
        for height, width in ((side, side), (side + side // 2 + 1, 2 * side + 3)):
            sized = resized(images[:count], width, height)
            prepared = as_input(model, sized)
            outputs, allowed = framework.predict_batch(model, prepared), SAME
            if form.part == ANSWERS:
                wanted = answers_in(form, answers_of(model).values(outputs))
                spread = max(form.targets.std) if "numbers" in wanted else 1.0
                allowed = spread * (SAME if (height, width) == (side, side) else OTHER)
            else:
                wanted = {"outputs": outputs}
                allowed = max(SAME, ROUNDING * float(np.abs(outputs).max()))
            if form.part == RAW:
                given = [np.asarray(prepared)]
            else:
                given = [np.broadcast_to(sized, (*sized.shape[:3], 3)).copy()]
            words = f"{count} {'image' if count == 1 else 'images'} of {width} x {height} pixels"
            if form.part != RAW or (height, width) == (side, side):
                cases.append(Case(words, given, wanted, allowed))
    return cases


def resized(images: np.ndarray, width: int, height: int) -> np.ndarray:
    def one(image: np.ndarray) -> np.ndarray:
        plain = image[:, :, 0] if image.shape[2] == 1 else image
        found = np.asarray(Image.fromarray(plain).resize((width, height)))
        return found.reshape(height, width, image.shape[2])

    same = images.shape[1:3] == (height, width)
    return images if same else np.stack([one(image) for image in images])


def in_colours(images: np.ndarray) -> np.ndarray:
    """Images as files take them: uint8 (n, h, w, 3)."""
    return np.broadcast_to(images, (*images.shape[:3], 3)).copy()


def answers_in(form: Form, values: np.ndarray) -> Arrays:
    """Answers under the names of the outputs."""
    if form.targets.kind not in (CLASS, CLASSES):
        return {"numbers": values.astype(np.float32)}
    found: Arrays = {"probabilities": values.astype(np.float32)}
    if form.targets.kind == CLASSES:
        found["chosen"] = values >= np.array(form.targets.thresholds or [0.5] * values.shape[1])
    return found


def difference(case: Case, found: Arrays) -> float:
    """The largest of any number. Yes and no are not compared: they say less than their numbers."""
    for name, wanted in case.wanted.items():
        if name not in found or found[name].shape != wanted.shape:
            what = f"{name} of the exported file has another shape than the model's"
            raise ZooError(f"{what} with {case.words}; the file was not saved")
    numbers = [(w, found[name]) for name, w in case.wanted.items() if w.dtype != bool]
    return max(float(np.abs(w.astype(float) - f.astype(float)).max()) for w, f in numbers)


# ---------------------------------------------------------------- ONNX


def core_of(model: Any, form: Form, case: Case) -> Any:
    """The model alone as ONNX: what its framework writes."""
    framework, graph = framework_of(model.zoo.entry), Graph()
    examples = case.given
    if form.part in (ANSWERS, OUTPUTS):
        examples = [np.asarray(as_input(model, case.given[0]))]
    examples = [np.repeat(one[:1], 2, axis=0) for one in examples]  # 1 image would stay 1 image
    given = [
        graph.input(f"input_{number}", one.dtype.name, ("batch", *one.shape[1:]))
        for number, one in enumerate(examples)
    ]
    made = framework.to_onnx(target_of(model, form), graph, given, examples)
    return graph.model({"outputs": made}, {"outputs": None})


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


# ---------------------------------------------------------------- 8 bits


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
    model: Any, form: Form, core: Any, path: Path, case: Case, options: Mapping[str, Any],
    margin: float,
) -> Quantised:  # fmt: skip
    """Replace a file by one with 8 bits, unless its answers are worse."""
    about, at_once = model.zoo, form.preprocess.at_once
    data = open_dataset(about.dataset, options, fit=form.preprocess.fit)
    test = data.test
    same = form.targets.kind == CLASS and data.targets.names == form.targets.names
    if not same or test is None or test.labels is None:
        what = f"int8 needs test images with one of its classes each, which {data.name} has not"
        raise UsageError(what)
    rows = np.linspace(0, len(data.train) - 1, min(CALIBRATION, len(data.train))).astype(int)
    parts = [rows[part] for part in blocks(len(rows), min(16, at_once))]
    seen = [np.asarray(as_input(model, data.train.images[part])) for part in parts]
    original, used = runner(path), path.stat().st_size
    small = path.with_stem("int8")
    smaller = write_onnx(small, form, quantised(core, path.parent, seen), case, said(about, form))
    right = []
    with progress("comparing int8 with floats", len(test)) as advance:
        for part in blocks(len(test), min(EVALUATION_BATCH, at_once)):
            images, labels = in_colours(test.images[part]), test.labels[part]
            said_by = [run([images])["probabilities"].argmax(1) for run in (smaller, original)]
            right.append([answers == labels for answers in said_by])
            advance(len(images))
    ours, theirs = np.concatenate(right, axis=1)
    found = paired(int((ours & ~theirs).sum()), int((theirs & ~ours).sum()), len(test))
    if found.interval[0] < -margin:
        what = f"int8 may cost {-100 * found.interval[0]:.2f} % of accuracy on {len(test):,} images"
        hint = "--margin allows more, as a share: --margin 0.03"
        raise ZooError(f"{what}, more than the margin of {100 * margin:g} %", hint)
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
