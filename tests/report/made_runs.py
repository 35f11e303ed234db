"""Run directories as training leaves them, made up but plausible, and data to go with them."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from zoo_core.data.dataset import Dataset, Split
from zoo_core.runs.run import Run, SearchFolder
from zoo_core.spec.recipe import Recipe

CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
STRUCTURE = """CNN(
  (features): Sequential(
    (0): Conv2d(3, 32, kernel_size=(3, 3), padding=(1, 1))
    (1): ReLU()
  )
  (head): Linear(in_features=2048, out_features=10)
)"""
DIGEST = "ab" * 32


def class_names(count: int) -> tuple[str, ...]:
    if count <= len(CIFAR):
        return CIFAR[:count]
    return tuple(f"{CIFAR[i % 10]} {i}" for i in range(count))


def make_predictions(
    classes: int, count: int, seed: int, skill: float
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities of a model that confuses each class with some more than others."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    likeness = random.normal(0, 0.9, (classes, classes))
    logits = random.normal(0, 1.3, (count, classes)) + likeness[labels]
    logits[np.arange(count), labels] += skill
    probabilities = np.exp(logits - logits.max(1, keepdims=True))
    return labels, (probabilities / probabilities.sum(1, keepdims=True)).astype(np.float32)


def make_dataset(
    classes: int = 10, count: int = 400, size: int = 32, channels: int = 3, labelled: bool = True
) -> Dataset:
    """Images with nothing on them but a colour for each class."""
    labels = np.arange(count) % classes
    random = np.random.default_rng(1)
    ground = random.integers(40, 215, (classes, 1, 1, channels))[labels]
    noise = random.integers(-40, 41, (count, size, size, channels))
    images = (ground + noise).astype(np.uint8)
    split = Split(images, labels if labelled else None)
    names = class_names(classes) if labelled else ()
    return Dataset("made_up", split, split, names, (0.5,) * channels, (0.5,) * channels, DIGEST)


def make_metrics(epochs: int, validation: bool = True, pace: float = 4.0) -> list[dict[str, Any]]:
    lines = []
    for epoch in range(1, epochs + 1):
        learnt = 1 - math.exp(-epoch / pace)
        line = {
            "epoch": epoch,
            "step": 391 * epoch,
            "lr": 1e-3 * 0.5 * (1 + math.cos(math.pi * epoch / (epochs + 1))),
            "train_loss": 2.3 - 1.8 * learnt,
            "train_accuracy": 0.1 + 0.75 * learnt,
            "validation_loss": 2.3 - 1.55 * learnt + 0.012 * epoch,
            "validation_accuracy": 0.1 + 0.65 * learnt,
            "test_loss": 2.3 - 1.5 * learnt + 0.01 * epoch,
            "test_accuracy": 0.1 + 0.66 * learnt,
            "test_top5": 0.5 + 0.48 * learnt,
            "seconds": 12.5,
            "images_per_second": 4000.0,
        }
        if not validation:
            line = {key: value for key, value in line.items() if "validation" not in key}
        lines.append(line)
    return lines


def make_run(
    root: Path,
    *,
    model: str = "cnn",
    dataset: str = "made_up",
    time: str = "20261116T101500Z",
    classes: tuple[str, ...] | int = 10,
    epochs: int = 12,
    done: int | None = None,
    status: str = "complete",
    metrics: list[dict[str, Any]] | None = None,
    predictions: bool = True,
    labelled: bool = True,
    count: int = 400,
    skill: float = 4.0,
    seed: int = 0,
    recipe: dict[str, Any] | None = None,
    **changes: Any,
) -> Run:
    """Write a run directory. `changes` replace whole parts of run.json."""
    run = Run(root / f"{model}-{dataset}-{time}")
    run.path.mkdir(parents=True)
    names = class_names(classes) if isinstance(classes, int) else classes
    if metrics is None:
        metrics = make_metrics(epochs if done is None else done, pace=2.0 + skill)
    test: dict[str, Any] = {"loss": metrics[-1].get("test_loss", 1.0) if metrics else None}
    if names:
        labels, probabilities = make_predictions(len(names), count, seed, skill)
        confusion = np.zeros((len(names), len(names)), int)
        np.add.at(confusion, (labels, probabilities.argmax(1)), 1)
        if labelled:
            test |= {
                "accuracy": float((labels == probabilities.argmax(1)).mean()),
                "top5": 0.98,
                "per_class": dict(
                    zip(names, (confusion.diagonal() / confusion.sum(1)).tolist(), strict=True)
                ),
                "confusion": confusion.tolist(),
            }
        if predictions and status == "complete":
            arrays = {"probabilities": probabilities} | ({"labels": labels} if labelled else {})
            save_file(arrays, run.predictions_file)
    sha256 = hashlib.sha256(str(run.path).encode()).hexdigest()
    result = {
        "epochs": len(metrics),
        "best_epoch": None,
        "stopped_early": False,
        "seconds": 12.5 * len(metrics),
        "images_per_second": 3987.6,
        "inference_ms_per_image": 0.2134,
        "test": test,
        "model": {"file": "model.safetensors", "sha256": sha256, "bytes": 4_600_123},
    }
    plain = asdict(Recipe(epochs=epochs, lr=2e-4, schedule="cosine", **(recipe or {})))
    document = {
        "format": 1,
        "name": run.name,
        "status": status,
        "created": "2026-11-16T10:15:00+00:00",
        "command": f"zoo train {model} --epochs {epochs}",
        "model": {
            "name": model,
            "plugin": model,
            "distribution": f"zoo-{model}",
            "version": "0.1.0",
            "trainer": "torch",
            "framework": "torch",
            "task": "classification",
            "kinds": ["classification"],
            "config": {"num_classes": len(names), "dropout": 0.5, "channels": [32, 64, 128]},
        },
        "dataset": {
            "reference": dataset,
            "name": dataset,
            "options": {},
            "digest": DIGEST,
            "classes": list(names),
            "train": 50_000,
            "validation": 0,
            "test": count,
        },
        "recipe_name": "default",
        "recipe": plain,
        "preprocess": {},
        "environment": {
            "zoo-core": "0.1.0",
            "python": "3.11.7",
            "torch": "2.15.0",
            "numpy": "2.4.6",
            "platform": "Linux-x86_64",
            "processor": "a processor",
            "device": "cpu",
            "threads": 2,
            "processes": 1,
        },
        "parameters": {"trainable": 1_147_914, "total": 1_150_000, "bytes": 4_591_656},
        "structure": STRUCTURE,
        "result": result if status == "complete" else None,
    }
    run.write(document | changes)
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in metrics))
    return run


def make_search(
    root: Path,
    *,
    kind: str = "tune",
    time: str = "20261116T101600Z",
    ended: int = 3,
    **changes: Any,
) -> SearchFolder:
    """Write the directory of a search for a learning rate. `changes` replace parts of it."""
    search = SearchFolder(root / f"{kind}-mlp-made_up-{time}")
    search.path.mkdir(parents=True)
    lines = []
    for number in range(1, ended + 1):
        curve = make_metrics(2, pace=number)
        trial = {"number": number, "parameters": {"lr": number / 1000}, "source": "grid"}
        trial |= {"status": "complete", "loss": curve[-1]["validation_loss"], "epoch": 2}
        lines.append(trial | {"epochs": 2, "seconds": 25.0, "curve": curve, "error": ""})
    document = {
        "format": 1,
        "name": search.name,
        "status": "complete",
        "dataset": {"name": "made_up", "digest": DIGEST, "classes": 10},
        "plan": {"kind": kind, "model": "mlp/mlp", "trials": 3},
        "best": 1,
    }
    search.write(document | changes)
    search.trials_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return search
