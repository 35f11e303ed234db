"""Who judges the labels of a dataset: unlike members, none of which has seen what it judges.

A model with a frozen backbone gives two: heads on its features, and the images nearest by these.
Any other model is trained once for each fold. What is done is kept in the cache `check`.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo import kit
from zoo_check.suspects import FOLDS

MODELS = ("efficientnet_lite0_finetune", "cnn")  # as far as they are installed
SIDE = 32  # pixels at which images of any size are learned in folds
STRENGTH = 1e-2  # of the decay of a head's weights, for each image
TURNS = 200  # of the search for a head, at most

Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Learn from some images, give the probabilities (m, classes) of others."""


@dataclass(frozen=True)
class Asked:
    """The images whose labels are judged: those of a dataset, train and then test."""

    reference: Any
    options: Mapping[str, Any]
    listed: kit.Listed
    rows: np.ndarray  # places in `listed`
    labels: np.ndarray  # int64 (n,)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.listed.targets.classes

    def features(self, model: str) -> np.ndarray:
        """What a frozen backbone says of the images, from the feature cache or computed now."""
        settings = {"task": {"finetune": "head"}, "data": self.options}
        files = zoo.compute_features(model, self.reference, settings=settings)
        found = [kit.FeatureFile(file).load() for file in files]
        array = np.concatenate([one.array for one in found if one is not None])
        return self._whole(array.astype(np.float32))

    def images(self) -> np.ndarray:
        """All images, small where they are files."""
        small = {"image_size": SIDE} if self.listed.decoded else {}
        data = zoo.open_dataset(self.reference, {**small, **self.options})
        splits = [split for split in (data.train, data.test) if split is not None]
        return self._whole(np.concatenate([split.images[:] for split in splits]))

    def _whole(self, array: np.ndarray) -> np.ndarray:
        if len(array) != len(self.labels):
            raise zoo.DataError(f"{self.listed.name} has changed meanwhile", "run it again")
        return array


def chosen(models: Sequence[str]) -> list[zoo.ModelEntry]:
    """The entries of models that can judge; without names, those of MODELS that are installed."""
    installed = zoo.list_models()
    entries = [zoo.info(name) for name in models or MODELS if models or name in installed]
    for entry in entries:
        if "classification" not in entry.kinds:
            raise zoo.UsageError(f"{entry.name} is not a classifier", "zoo list shows what is")
    if not entries:
        raise zoo.UsageError("no installed model can judge labels", "pip install zoo-frozen")
    return entries


def head(features: np.ndarray, labels: np.ndarray, classes: int) -> Predict:
    """Logistic regression on features."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    def predict(rest: np.ndarray, held: np.ndarray) -> np.ndarray:
        mean, deviation = features[rest].mean(0), features[rest].std(0) + 1e-3
        ready = (features - mean) / deviation
        solver = LogisticRegression(C=1 / (STRENGTH * len(rest)), max_iter=TURNS, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # near enough
            solver.fit(ready[rest], labels[rest])
        found = np.zeros((len(held), classes))
        found[:, solver.classes_] = solver.predict_proba(ready[held])
        return found

    return predict


def network(entry: zoo.ModelEntry, asked: Asked, name: str) -> Predict:
    """A model that is trained whole, with the recipe that it has; name: of its runs."""
    images = asked.images()

    def predict(rest: np.ndarray, held: np.ndarray) -> np.ndarray:
        from safetensors.numpy import load_file

        arrays = {
            "train_images": images[rest], "train_labels": asked.labels[rest],
            "test_images": images[held], "test_labels": asked.labels[held],
            "classes": asked.classes,
        }  # fmt: skip
        runs, own = kit.cache_dir("check") / "runs", f"{name}-{held[0]}"
        run = kit.Run(zoo.train(entry.name, arrays, runs=runs, name=own, quiet=True).path)
        found = load_file(run.predictions_file)["probabilities"]
        shutil.rmtree(run.path)
        return found

    return predict


def out_of_fold(
    name: str,
    key: Mapping[str, Any],
    folds: np.ndarray,
    classes: int,
    make: Callable[[str], Predict],
) -> np.ndarray:
    """The probabilities (n, classes) of each image, by a member that learned from other folds.

    Each fold is a file in the cache. key: all that decides them; make: gives the member, which is
    not needed where all are kept, and gets a name that is its own.
    """
    own = f"{name}-{kit.document_digest(key)[:16]}"
    files = [kit.cache_dir("check") / f"{own}-{fold}.npy" for fold in range(FOLDS)]
    found = np.zeros((len(folds), classes), np.float32)
    predict: Predict | None = None
    with kit.progress(f"{name}, {FOLDS} folds", FOLDS) as advance:
        for fold, file in enumerate(files):
            held = np.flatnonzero(folds == fold)
            said = _kept(file, (len(held), classes))
            if said is None and len(held):
                predict = predict or make(own)
                try:
                    said = predict(np.flatnonzero(folds != fold), held).astype(np.float32)
                except zoo.Interrupted as error:
                    again = "run the same command again to continue"
                    raise zoo.Interrupted(f"stopped in fold {fold + 1}", again) from error
                with kit.atomic_write(file) as temporary, temporary.open("wb") as opened:
                    np.save(opened, said)
            if said is not None:
                found[held] = said
            advance(1)
    return found


def _kept(file: Path, shape: tuple[int, int]) -> np.ndarray | None:
    try:
        found = np.load(file, allow_pickle=False)
    except (OSError, ValueError):  # not there, or damaged
        return None
    return found if found.shape == shape and np.isfinite(found).all() else None
