"""What a trained model says of images: its answers, and where it looks."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.image_folder import images_in
from zoo_core.data.images import SUFFIXES, open_image
from zoo_core.data.loader import EVALUATION_BATCH
from zoo_core.data.originals import InMemory, LeftOut
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.console import progress, warn
from zoo_core.io.errors import DataError, UsageError, WeightsError, os_errors
from zoo_core.io.net import is_url, read_url
from zoo_core.io.targets import Displayed, describe, resolve
from zoo_core.spec.answers import Answers
from zoo_core.spec.framework import Framework, framework_of
from zoo_core.use.load import as_input, blocks, capability, loaded

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


def predict(
    run: Any,
    images: Any,
    *,
    top: int = 5,
    strict: bool = False,
    device: str = "auto",
    runs: Path | None = None,
) -> Predictions:
    """The most likely classes of images.

        zoo.predict("cnn", "cat.jpg")[0].classes
        zoo.predict(model, ["https://example.org/dog.png", "holiday/", request.body])

    run: a run, weights, or a model that `zoo.load` returned, which stays on its device. images: one
    image or several. An image is a path, an address (http, https), the bytes of an image file, a
    file opened with "rb", a PIL image, or a uint8 array (h, w, c); a folder, or an array of four
    dimensions, is several. Of several, those that cannot be read are in `left_out` of the result;
    strict: they are an error.
    """
    if top < 1:
        raise UsageError(f"top must be at least 1, not {top}")
    refuse_image(run)
    if isinstance(images, str | Path | bytes | bytearray | memoryview) or hasattr(images, "read"):
        several = False
    elif hasattr(images, "ndim"):  # an array, which can be iterated even where it is one image
        several = images.ndim == 4
    else:
        several = isinstance(images, Iterable)
    named = named_images(list(images) if several else [images])
    model = loaded(run, runs, device)
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
        for part in blocks(len(named), min(EVALUATION_BATCH, model.zoo.preprocess.at_once)):
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
            rows = readable(model, framework, answers, stored)
            for name, image, row in zip(names, given, rows, strict=True):
                said = answers.answer(row, top)
                kept = image if len(predictions) < SHOWN else None
                predictions.append(Prediction(name, said, answers.words(said), kept))
    if left_out and not predictions:
        raise DataError(f"none of the {len(named):,} images can be read; {left_out[0].reason}")
    if left_out:
        warn(f"{len(left_out):,} of {len(named):,} images are left out; {left_out[0].reason}")
    return predictions


def readable(
    model: Any, framework: Framework, answers: Answers, stored: Sequence[np.ndarray]
) -> np.ndarray:
    """What a model says of images, as people read it; its weights may be anybody's."""
    what = f"the model of {model.zoo.source} cannot be used for this image"
    hint = "take other weights, or train it again; --debug shows where it happens"
    try:
        outputs = framework.predict_batch(model, as_input(model, stored))
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, ValueError) as error:
        raise WeightsError(f"{what}: {describe(error)[:200]}", hint) from error
    if outputs.shape != (len(stored), answers.size):
        wrong = f"its outputs are {outputs.shape}, for {answers.size} classes or numbers"
        raise WeightsError(f"{what}: {wrong}", hint)
    with np.errstate(all="ignore"):
        rows = answers.values(outputs)
    if not np.isfinite(rows).all():
        raise WeightsError(f"{what}: it gives numbers that are not finite", hint)
    return rows


def refuse_image(reference: Any) -> None:
    """Say so where somebody gave an image in place of the model."""
    if is_url(reference) or (isinstance(reference, str) and reference.lower().endswith(SUFFIXES)):
        hint = f"write the model first, then the image: MODEL {reference}"
        raise UsageError(f"{reference} is an image, not a model", hint)


def named_images(given: Sequence[Any]) -> list[tuple[str, Any]]:
    """(name, image) of each; a folder is replaced by the images in it. Nothing is read yet."""
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


def attention(run: Any, image: Any, *, device: str = "auto", runs: Path | None = None) -> Attention:
    """Where a transformer looks in one image, layer by layer and head by head.

        seen = zoo.attention("nano_vit_p4.cifar10", "cat.jpg")   # a notebook draws it
        seen.draw("cat.png", heads=True)
        seen.maps                                                # (layers, heads, rows, columns)

    run: a run, weights, or a model that `zoo.load` returned, which stays on its device. image: one,
    as `zoo.predict` takes it.
    """
    refuse_image(run)
    (name, found), *others = named_images([image])
    if others or (isinstance(found, Path) and found != Path(image)):  # one of several, or alone
        raise UsageError(f"{image} is a folder, and attention is drawn for one image")
    model = loaded(run, runs, device)
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
