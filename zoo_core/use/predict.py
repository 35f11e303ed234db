"""What a trained model says of images: figures of a split, classes, and where it looks."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.dataset import Dataset
from zoo_core.data.datasets import open_dataset
from zoo_core.data.image_folder import images_in
from zoo_core.data.images import SUFFIXES, open_image
from zoo_core.data.loader import EVALUATION_BATCH, Loader
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.errors import DataError, UsageError, os_errors
from zoo_core.io.net import is_url, read_url
from zoo_core.io.targets import Displayed, resolve
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import Config, Framework, framework_of
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import as_reference
from zoo_core.use.load import as_input, blocks, capability, load_model, loaded
from zoo_core.weights.references import obtain

MOST_BYTES = 100_000_000  # of an image that an address gives
SHOWN = 12  # images that a notebook shows beside their predictions


@dataclass(frozen=True, repr=False)
class Prediction(Displayed):
    """What a model says of one image."""

    image: str  # the path or the address; "image 3" for the third of those without a name
    answer: Mapping[str, Any]  # as in the JSON of `zoo predict`; see Answers.answer
    words: tuple[str, ...]  # the same for people
    given: Any = field(default=None, compare=False)  # the image itself, of the first few

    _html = "zoo_core.report.notebook:prediction_html"

    @property
    def classes(self) -> tuple[tuple[str, float], ...]:
        """(name, probability), the most likely first; () where it gives no classes."""
        return tuple((one["name"], one["probability"]) for one in self.answer.get("classes", ()))

    def __repr__(self) -> str:
        told = ", ".join(word[:60] for word in self.words[:3])
        return f"Prediction({self.image}: {told}{', ...' * (len(self.words) > 3)})"


class Predictions(list[Prediction], Displayed):
    """A list of predictions, which a notebook shows with their images."""

    _html = "zoo_core.report.notebook:predictions_html"

    def __repr__(self) -> str:
        more = f", and {len(self) - 2:,} more" if len(self) > 2 else ""
        return f"[{', '.join(map(repr, self[:2]))}{more}]"


Measured = tuple[dict[str, Any], np.ndarray | None, float | None]


def measure_model(
    entry: ModelEntry,
    model: Any,
    preprocess: Preprocess,
    data: Dataset,
    recipe: Recipe,
    *,
    split: str = "test",
    scores: np.ndarray | None = None,
) -> Measured:
    """Figures of a split; of what answers also all answers, and milliseconds per image.

    The loss is the task's own, or else that of the answers. scores: if known already.
    """
    images, framework = data.split(split), framework_of(entry)
    assert images is not None
    size, backend = EVALUATION_BATCH, framework.backend
    loader = Loader(images, batch_size=size, preprocess=preprocess, shuffle=False, backend=backend)
    figures: dict[str, Any] = {}
    if entry.own_task:
        figures = framework.measure(entry, model, recipe, loader, data.targets)
    answers = framework.answers(entry, data.targets)
    if answers is None:
        return figures, None, None
    cached = framework.score_split(model, preprocess, data, split)
    outputs, ms = cached or _scores(framework, model, loader, scores)
    named: dict[str, Any] = {}
    if (labels := images.labels) is not None:
        for part in blocks(len(outputs), size):
            answers.add(outputs[part], labels[part])
        named = answers.summary() | answers.details(outputs, labels)
    without_loss = {name: value for name, value in named.items() if name != "loss"}
    return named | figures | without_loss, answers.values(outputs).astype(np.float32), ms


def score(
    framework: Framework,
    model: Any,
    preprocess: Preprocess,
    data: Dataset,
    split: str,
    indices: np.ndarray,
) -> np.ndarray:
    """Outputs of some images of a split, from a cache where a framework has one."""
    images = data.split(split)
    assert images is not None
    if cached := framework.score_split(model, preprocess, data, split):
        return np.asarray(cached[0][indices])
    loader = Loader(
        images, batch_size=EVALUATION_BATCH, preprocess=preprocess, indices=indices,
        shuffle=False, backend=framework.backend,
    )  # fmt: skip
    return _scores(framework, model, loader, None)[0]


def _scores(
    framework: Framework, model: Any, loader: Loader, known: np.ndarray | None
) -> tuple[np.ndarray, float]:
    """The scores of every image, and milliseconds for each; one batch tells them if known."""
    found: list[np.ndarray] = []
    seconds, images = 0.0, 0
    for batch in loader.epoch(0):
        started = time.perf_counter()
        found.append(framework.predict_batch(model, batch.images))
        seconds += time.perf_counter() - started
        images += len(batch)
        if known is not None:
            break
    return np.concatenate(found) if known is None else known, 1000 * seconds / images


def measure(
    model: Any, dataset: Any, options: Config, task: Config, split: str = "test",
    name: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Figures of a model that zoo.load returned, on a split of a dataset; name: what to call it."""
    about, data = model.zoo, open_dataset(dataset, options)
    ours, theirs = about.targets, data.targets
    named = framework_of(about.entry).answers(about.entry, ours) is not None
    if named and (ours.kind, ours.names) != (theirs.kind, theirs.names):
        known, given = (
            ", ".join((*t.names[:5], *["..."] * (len(t.names) > 5))) for t in (ours, theirs)
        )
        word = "classes" if ours.classes else "numbers"
        what = f"{name or about.source} has other {word} than {data.name}: it knows {known}"
        raise UsageError(f"{what}; {data.name} has {given or 'no labels'}")
    if named:
        data = replace(data, targets=ours)
    images = data.split(split)
    if images is None or not len(images) or (named and images.labels is None):
        hint = "--split train measures the images that it was trained on" * (split == "test")
        what = f"{data.name} has no {'labelled ' if named else ''}{split} split"
        raise UsageError(what, hint)
    how = about.preprocess, data, Recipe(task=task)
    figures, _, ms = measure_model(about.entry, model, *how, split=split)
    if ms is not None:
        figures["inference_ms_per_image"] = round(ms, 4)
    return {"dataset": data.name, "split": split, "images": len(images), **figures}


def evaluate_run(
    reference: str | Path,
    dataset: Any = "",
    *,
    split: str = "test",
    device: str = "auto",
    runs: Path | None = None,
) -> dict[str, Any]:
    """Measure a trained run again, on its own dataset or another one with the same classes."""
    weights = obtain(as_reference(reference), runs)
    located = weights.located
    own = isinstance(dataset, str) and not dataset
    dataset, options = (located.dataset, located.data_options) if own else (dataset, {})
    if own and not dataset:
        what = f"{located.name} does not say what it was trained on"
        raise UsageError(what, "--dataset NAME chooses the data")
    model = load_model(weights, device=device)
    figures = measure(model, dataset, options, located.task_options, split, located.name)
    return {"run": located.name, **figures}


def predict_images(
    reference: Any,
    images: Sequence[Any],
    *,
    top: int = 5,
    device: str = "auto",
    runs: Path | None = None,
) -> Predictions:
    """Classify images, in batches; see `named_images` for what they may be."""
    if top < 1:
        raise UsageError(f"top must be at least 1, not {top}")
    refuse_image(reference)
    named = named_images(images)
    model = loaded(reference, runs, device)
    entry, targets = model.zoo.entry, model.zoo.targets
    what = f"model {entry.name!r}"
    framework = framework_of(entry)
    answers = framework.answers(entry, targets)
    if answers is None and (targets.names or entry.own_task):
        purpose = " and ".join(entry.kinds)
        raise UsageError(
            f"{what} is for {purpose}, and answers nothing about an image",
            "zoo list --kind classification shows models that do",
        )
    if answers is None or not targets.names:
        raise UsageError(
            f"{what} has no names for its classes: it is untrained, or has a new head",
            "zoo train gives it some; call the model itself for its scores",
        )
    predictions = Predictions()
    for part in blocks(len(named), EVALUATION_BATCH):
        names, chunk = zip(*((name, opened(image)) for name, image in named[part]), strict=True)
        rows = answers.values(framework.predict_batch(model, as_input(model, chunk)))
        for name, image, row in zip(names, chunk, rows, strict=True):
            said = answers.answer(row, top)
            kept = image if len(predictions) < SHOWN else None
            predictions.append(Prediction(name, said, answers.words(said), kept))
    return predictions


def refuse_image(reference: Any) -> None:
    """Say so where somebody gave an image in place of the model."""
    if is_url(reference) or (isinstance(reference, str) and reference.lower().endswith(SUFFIXES)):
        hint = f"write the model first, then the image: MODEL {reference}"
        raise UsageError(f"{reference} is an image, not a model", hint)


def named_images(given: Sequence[Any]) -> list[tuple[str, Any]]:
    """(name, image) of each; a folder is replaced by the images in it.

    Images are paths, addresses (http, https), bytes or open files of an image file, PIL images, and
    uint8 arrays. Nothing is read yet.
    """
    return [one for number, image in enumerate(given, 1) for one in _named(number, image)]


def _named(number: int, image: Any) -> Iterator[tuple[str, Any]]:
    name = f"image {number}"
    if isinstance(image, bytes | bytearray | memoryview):
        yield name, InMemory(image, name)
    elif is_url(image):
        yield image, image
    elif isinstance(image, str | Path):
        path = Path(image)
        if path.is_dir():
            with os_errors(f"{path} cannot be read", DataError):
                inside = images_in(path)
            if not inside:
                endings = ", ".join(SUFFIXES)
                raise UsageError(f"there are no images in {path}", f"they end in {endings}")
            yield from ((str(p), p) for p in inside)
        elif path.exists():
            yield str(path), path
        else:
            hint = "after the model, give a file, a folder or an address"
            raise UsageError(f"there is no image {image}", hint)
    elif hasattr(image, "read") and not isinstance(image, io.TextIOBase):
        known = getattr(image, "name", None)
        yield known if isinstance(known, str) else name, image
    else:
        what = f"a {type(image).__name__}"
        good = hasattr(image, "convert") and hasattr(image, "getbands")  # a PIL image
        if isinstance(image, np.ndarray):  # as an image is kept: (h, w) or (h, w, channels)
            what = f"an array of {image.dtype}, {image.shape}"
            shaped = image.ndim > 1 and image.shape[2:] in ((), (1,), (3,), (4,))
            good = image.dtype == np.uint8 and shaped and image.size > 0
        if not good:
            raise UsageError(
                f"{name} is {what}, which is not an image",
                "give files, folders, addresses, bytes, files opened with 'rb', PIL images, or "
                "uint8 arrays of (h, w) or (h, w, 3)",
            )
        yield name, image


class InMemory(io.BytesIO):
    """The bytes of an image file, with a name for what is wrong with them."""

    def __init__(self, data: Any, name: str) -> None:
        super().__init__(data)
        self.name = name


def opened(image: Any) -> Any:
    """An image that can be read: what an address gives, and anything else as it is."""
    return InMemory(read_url(image, MOST_BYTES), image) if is_url(image) else image


SHARPEST = 1024  # pixels of an image that attention is drawn on, at most


@dataclass(frozen=True, repr=False)
class Attention(Displayed):
    """What a model took an image for, and where each layer and head looked."""

    name: str  # of the image
    image: np.ndarray  # (h, w, 3), from 0 to 1: what the model saw, as sharp as the original
    label: str  # the most likely class; "" where there are no classes
    probability: float
    maps: np.ndarray  # (layers, heads, rows, columns); shares of the attention, at most 1 together

    _html = "zoo_core.report.notebook:attention_html"

    def __repr__(self) -> str:
        layers, heads, rows, columns = self.maps.shape
        what = f"{layers} layers, {heads} heads, {rows} x {columns} patches"
        return f"Attention({self.name}: {self.label} {100 * self.probability:.1f} %; {what})"

    def draw(self, path: str | Path, *, heads: bool = False) -> None:
        """Write the plot: the mean over the heads of each layer, or each head."""
        draw = resolve("zoo_core.report.image_plots:draw_attention", "drawing attention")
        with os_errors(f"{path} could not be written"):
            draw(Path(path), self, heads)


def attention_of(
    reference: Any, image: Any, *, device: str = "auto", runs: Path | None = None
) -> Attention:
    """Where every layer and head of a trained model looks in one image."""
    refuse_image(reference)
    (name, found), *others = named_images([image])
    if others or (isinstance(found, Path) and found != Path(image)):  # one of several, or alone
        raise UsageError(f"{image} is a folder, and attention is drawn for one image")
    model = loaded(reference, runs, device)
    about, image = model.zoo, opened(found)
    look, images = capability(about.entry, "attention"), as_input(model, [image])
    maps = look(model, images)
    if not isinstance(maps, np.ndarray) or maps.ndim != 5 or maps.shape[1] != 1:
        found = maps.shape if isinstance(maps, np.ndarray) else type(maps).__name__
        raise UsageError(
            f"the attention of model {about.entry.name!r} must be an array of (layers, images, "
            f"heads, rows, columns), not {found}",
            "docs/hooks.md says what the capability returns",
        )
    framework = framework_of(about.entry)
    answers, row = framework.answers(about.entry, about.targets), np.ones(1)
    if answers is not None:
        row = answers.values(framework.predict_batch(model, images))[0]
    best = int(row.argmax())
    label = about.classes[best] if about.classes else ""
    seen = as_seen(about.preprocess, image)
    return Attention(Path(name).name, seen, label, float(row[best]), maps[:, 0])


def as_seen(preprocess: Preprocess, image: Any) -> np.ndarray:
    """The part of an image that a model is given, in colour and as sharp as the image is."""
    if isinstance(image, np.ndarray):
        sides = image.shape[:2]
    elif hasattr(image, "getbands"):
        sides = image.size
    else:
        with open_image(image) as opened:
            sides = opened.size
    whole = preprocess.resize or preprocess.size
    factor = max(1.0, min(*sides, SHARPEST) / whole)
    sharp = replace(
        preprocess, channels=3, stored_channels=3, mean=(0.0,) * 3, std=(1.0,) * 3,
        size=round(factor * preprocess.size), resize=round(factor * preprocess.resize),
        stored_size=round(factor * whole),
    )  # fmt: skip
    seen: np.ndarray = sharp(image, backend="numpy").transpose(1, 2, 0)
    return seen.clip(0, 1)
