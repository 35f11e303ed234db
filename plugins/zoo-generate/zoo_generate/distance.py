"""How far samples are from real images: the feature distance.

It is the Frechet distance between two Gaussians, fitted to the features that a classifier of our
own finds in samples and in the test set. It is not FID, which uses another network, and is
comparable only if measured with the same weights. As many images of the training set show how near
samples could come.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

import zoo
from zoo import kit

LEAST, MOST = 256, 10_000  # images to compare: a covariance of fewer says nothing
COMPARED = 256  # images whose features are asked for at once


@dataclass(frozen=True)
class Statistics:
    mean: np.ndarray  # (d,)
    covariance: np.ndarray  # (d, d)


def feature_distance(
    source: Any,
    data: zoo.Dataset,
    classifier: str,
    *,
    seed: int = 0,
    device: str = "auto",
    runs: Path | None = None,
) -> dict[str, Any]:
    """How far samples are from the test set, and all that this depends on.

    It takes as many of both, at most MOST; as many training images, or None where there are fewer.
    """
    judge = zoo.load(classifier, runs=runs, device=device)
    about, test = judge.zoo, data.test
    kit.capability(about.entry, "features")
    if test is None or len(test) < LEAST:
        raise zoo.UsageError(
            f"a feature distance needs a test set of at least {LEAST} images, and {data.name} "
            f"has {len(test) if test else 0}",
            "leave out the distance, or train on a dataset with more",
        )
    if Path(about.dataset).name != data.name:
        kit.say(f"{classifier} was trained on {about.dataset}, and the images are {data.name}'s.")
    count = min(MOST, len(test))
    what = f"{count:,} samples with the same number of images of {data.name}'s test set"
    kit.say(f"Comparing {what} ...")

    def of(split: zoo.Split, name: str) -> Statistics:
        """Of `count` images; the cache names them by all that decides them."""
        key = f"statistics/{about.digest}/{data.digest}/{count}/{name}"
        file = f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.npz"
        path = kit.cache_dir("generate") / file
        try:
            with np.load(path) as kept:
                return Statistics(**kept)
        except (OSError, EOFError, TypeError, ValueError, BadZipFile):  # it can be made again
            # Any of them: the images of a folder lie there class by class.
            some = np.sort(np.random.default_rng(0).permutation(len(split))[:count])
            made = statistics(judge, split.part(some).images, f"{count:,} images of {name}")
        with kit.atomic_write(path) as temporary, temporary.open("wb") as opened:
            np.savez(opened, **vars(made))
        return made

    real = of(test, "test")
    train = of(data.train, "train") if len(data.train) >= count else None
    made = statistics(judge, source.sample(count, seed).images, f"{count:,} samples")
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
    look, found = kit.capability(judge.zoo.entry, "features"), []
    with kit.progress(f"features of {label}", len(images)) as advance:
        for start in range(0, len(images), COMPARED):
            batch = kit.as_input(judge, images[start : start + COMPARED])
            found.append(np.asarray(look(judge, batch), np.float64))
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
