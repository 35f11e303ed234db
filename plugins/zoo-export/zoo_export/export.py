"""Trained models as files of other programs, which need nothing else to use them.

A file takes images as bytes and gives answers: resizing, normalisation and what the outputs mean
are inside. It is kept only if it says what the model says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import zoo
from zoo import kit
from zoo_export.graph import ANSWERS, OUTPUTS, RAW, SAMPLES, Arrays, Case, Form
from zoo_export.int8 import Quantised, in_colours, shrink
from zoo_export.onnx_file import core_of, write_onnx

FORMATS = (".onnx", ".pt2")
COUNTS = (1, 7)  # images at once
SAME, OTHER, LEVELS, ROUNDING = 1e-4, 1e-2, 1.0, 1e-3
KNOWN = {"class": zoo.ClassAnswers, "classes": zoo.ClassesAnswers, "numbers": zoo.NumberAnswers}
MARGIN = 0.01  # of accuracy that 8 bits may lose


@dataclass(frozen=True, repr=False)
class Exported:
    """A file that was written, and how it compares with the model."""

    path: Path
    bytes: int
    gives: tuple[str, ...]  # the names of its outputs
    images: str  # what it was tried with
    differences: Mapping[str, float]  # the largest, for each try
    int8: Quantised | None = None

    def __repr__(self) -> str:
        return f"Exported({self.path}, {kit.size(self.bytes)}, gives {', '.join(self.gives)})"

    def _repr_html_(self) -> str:
        return kit.notebook_html("exported", [*self.facts().items()])

    def facts(self) -> dict[str, str]:
        """What there is to say about it."""
        words, worst = max(self.differences.items(), key=itemgetter(1))
        found = {
            "file": f"{self.path}, {kit.size(self.bytes)}",
            "gives": ", ".join(self.gives),
            "compared on": self.images,
            "largest difference": f"{worst:.1e}, {words}",
        }
        if small := self.int8:
            low, high = (f"{100 * end:+.2f}" for end in small.difference.interval)
            both = f"{100 * small.accuracy:.2f} %; with floats {100 * small.original:.2f} %"
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
    path = Path(path)
    if path.suffix not in FORMATS:
        raise zoo.UsageError(f"{path} must end in {' or '.join(FORMATS)}")
    if int8 and (path.suffix != ".onnx" or raw or generate):
        raise zoo.UsageError("int8 is for an .onnx file that answers about images")
    named = isinstance(model, str | Path)
    model = zoo.load(model, runs=runs) if named else kit.loaded(model)
    about = model.zoo
    if about.preprocess is None:
        raise zoo.UsageError(
            "an untrained model has nothing to export", "zoo train gives it weights"
        )
    form = form_of(model, raw, generate)
    images, words = some_images(about)
    cases, told = cases_of(model, form, images), said(about, form)
    target = kit.sampler_of(model).generator if form.part == SAMPLES else model
    what = f"{type(model).__name__} cannot be exported to {path.suffix}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with kit.temporary_folder(path) as folder:
            new, smaller = folder / path.name, None
            if path.suffix == ".onnx":
                core = core_of(model, target, form, cases[0])
                run = write_onnx(new, form, core, cases[0], told)
            else:
                sizes = [case.given for case in cases if len(case.given[0]) > 1]
                run = write_pt2(about, target, new, form, sizes[-1], told)
            differences = {case.words: difference(case, run(case.given)) for case in cases}
            for case in cases:
                if not differences[case.words] <= case.allowed:
                    off = f"differs from the model's by {differences[case.words]:.2g}"
                    kept = f"with {case.words}; the file was not saved"
                    raise zoo.ZooError(f"the output of the exported file {off} {kept}")
            if int8:
                smaller = shrink(model, form, core, new, cases[0], told, margin)
            new.replace(path)
    except OSError as error:
        raise zoo.ZooError(f"{path} could not be written: {error.strerror or error}") from error
    except zoo.ZooError:
        raise
    except Exception as error:
        hint = "run the command again with --debug for the traceback"
        raise zoo.ZooError(f"{what}: {kit.describe(error)[:300]}", hint) from error
    gives = tuple(cases[0].wanted)
    return Exported(path, path.stat().st_size, gives, words, differences, smaller)


def form_of(model: Any, raw: bool, generate: bool) -> Form:
    """What the file of a model takes and gives."""
    about, part = model.zoo, RAW
    answers = about.framework.answers(about.entry, about.targets)
    if generate or (not raw and answers is None and "generate" in about.entry.capabilities):
        part, kind = SAMPLES, type(kit.sampler_of(model).generator)
        if kind.network is zoo.Generator.network:
            what = f"{kind.__name__} has no method `network`"
            raise zoo.UsageError(
                f"{what}, which exported samples need", "docs/hooks.md describes it"
            )
    elif not raw:
        usual = getattr(KNOWN.get(answers.targets.kind), "values", None) if answers else None
        known = answers is not None and type(answers).values is usual
        part = ANSWERS if known else OUTPUTS  # a plugin's own answers have a meaning of their own
        colours = about.preprocess.stored_channels
        if colours not in (1, 3):
            raise zoo.UsageError(
                f"images of {colours} channels are not RGB", "--raw exports the model"
            )
    targets = kit.answers_of(model).targets if part == ANSWERS else about.targets
    return Form(part, about.preprocess, targets)


def write_pt2(about: Any, *given: Any) -> Any:
    """Write a program of torch; how to run what was written."""
    if (framework := about.framework).backend != "torch":
        what = f"{type(framework).__name__} cannot write a program of torch"
        raise zoo.UsageError(what, "choose a name that ends in .onnx")
    from zoo_export.torch import to_pt2

    return to_pt2(*given)


def said(about: Any, form: Form) -> dict[str, Any]:
    """What the file says about itself, as JSON."""
    told = about.to_dict()
    licenses = (one["license"] for one in zoo.list_weights() if one["sha256"] == about.digest)
    outputs = {RAW: told["outputs"], **WORDS}[form.part]
    if form.part == ANSWERS and form.targets.kind != "numbers":
        outputs = "probabilities of the classes"
        outputs += ", and whether each is above its threshold" * (form.targets.kind == "classes")
    more = {"license": next(licenses, ""), "zoo": zoo.__version__}
    return {**told, "outputs": outputs, **more}


WORDS = {
    ANSWERS: "numbers in their units",
    OUTPUTS: "what the model gives for prepared images",
    SAMPLES: "samples: RGB or grey bytes (batch, height, width, channels)",
}


def some_images(about: Any) -> tuple[np.ndarray, str]:
    """A few images of the model's own data, uint8 (n, s, s, c), or made-up ones; and in words."""
    p, count = about.preprocess, max(COUNTS)
    assert p is not None
    try:
        data = zoo.open_dataset(
            about.dataset, about.data_options, fetch=False, fit=p.fit, report=lambda line: None
        )
        split = data.test or data.train
        rows = np.linspace(0, len(split) - 1, count).astype(int)
        return np.asarray(split.images[rows]), f"images of {data.name}"
    except zoo.ZooError:
        rng, shape = np.random.default_rng(0), (count, 5, 5, p.stored_channels)
        return rng.integers(0, 256, shape, np.uint8), f"made-up images: {about.dataset} is not here"


def cases_of(model: Any, form: Form, images: np.ndarray) -> list[Case]:
    """What the file must say: of one image and of several, at the model's size and at another."""
    p, framework, cases = model.zoo.preprocess, model.zoo.framework, []
    side = p.stored_size
    for count in COUNTS:
        if form.part == SAMPLES:
            sampler = kit.sampler_of(model)
            noise, chosen = sampler.noise(count, seed=0), sampler.choose(count)
            given = [noise] if chosen is None else [noise, chosen]
            wanted = {"image": sampler.draw(noise, chosen).images}
            cases.append(Case(f"{count} samples", given, wanted, LEVELS))
            continue
        for height, width in ((side, side), (side + side // 2 + 1, 2 * side + 3)):
            sized = resized(images[:count], width, height)
            prepared = kit.as_input(model, sized)
            outputs, allowed = framework.predict_batch(model, prepared), SAME
            if form.part == ANSWERS:
                wanted = answers_in(form, kit.answers_of(model).values(outputs))
                spread = max(form.targets.std) if "numbers" in wanted else 1.0
                allowed = spread * (SAME if (height, width) == (side, side) else OTHER)
            else:
                wanted = {"outputs": outputs}
                allowed = max(SAME, ROUNDING * float(np.abs(outputs).max()))
            if form.part == RAW:
                given = [np.asarray(prepared)]
            else:
                given = [in_colours(sized)]
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


def answers_in(form: Form, values: np.ndarray) -> Arrays:
    """Answers under the names of the outputs."""
    if form.targets.kind == "numbers":
        return {"numbers": values.astype(np.float32)}
    found: Arrays = {"probabilities": values.astype(np.float32)}
    if form.targets.kind == "classes":
        found["chosen"] = values >= np.array(form.targets.thresholds or [0.5] * values.shape[1])
    return found


def difference(case: Case, found: Arrays) -> float:
    """The largest of any number. Yes and no are not compared: they say less than their numbers."""
    for name, wanted in case.wanted.items():
        if name not in found or found[name].shape != wanted.shape:
            what = f"{name} of the exported file has another shape than the model's"
            raise zoo.ZooError(f"{what} with {case.words}; the file was not saved")
    numbers = [(w, found[name]) for name, w in case.wanted.items() if w.dtype != bool]
    return max(float(np.abs(w.astype(float) - f.astype(float)).max()) for w, f in numbers)
