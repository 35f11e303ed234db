"""The student of an ensemble: what the members say of all training images, and its training."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import zoo
from zoo import kit
from zoo_blend.members import Member

SHAPES = ("image_size", "channels", "fit")  # options of data that the student decides for itself


def check_student(name: str) -> None:
    """Refuse a model that learns labels only."""
    entry = zoo.info(name)
    if entry.framework != "torch" or entry.own_task or "classification" not in entry.kinds:
        what = f"{name} cannot learn from an ensemble: "
        if entry.framework != "torch":
            what += f"its framework, {entry.framework}, learns labels only"
        else:
            what += "it is not trained as a classifier"
        raise zoo.UsageError(what, "choose a classifier of torch, such as mlp or cnn")


def train_student(
    student: str,
    members: Sequence[Member],
    weights: np.ndarray,
    held: np.ndarray,
    settings: Mapping[str, Any],
    report: Callable[[str], None],
    **how: Any,
) -> Any:
    """Train a model on the weighted mean of what the members say; gives what `zoo.train` does."""
    kept = [(one, float(weight)) for one, weight in zip(members, weights, strict=True) if weight]
    teachers = [one.title for one, _ in kept]
    shares = [round(weight, 4) for _, weight in kept]
    scores = write_scores([one for one, _ in kept], shares, held)
    report(f"{student} learns from {', '.join(one.name for one, _ in kept)}.")
    from zoo_blend.task import Distil

    task = {**Distil.options, **settings.get("task", {}), "use": "Distil"}  # run.json says all
    task |= {"scores": scores, "teachers": teachers, "weights": shares}
    located = members[0].located
    data = {k: v for k, v in located.data_options.items() if k not in SHAPES}
    given = {
        **settings,
        "task": task,
        "data": {**data, **settings.get("data", {})},
    }
    return zoo.train(student, located.dataset, settings=given, **how)


def write_scores(members: Sequence[Member], weights: Sequence[float], held: np.ndarray) -> str:
    """The mean of what members say of all training images, as a file in the cache; its digest.

    The images that chose the weights are done already; the others are computed now, once.
    """
    data = members[0].data
    rest = np.setdiff1d(np.arange(len(data.train)), held)
    mean = np.zeros((len(data.train), len(data.classes)), np.float64)
    for one, weight in zip(members, weights, strict=True):
        for rows in filter(len, (held, rest)):
            mean[rows] += weight * one.said("train", rows)
    mean /= mean.sum(1, keepdims=True)
    from safetensors.numpy import save

    about = json.dumps({"teachers": [one.title for one in members], "weights": [*weights]})
    arrays = {
        "scores": mean.astype(np.float32), "labels": np.asarray(data.train.labels),
        "about": np.frombuffer(about.encode(), np.uint8),
    }  # fmt: skip
    content = save(arrays)
    digest = hashlib.sha256(content).hexdigest()
    file = kit.cache_dir("blend") / f"{digest}.safetensors"
    if not file.exists() or kit.file_digest(file) != digest:
        with kit.atomic_write(file) as temporary:
            temporary.write_bytes(content)
    return digest
