"""What a trained model says of images: figures of a split, classes, and where it looks."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.dataset import Dataset, Split
from zoo_core.data.datasets import find_dataset, named_or, open_dataset
from zoo_core.data.image_folder import images_in
from zoo_core.data.images import SUFFIXES, open_image
from zoo_core.data.loader import EVALUATION_BATCH, Loader
from zoo_core.data.originals import InMemory, LeftOut
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.console import progress, warn
from zoo_core.io.errors import DataError, UsageError, os_errors
from zoo_core.io.net import is_url, read_url
from zoo_core.io.targets import Displayed, resolve
from zoo_core.runs.summary import SPLITS
from zoo_core.spec.answers import CLASS, NUMBERS, Targets
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

    def __init__(self, found: Iterable[Prediction] = (), left_out: Sequence[LeftOut] = ()) -> None:
        super().__init__(found)
        self.left_out = left_out  # the images that could not be read, each with the reason

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
    rows: np.ndarray | None = None,
    scores: np.ndarray | None = None,
) -> Measured:
    """Figures of a split; of what answers also all answers, and milliseconds per image.

    The loss is the task's own, or else that of the answers. rows: only these images. scores: if
    known already.
    """
    images, framework = data.split(split), framework_of(entry)
    assert images is not None
    loader = Loader(
        images, batch_size=EVALUATION_BATCH, preprocess=preprocess, indices=rows, shuffle=False,
        backend=framework.backend,
    )  # fmt: skip
    figures: dict[str, Any] = {}
    if entry.own_task:
        figures = framework.measure(entry, model, recipe, loader, data.targets)
    answers = framework.answers(entry, data.targets)
    if answers is None or answers.targets != data.targets:  # or answers of another question
        return figures, None, None
    outputs, ms = score(framework, model, data, split, loader, scores)
    named: dict[str, Any] = {}
    if images.labels is not None:
        labels = images.labels[loader.indices]
        for part in blocks(len(outputs), EVALUATION_BATCH):
            answers.add(outputs[part], labels[part])
        named = answers.summary() | answers.details(outputs, labels)
    without_loss = {name: value for name, value in named.items() if name != "loss"}
    return named | figures | without_loss, answers.values(outputs).astype(np.float32), ms


def score(
    framework: Framework,
    model: Any,
    data: Dataset,
    split: str,
    loader: Loader,
    known: np.ndarray | None = None,
) -> tuple[np.ndarray, float]:
    """Outputs of the images of a split that a loader has, from a cache where a framework has one,
    and milliseconds for each. known: the outputs, of which one batch tells the time."""
    if cached := framework.score_split(model, loader.preprocess, data, split):
        return cached[0][loader.indices], cached[1]
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
    name: str = "", run: Mapping[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Figures of a model that zoo.load returned, on a split of a dataset; name: what to call it.

    run: the run.json of its training on this dataset, which knows what was kept for validation.
    """
    if split not in SPLITS:
        raise UsageError(f"there is no split {split!r}", f"choose one of {', '.join(SPLITS)}")
    about = model.zoo
    data = open_dataset(dataset, options, fit=about.preprocess.fit)
    answers = framework_of(about.entry).answers(about.entry, about.targets)
    named = answers is not None and answers.targets == about.targets
    if named:
        data = as_known(data, about.targets, name or about.source)
    part, rows = "test" if split == "test" else "train", None
    if run and part == "train" and run["dataset"]["digest"] == data.digest:
        rows = data.parts(Recipe(**run["recipe"]))[split == "validation"]
    elif split == "validation":
        what = f"{name or about.source} does not say which images of {data.name} were kept back"
        raise UsageError(f"{what} for validation", "a run says so, for the data of its training")
    images = data.split(part)
    count = 0 if images is None else len(images if rows is None else rows)
    if not images or not count or (named and images.labels is None):
        hint = "--split train measures the images that it was trained on" * (split == "test")
        what = f"{data.name} has no {'labelled ' if named else ''}{split} split"
        raise UsageError(what, hint)
    how = about.preprocess, data, Recipe(task=task)
    figures, _, ms = measure_model(about.entry, model, *how, split=part, rows=rows)
    if ms is not None:
        figures["inference_ms_per_image"] = round(ms, 4)
    told = {"left_out": data.left_out} if data.left_out else {}
    return {"dataset": data.name, "split": split, "images": count, **told, **figures}


def as_known(data: Dataset, ours: Targets, name: str) -> Dataset:
    """The data with labels as a model has learned them: of its classes some may be missing."""
    theirs = data.targets
    unknown = [one for one in theirs.names if one not in ours.names]
    same = theirs.names == ours.names if ours.kind == NUMBERS else not unknown
    if theirs.kind != ours.kind or not same:
        known, given = (
            ", ".join((*names[:5], *["..."] * (len(names) > 5)))
            for names in (ours.names, unknown or theirs.names)
        )
        word = "classes" if ours.classes else "numbers"
        what = f"{name} has other {word} than {data.name}: it knows {known}"
        raise UsageError(f"{what}; {data.name} has {given or 'no labels'}")
    if theirs.names == ours.names:
        return replace(data, targets=ours)
    places = np.array([ours.names.index(one) for one in theirs.names])

    def known_labels(split: Split) -> Split:
        assert split.labels is not None
        if ours.kind == CLASS:
            return replace(split, labels=places[split.labels])
        labels = np.zeros((len(split), len(ours.names)), split.labels.dtype)
        labels[:, places] = split.labels
        return replace(split, labels=labels)

    test = data.test and known_labels(data.test)
    return replace(data, targets=ours, train=known_labels(data.train), test=test)


def evaluate_run(
    reference: str | Path,
    dataset: Any = "",
    *,
    split: str = "test",
    options: Config | None = None,
    device: str = "auto",
    runs: Path | None = None,
) -> dict[str, Any]:
    """Measure a trained run again, on its own dataset or another one whose classes it knows.

    split: "test", "train" (what it was trained on) or "validation". Images of other folders are
    stored as its own were; a folder without splits is measured whole. options: of the data.
    """
    weights = obtain(as_reference(reference), runs)
    located, given = weights.located, dict(options or {})
    dataset = named_or(dataset, located.dataset)
    if isinstance(dataset, str) and not dataset:
        what = f"{located.name} does not say what it was trained on"
        raise UsageError(what, "--dataset NAME chooses the data")
    model = load_model(weights, device=device)
    choice, run = find_dataset(dataset), located.run
    if choice.reference == located.dataset:
        given = {**located.data_options, **given}
    elif choice.entry.originals:
        how = model.zoo.preprocess
        stored = {"image_size": how.stored_size, "channels": how.stored_channels, "fit": how.fit}
        given = {**stored, "test_fraction": 1.0, **given}
    elif "test_fraction" in choice.options:  # arrays
        given = {"test_fraction": 1.0, **given}
    figures = measure(model, dataset, given, located.task_options, split, located.name, run)
    return {"run": located.name, **figures}


def predict_images(
    reference: Any,
    images: Sequence[Any],
    *,
    top: int = 5,
    strict: bool = False,
    device: str = "auto",
    runs: Path | None = None,
) -> Predictions:
    """Classify images, in batches; see `named_images` for what they may be.

    Of several images, those that cannot be read are left out and named; strict: they are an error.
    """
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
    if answers is None or not answers.targets.names:
        raise UsageError(
            f"{what} has no names for its classes: it is untrained, or has a new head",
            "zoo train gives it some; call the model itself for its scores",
        )
    left_out: list[LeftOut] = []
    predictions = Predictions(left_out=left_out)
    with progress("predicting", len(named)) as advance:
        for part in blocks(len(named), EVALUATION_BATCH):
            names, given, stored = [], [], []
            for name, image in named[part]:
                try:
                    image = opened(image)
                    stored.append(model.zoo.preprocess.stored(image))
                except DataError as error:
                    if strict or len(named) == 1:
                        raise
                    left_out.append(LeftOut(name, str(error)))
                else:
                    names.append(name)
                    given.append(image)
            advance(len(names))
            if not names:
                continue
            rows = answers.values(framework.predict_batch(model, as_input(model, stored)))
            for name, image, row in zip(names, given, rows, strict=True):
                said = answers.answer(row, top)
                kept = image if len(predictions) < SHOWN else None
                predictions.append(Prediction(name, said, answers.words(said), kept))
    if left_out and not predictions:
        raise DataError(f"none of the {len(named):,} images can be read; {left_out[0].reason}")
    if left_out:
        warn(f"{len(left_out):,} of {len(named):,} images are left out; {left_out[0].reason}")
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
    best, names = int(row.argmax()), answers.targets.classes if answers else ()
    label = names[best] if names else ""
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
