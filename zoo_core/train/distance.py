"""How far samples are from real pictures, in the eyes of a classifier of our own.

The Frechet distance between two Gaussians, fitted to the classifier's features of the test set and
to those of as many samples. It is called feature distance: it is not FID, which uses another
network, and it compares with nothing that was not measured with the same weights. How near samples
could come, as many pictures of the training set show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zoo_core.data.arrays import Dataset, Split
from zoo_core.errors import UsageError
from zoo_core.files import atomic_write
from zoo_core.paths import cache_dir
from zoo_core.registry import registry
from zoo_core.targets import resolve
from zoo_core.tensors import to_bytes
from zoo_core.train.generate import Source, blocks
from zoo_core.train.predict import Loaded, load_run

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
    source: Source,
    data: Dataset,
    classifier: str,
    *,
    seed: int = 0,
    most: int = 10_000,
    runs: Path | None = None,
    say: Callable[[str], None] = lambda sentence: None,
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
