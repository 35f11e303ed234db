"""Samples of a generative model, through the `generate` capability that its entry declares.

How far samples are from real pictures, in the eyes of a classifier of our own.

The Frechet distance between two Gaussians, fitted to the classifier's features of the test set and
to those of as many samples. It is called feature distance: it is not FID, which uses another
network, and it compares with nothing that was not measured with the same weights. How near samples
could come, as many pictures of the training set show.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo_core.data.dataset import Dataset, Split
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.console import say
from zoo_core.io.errors import PluginError, UsageError, ZooError, did_you_mean
from zoo_core.io.files import atomic_write, cache_dir
from zoo_core.io.targets import resolve
from zoo_core.io.tensors import to_bytes
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.registry import registry
from zoo_core.use.load import Loaded, load_run

if TYPE_CHECKING:
    pass

BLOCK = 64  # samples that are drawn at once: their last bits may depend on it, so it is fixed
MOST_SHOWN = 10  # conditions that a sheet of all of them has room for
SHEET_COLUMNS = 8  # of a sheet


class Generator:
    """How samples of a model are drawn. Subclass it, and name it as the `generate` capability.

    Noise and pictures are NumPy arrays, whatever the model's framework is.
    """

    noise: tuple[int, ...]  # the shape of one sample's noise; drawn from a standard normal

    def __init__(self, model: Any) -> None:
        self.model = model

    def conditions(self, classes: Sequence[str]) -> Sequence[str]:
        """What can be asked for, by name: the classes, perhaps. Nothing, unless replaced."""
        return ()

    def draw(self, noise: np.ndarray, conditions: np.ndarray | None) -> np.ndarray:
        """Pictures (n, c, h, w), as the model is given them, from float32 noise (n, *shape).

        conditions: int64 (n,), numbers of what `conditions` names; None if it names nothing.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Samples:
    images: np.ndarray  # uint8 (n, h, w, c)
    names: tuple[str, ...]  # of the condition of each; () if there are none


@dataclass(frozen=True)
class Sampler:
    """A model that samples can be drawn from."""

    generator: Generator
    preprocess: Preprocess
    names: tuple[str, ...]  # of its conditions

    def draw(self, noise: np.ndarray, chosen: np.ndarray | None) -> Samples:
        blocks = [
            self._block(noise[start : start + BLOCK], chosen, start)
            for start in range(0, len(noise), BLOCK)
        ]
        names = () if chosen is None else tuple(self.labels[i] for i in chosen)
        return Samples(np.concatenate(blocks), names)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names as they are shown: those that several conditions have are numbered."""
        return tuple(
            name if self.names.count(name) == 1 else f"{name} {self.names[: i + 1].count(name)}"
            for i, name in enumerate(self.names)
        )

    def _block(self, noise: np.ndarray, chosen: np.ndarray | None, start: int) -> np.ndarray:
        some = None if chosen is None else chosen[start : start + len(noise)]
        pictures = self.generator.draw(noise, some)
        p = self.preprocess
        wanted = (len(noise), p.channels, p.size, p.size)
        shape = getattr(pictures, "shape", type(pictures).__name__)
        if not isinstance(pictures, np.ndarray) or shape != wanted:
            raise PluginError(
                f"{type(self.generator).__name__} must draw an array {wanted}, not {shape}",
                "docs/hooks.md says what the capability returns",
            )
        return to_pixels(pictures, p)

    def noise(self, count: int, seed: int) -> np.ndarray:
        """The first rows are the same, however many there are."""
        if count < 1 or seed < 0:
            raise UsageError("at least one sample is drawn, and a seed is 0 or more")
        rng = np.random.default_rng(seed)
        return rng.standard_normal((count, *self.generator.noise), dtype=np.float32)

    def sample(self, count: int, seed: int = 0, condition: str = "") -> Samples:
        """Samples of one condition, or of all of them in turn."""
        return self.draw(self.noise(count, seed), self.choose(count, condition))

    def choose(self, count: int, condition: str = "") -> np.ndarray | None:
        if not isinstance(condition, str):
            raise UsageError(f"a class is asked for by its name, not by {condition!r}")
        if condition and not self.names:
            raise UsageError("this model is not told what to draw: leave out --class")
        if not self.names:
            return None
        asked = condition.casefold()
        able = [
            i
            for i, names in enumerate(zip(self.names, self.labels, strict=True))
            if not asked or asked in map(str.casefold, names)
        ]
        if not able:
            known = tuple(dict.fromkeys(self.names))
            hint = did_you_mean(condition, known, f"it knows: {', '.join(known)}")
            raise UsageError(f"this model cannot be asked for {condition!r}", hint)
        return np.resize(np.array(able, np.int64), count)

    def interpolate(self, rows: int, steps: int, seed: int = 0, condition: str = "") -> Samples:
        """Rows of samples, each on the way from one noise to another."""
        ends = self.noise(2 * rows, seed)
        noise = np.concatenate(
            [on_the_way(ends[i], ends[i + 1], steps) for i in range(0, 2 * rows, 2)]
        )
        chosen = self.choose(rows, condition)
        return self.draw(noise, None if chosen is None else np.repeat(chosen, steps))

    def sheet(self, seed: int = 0) -> Samples:
        """For a look at a model: rows of conditions where there are some, otherwise anything."""
        rows = min(len(self.names), MOST_SHOWN) or SHEET_COLUMNS
        chosen = np.repeat(np.arange(rows), SHEET_COLUMNS) if self.names else None
        return self.draw(self.noise(rows * SHEET_COLUMNS, seed), chosen)


def on_the_way(start: np.ndarray, end: np.ndarray, steps: int) -> np.ndarray:
    """From one noise to another along the sphere that noise lies on: (steps, *shape).

    A straight line would lead through the middle, where hardly any noise is.
    """
    a, b = start.ravel().astype(float), end.ravel().astype(float)
    cosine = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
    angle = math.acos(np.clip(cosine, -1, 1)) or 1e-9
    parts = np.linspace(0, 1, steps)[:, None]
    rows = (np.sin((1 - parts) * angle) * a + np.sin(parts * angle) * b) / math.sin(angle)
    return np.asarray(rows.reshape(steps, *start.shape), np.float32)


def open_sampler(
    entry: ModelEntry, model: Any, preprocess: Preprocess, classes: Sequence[str]
) -> Sampler:
    """A model as something to draw samples from."""
    check_able(entry)
    generator = resolve(entry.capabilities["generate"], f"model {entry.name!r}")(model)
    return Sampler(generator, preprocess, tuple(generator.conditions(classes)))


def check_able(entry: ModelEntry) -> None:
    if "generate" not in entry.capabilities:
        able = [other.name for other in registry().models if "generate" in other.capabilities]
        raise UsageError(
            f"model {entry.name!r} declares no way to draw samples",
            f"these do: {', '.join(able)}" if able else "a plugin of generative models brings some",
        )


def to_pixels(pictures: np.ndarray, preprocess: Preprocess) -> np.ndarray:
    """What a model is given or makes, (n, c, h, w), as bytes (n, h, w, c)."""
    mean, std = np.array(preprocess.mean), np.array(preprocess.std)
    unit = pictures.transpose(0, 2, 3, 1) * std + mean
    return np.asarray(np.clip(np.rint(255 * unit), 0, 255), np.uint8)


def blocks(images: np.ndarray, size: int = 256) -> Iterator[np.ndarray]:
    for start in range(0, len(images), size):
        yield images[start : start + size]


def load_sampler(reference: Any, runs: Path | None = None) -> tuple[Sampler, Any]:
    """Trained weights, or a model of zoo.load, to draw samples from; and what was loaded."""
    from zoo_core.use.load import in_memory, load_run

    if isinstance(reference, str):
        try:  # nobody should train a model first, to learn then that it cannot
            entry = registry().models.get(reference)
        except ZooError:
            pass  # a run, or weights
        else:
            check_able(entry)
    loaded = load_run(reference, runs) if isinstance(reference, str) else in_memory(reference)
    return open_sampler(loaded.entry, loaded.model, loaded.preprocess, loaded.classes), loaded


LEAST = 256  # pictures: a covariance of fewer says nothing


@dataclass(frozen=True)
class Statistics:
    mean: np.ndarray  # (d,)
    covariance: np.ndarray  # (d, d)


@dataclass(frozen=True)
class Distance:
    """A feature distance, and all that it depends on."""

    value: float
    real: float | None  # of the training set; None where that is too small
    samples: int
    weights: str  # of the classifier, by digest
    classifier: str
    dataset: str

    def to_dict(self) -> dict[str, object]:
        return {
            "feature_distance": round(self.value, 4),
            "of_training_pictures": None if self.real is None else round(self.real, 4),
            "samples": self.samples,
            "classifier": self.classifier,
            "classifier_sha256": self.weights,
            "dataset": self.dataset,
        }


def feature_distance(
    source: Sampler,
    data: Dataset,
    classifier: str,
    *,
    seed: int = 0,
    most: int = 10_000,
    runs: Path | None = None,
) -> Distance:
    """Of samples from the test set; as many of both, at most so many."""
    judge = load_run(classifier, runs)
    if "features" not in judge.entry.capabilities:
        able = [entry.name for entry in registry().models if "features" in entry.capabilities]
        raise UsageError(
            f"model {judge.entry.name!r} declares no features to compare pictures by",
            f"these do: {', '.join(able)}" if able else "a plugin with classifiers brings some",
        )
    pictures = data.test
    if pictures is None or len(pictures) < LEAST:
        raise UsageError(
            f"a feature distance needs a test set of at least {LEAST} pictures, and {data.name} "
            f"has {len(pictures) if pictures else 0}",
            "leave out the distance, or train on a dataset with more",
        )
    if Path(judge.dataset).name != data.name:
        say(f"{judge.source} was trained on {judge.dataset}, and the pictures are {data.name}'s.")
    count = min(most, len(pictures))
    digest = judge.model.zoo.digest
    say(f"Comparing {count:,} samples with as many pictures of {data.name}'s test set ...")

    def of(split: Split) -> Statistics:
        # Any of them: the pictures of a folder lie there class by class.
        some = np.sort(np.random.default_rng(0).permutation(len(split))[:count])
        return statistics(judge, split.images[some])

    key = f"{digest}/{data.digest}/{count}"
    test = _kept(f"{key}/test", lambda: of(pictures))
    train = _kept(f"{key}/train", lambda: of(data.train)) if len(data.train) >= count else None
    made = statistics(judge, source.sample(count, seed).images)
    return Distance(
        frechet(test, made),
        frechet(test, train) if train else None,
        count,
        digest,
        judge.source,
        data.name,
    )


def statistics(judge: Loaded, images: np.ndarray) -> Statistics:
    """Mean and covariance of the features of pictures, uint8 (n, h, w, c)."""
    look = resolve(judge.entry.capabilities["features"], f"model {judge.entry.name!r}")
    found = []
    for some in blocks(images):
        batch = judge.preprocess.batch(list(some), backend=judge.trainer.backend)
        found.append(np.asarray(look(judge.model, batch), np.float64))
    features = np.concatenate(found)  # (n, d)
    return Statistics(features.mean(0), np.atleast_2d(np.cov(features, rowvar=False)))


def frechet(one: Statistics, other: Statistics) -> float:
    """|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2))"""
    # The root's trace is that of the symmetric (C1^(1/2) C2 C1^(1/2))^(1/2), which is found safely.
    values, vectors = np.linalg.eigh(one.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    inner = np.linalg.eigvalsh(root @ other.covariance @ root)
    apart = ((one.mean - other.mean) ** 2).sum()
    total = np.trace(one.covariance) + np.trace(other.covariance)
    return float(max(0.0, apart + total - 2 * np.sqrt(np.maximum(inner, 0)).sum()))


def _kept(key: str, make: Callable[[], Statistics]) -> Statistics:
    """Statistics from the cache, where they are named by what decides them; made if need be."""
    import safetensors.numpy

    name = hashlib.sha256(f"statistics/{key}".encode()).hexdigest()
    # In a folder of their own, beside the features of frozen backbones, which are listed.
    path = cache_dir("features") / "statistics" / f"{name[:32]}.safetensors"
    try:
        tensors = safetensors.numpy.load(path.read_bytes())
        return Statistics(tensors["mean"], tensors["covariance"])
    except Exception:  # not there, or damaged: whatever it is, it can be made again
        made = make()
    with atomic_write(path) as temporary:
        temporary.write_bytes(to_bytes({"mean": made.mean, "covariance": made.covariance}))
    return made
