"""Samples of a generative model, and how far they are from real images.

Samples are drawn through the `generate` capability that an entry declares. The feature distance
compares them with the test set: it is the Frechet distance between two Gaussians, fitted to the
features that a classifier of our own finds in both. It is not FID, which uses another network, and
is comparable only if measured with the same weights. As many images of the training set show how
near samples could come.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.dataset import Dataset, Split
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.console import progress, say
from zoo_core.io.errors import PluginError, UsageError, ZooError, did_you_mean
from zoo_core.io.files import cache_dir
from zoo_core.io.tensors import write
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.registry import as_reference, registry
from zoo_core.use.load import as_input, blocks, capability, load, load_model
from zoo_core.weights.references import obtain
from zoo_core.weights.verify import Located, read_tensors

BLOCK = 64  # samples that are drawn at once: their last bits may depend on it, so it is fixed
MOST_SHOWN = 10  # conditions that a sheet of all of them has room for
SHEET_COLUMNS = 8  # of a sheet
LEAST, MOST = 256, 10_000  # images to compare: a covariance of fewer says nothing
COMPARED = 256  # images whose features are asked for at once

Advance = Callable[[int], None]  # called with how many more are done


class Generator:
    """How samples of a model are drawn. Subclass it, and name it as the `generate` capability.

    Noise and samples are NumPy arrays, whatever the model's framework is.
    """

    noise: tuple[int, ...]  # the shape of one sample's noise; drawn from a standard normal

    def __init__(self, model: Any) -> None:
        self.model = model

    def conditions(self, classes: Sequence[str]) -> Sequence[str]:
        """What can be asked for, by name: the classes, perhaps. Nothing, unless replaced."""
        return ()

    def draw(self, noise: np.ndarray, conditions: np.ndarray | None) -> np.ndarray:
        """Samples (n, c, h, w), as the model is given them, from float32 noise (n, *shape).

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

    def draw(
        self, noise: np.ndarray, chosen: np.ndarray | None, advance: Advance = lambda more: None
    ) -> Samples:
        """The samples of this noise, block by block; advance: called with how many there are."""
        p, found = self.preprocess, []
        for part in blocks(len(noise), BLOCK):
            drawn = self.generator.draw(noise[part], None if chosen is None else chosen[part])
            wanted = (len(noise[part]), p.channels, p.size, p.size)
            shape = getattr(drawn, "shape", type(drawn).__name__)
            if not isinstance(drawn, np.ndarray) or shape != wanted:
                raise PluginError(
                    f"{type(self.generator).__name__} must draw an array {wanted}, not {shape}",
                    "docs/hooks.md says what the capability returns",
                )
            found.append(to_pixels(drawn, p))
            advance(len(drawn))
        names = () if chosen is None else tuple(self.labels[i] for i in chosen)
        return Samples(np.concatenate(found), names)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names as they are shown: those that several conditions have are numbered."""
        return tuple(
            name if self.names.count(name) == 1 else f"{name} {self.names[: i + 1].count(name)}"
            for i, name in enumerate(self.names)
        )

    def noise(self, count: int, seed: int) -> np.ndarray:
        """The first rows are the same, however many there are."""
        if count < 1 or seed < 0:
            raise UsageError("the number of samples must be at least 1, and the seed at least 0")
        rng = np.random.default_rng(seed)
        return rng.standard_normal((count, *self.generator.noise), dtype=np.float32)

    def sample(
        self, count: int, seed: int = 0, condition: str = "", advance: Advance = lambda more: None
    ) -> Samples:
        """Samples of one condition, or of all of them in turn."""
        return self.draw(self.noise(count, seed), self.choose(count, condition), advance)

    def choose(self, count: int, condition: str = "") -> np.ndarray | None:
        if not isinstance(condition, str):
            raise UsageError(f"a class must be given by its name, not by {condition!r}")
        if not self.names:
            if condition:
                raise UsageError("this model does not take a class: leave out --class")
            return None
        asked = condition.casefold()
        both = enumerate(zip(self.names, self.labels, strict=True))
        able = [i for i, names in both if not asked or asked in map(str.casefold, names)]
        if not able:
            known = tuple(dict.fromkeys(self.names))
            hint = did_you_mean(condition, known, f"it has: {', '.join(known)}")
            raise UsageError(f"this model has no class {condition!r}", hint)
        return np.resize(np.array(able, np.int64), count)

    def interpolate(self, rows: int, steps: int, seed: int = 0, condition: str = "") -> Samples:
        """Rows of samples, each on the way from one noise to another."""
        ends = self.noise(2 * rows, seed)
        pairs = zip(ends[::2], ends[1::2], strict=True)
        noise = np.concatenate([on_the_way(start, end, steps) for start, end in pairs])
        chosen = self.choose(rows, condition)
        return self.draw(noise, None if chosen is None else np.repeat(chosen, steps))

    def sheet(self) -> Samples:
        """For a look at a model: rows of conditions where there are some, otherwise anything."""
        rows = min(len(self.names), MOST_SHOWN) or SHEET_COLUMNS
        chosen = np.repeat(np.arange(rows), SHEET_COLUMNS) if self.names else None
        return self.draw(self.noise(rows * SHEET_COLUMNS, seed=0), chosen)


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
    generator = capability(entry, "generate")(model)
    return Sampler(generator, preprocess, tuple(generator.conditions(classes)))


def sampler_of(model: Any) -> Sampler:
    """A model that zoo.load returned, as something to draw samples from."""
    about = model.zoo
    return open_sampler(about.entry, model, about.preprocess, about.classes)


def load_sampler(
    reference: str | Path, runs: Path | None = None, device: str = "auto"
) -> tuple[Sampler, Located]:
    """Trained weights to draw samples from, and what is known about them."""
    reference = as_reference(reference)
    if reference in registry().models:  # nobody should train a model to learn that it cannot
        capability(registry().models.get(reference), "generate")
    weights = obtain(reference, runs)
    return sampler_of(load_model(weights, device=device)), weights.located


def to_pixels(images: np.ndarray, preprocess: Preprocess) -> np.ndarray:
    """What a model is given or makes, (n, c, h, w), as bytes (n, h, w, c)."""
    mean, std = np.array(preprocess.mean), np.array(preprocess.std)
    unit = images.transpose(0, 2, 3, 1) * std + mean
    return np.asarray(np.clip(np.rint(255 * unit), 0, 255), np.uint8)


# ---------------------------------------------------------------- feature distance


@dataclass(frozen=True)
class Statistics:
    mean: np.ndarray  # (d,)
    covariance: np.ndarray  # (d, d)


def feature_distance(
    source: Sampler,
    data: Dataset,
    classifier: str,
    *,
    seed: int = 0,
    device: str = "auto",
    runs: Path | None = None,
) -> dict[str, Any]:
    """How far samples are from the test set, and all that this depends on.

    It takes as many of both, at most MOST; as many training images, or None where there are fewer.
    """
    judge = load(classifier, runs=runs, device=device)
    about, test = judge.zoo, data.test
    capability(about.entry, "features")
    if test is None or len(test) < LEAST:
        raise UsageError(
            f"a feature distance needs a test set of at least {LEAST} images, and {data.name} "
            f"has {len(test) if test else 0}",
            "leave out the distance, or train on a dataset with more",
        )
    if Path(about.dataset).name != data.name:
        say(f"{classifier} was trained on {about.dataset}, and the images are {data.name}'s.")
    count = min(MOST, len(test))
    say(f"Comparing {count:,} samples with the same number of images of {data.name}'s test set ...")

    def of(split: Split, name: str) -> Statistics:
        """Of `count` images; the cache names them by all that decides them."""
        key = f"statistics/{about.digest}/{data.digest}/{count}/{name}"
        file = f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.safetensors"
        # In a folder of their own, beside the features of frozen backbones, which are listed.
        path = cache_dir("features") / "statistics" / file
        try:
            return Statistics(**read_tensors(path))
        except (TypeError, ZooError):  # not there, or damaged: it can be made again
            # Any of them: the images of a folder lie there class by class.
            some = np.sort(np.random.default_rng(0).permutation(len(split))[:count])
            made = statistics(judge, split.part(some).images, f"{count:,} images of {name}")
        write(path, vars(made))
        return made

    real = of(test, "test")
    train = of(data.train, "train") if len(data.train) >= count else None
    with progress(f"drawing {count:,} samples", count) as advance:
        samples = source.sample(count, seed, advance=advance).images
    made = statistics(judge, samples, f"{count:,} samples")
    return {
        "feature_distance": round(frechet(real, made), 4),
        "of_training_images": round(frechet(real, train), 4) if train else None,
        "samples": count,
        "classifier": classifier,
        "classifier_sha256": about.digest,
        "dataset": data.name,
    }


def statistics(judge: Any, images: Any, label: str) -> Statistics:
    """Mean and covariance of the features of images, as in a Split; label: what they are."""
    look, found = capability(judge.zoo.entry, "features"), []
    with progress(f"features of {label}", len(images)) as advance:
        for part in blocks(len(images), COMPARED):
            found.append(np.asarray(look(judge, as_input(judge, images[part])), np.float64))
            advance(len(found[-1]))
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
