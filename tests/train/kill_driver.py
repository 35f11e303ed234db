"""Trains undisturbed, then in children that are killed at counted events.

    python kill_driver.py FOLDER KILLS SEED MODEL SECONDS SETTINGS

SECONDS is the time between checkpoints: 0 means one after every step. SETTINGS is JSON, on top of
those below. Prints the digests of the weights of both. The framework is imported once and every
child is forked from here: fifty kills would otherwise be fifty imports.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from fixtures import kills

from zoo_core.runs.run import Run
from zoo_core.spec.registry import registry
from zoo_core.train import runner as training
from zoo_core.train.job import trainer_of

SETTINGS: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 32,
    "optimizer": "sgd",
    "lr": 0.05,
    "momentum": 0.9,
    "weight_decay": 1e-3,
    "schedule": "one_cycle",
    "augment": ("flip", "crop:4", "cutout:8"),
    "label_smoothing": 0.1,
    "mixup": 0.2,
    "clip_grad": 1.0,
    "ema": 0.99,
    "patience": 3,
    "restore_best": True,
    "validation_fraction": 0.2,
    "model": {"channels": (8, 16), "hidden": 32, "dropout": 0.5},
    "data": {"train_size": 600, "test_size": 100},
}


def main(folder: Path, count: int, seed: int, model: str, seconds: float, settings: Any) -> None:
    trainer_of(registry().models.get(model))  # imports its framework before the forks,
    if "torch" in sys.modules:
        importlib.import_module("torch._dynamo")  # and what the first optimiser would import

    def work(runs: Path) -> None:
        how: dict[str, Any] = {"runs": runs, "quiet": True, "checkpoint_seconds": seconds}
        # A process that is killed before run.json exists leaves a folder that is no run.
        started = [path.parent for path in runs.glob("*/run.json")]
        if started:
            training.resume(str(started[0]), device="cpu", **how)
        else:
            training.train(model, "synthetic", settings=settings, device="cpu", **how)

    whole, killed = folder / "whole", folder / "killed"
    _, events = kills.child(lambda: work(whole), whole)
    kills.kill_again_and_again(lambda: work(killed), killed, count, events, seed)
    print(json.dumps({"whole": digest(whole), "killed": digest(killed), "events": events}))


def digest(runs: Path) -> list[str]:
    """Of the weights, then after each epoch."""
    (model_file,) = runs.glob("*/model.safetensors")
    states = [line["state"] for line in Run(model_file.parent).metrics()]
    return [hashlib.sha256(model_file.read_bytes()).hexdigest(), *states]


if __name__ == "__main__":
    folder, count, seed, model, seconds, settings = sys.argv[1:]
    chosen = SETTINGS | json.loads(settings)
    main(Path(folder), int(count), int(seed), model, float(seconds), chosen)
