"""What a trained model says of images."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.image_folder import images_in
from zoo_core.data.images import SUFFIXES, names_image
from zoo_core.data.loader import EVALUATION_BATCH
from zoo_core.data.originals import InMemory, LeftOut
from zoo_core.io.console import progress, warn
from zoo_core.io.errors import DataError, UsageError, WeightsError, os_errors
from zoo_core.io.net import is_url, read_url
from zoo_core.io.targets import Displayed, describe
from zoo_core.spec.answers import Answers
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

    _html = "zoo_core.report.notebook:predictions_html"

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
    named = named_images(run, images)
    asked = Answering(loaded(run, runs, device))
    left_out: list[LeftOut] = []
    predictions = Predictions(left_out=left_out)
    with progress("predicting", len(named)) as advance:
        for part in blocks(len(named), asked.at_once):
            names, given, stored = [], [], []
            for name, image in named[part]:
                try:
                    image = opened(image)
                    stored.append(asked.read(image))
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
            for name, image, row in zip(names, given, asked.compute(stored), strict=True):
                kept = image if len(predictions) < SHOWN else None
                predictions.append(Prediction(name, *asked.said(row, top), kept))
    if left_out and not predictions:
        raise DataError(f"none of the {len(named):,} images can be read; {left_out[0].reason}")
    if left_out:
        warn(f"{len(left_out):,} of {len(named):,} images are left out; {left_out[0].reason}")
    return predictions


class Answering:
    """A loaded model that is asked about images: each is read by itself, many are computed at once.

    `said(row, top)` is what `predict` tells of an image, with row from `compute([read(image)])`.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.answers = model, answers_of(model)
        self.at_once = min(EVALUATION_BATCH, model.zoo.preprocess.at_once)  # for the memory

    def read(self, image: Any) -> np.ndarray:
        """An image as the model's dataset would keep it: uint8 (h, w, channels)."""
        found: np.ndarray = self.model.zoo.preprocess.stored(image)
        return found

    def compute(self, stored: Sequence[np.ndarray]) -> np.ndarray:
        """A row of probabilities or numbers for each image."""
        return readable(self.model, as_input(self.model, stored))

    def said(self, row: np.ndarray, top: int) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """A row as JSON, and in words; top: how many classes at most."""
        answer = self.answers.answer(row, top)
        return answer, self.answers.words(answer)


def _several(images: Any) -> list[Any]:
    """One image or several, as a list."""
    if isinstance(images, str | Path | bytes | bytearray | memoryview) or hasattr(images, "read"):
        return [images]
    if hasattr(images, "ndim"):  # an array, which can be iterated even where it is one image
        return list(images) if images.ndim == 4 else [images]
    return list(images) if isinstance(images, Iterable) else [images]


def features(model: Any, images: Any, *, runs: Path | None = None) -> np.ndarray:
    """What a model computes of images before it decides: float (images, features).

    model: as for `predict`, one with the capability `features`. images: one image or several.
    """
    model = loaded(model, runs)
    compute = capability(model.zoo.entry, "features")
    named = named_images(model, images)
    stored = [model.zoo.preprocess.stored(opened(image)) for _, image in named]
    at_once = min(EVALUATION_BATCH, model.zoo.preprocess.at_once)
    parts = (stored[part] for part in blocks(len(stored), at_once))
    return np.concatenate([compute(model, as_input(model, part)) for part in parts])


def answers_of(model: Any) -> Answers:
    """What the outputs of a loaded model mean; a sentence where they say nothing of an image."""
    entry, targets = model.zoo.entry, model.zoo.targets
    answers: Answers | None = model.zoo.framework.answers(entry, targets)
    if answers is None and (targets.names or entry.own_task):
        purpose = " and ".join(entry.kinds)
        raise UsageError(
            f"model {entry.name!r} is for {purpose}, and answers nothing about an image",
            "zoo list --kind classification shows models that do",
        )
    if answers is None or not answers.targets.names:
        raise UsageError(
            f"model {entry.name!r} has no names for its classes: it is untrained, or has a new "
            "head",
            "zoo train gives it some; call the model itself for its scores",
        )
    return answers


def readable(model: Any, images: Any) -> np.ndarray:
    """What a model says of a batch, as people read it; its weights may be anybody's."""
    answers = answers_of(model)
    what = f"the model of {model.zoo.source} cannot be used for this image"
    hint = "take other weights, or train it again; --debug shows where it happens"
    try:
        outputs = model.zoo.framework.predict_batch(model, images)
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, ValueError) as error:
        raise WeightsError(f"{what}: {describe(error)[:200]}", hint) from error
    if outputs.shape != (len(images), answers.size):
        wrong = f"its outputs are {outputs.shape}, for {answers.size} classes or numbers"
        raise WeightsError(f"{what}: {wrong}", hint)
    with np.errstate(all="ignore"):
        rows = answers.values(outputs)
    if not np.isfinite(rows).all():
        raise WeightsError(f"{what}: it gives numbers that are not finite", hint)
    return rows


def named_images(run: Any, images: Any) -> list[tuple[str, Any]]:
    """(name, image) of one image or several; a folder is replaced by the images in it. Nothing is
    read yet.

    run: what stands before them, where somebody may have given an image in place of the model.
    """
    if is_url(run) or names_image(run):
        hint = f"write the model first, then the image: MODEL {run}"
        raise UsageError(f"{run} is an image, not a model", hint)
    every = enumerate(_several(images), 1)
    return [one for number, image in every for one in _named(number, image)]


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
