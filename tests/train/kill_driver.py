"""Trains undisturbed, then in child processes that are killed again and again.

    python kill_driver.py FOLDER KILLS SEED [MODEL [SETTINGS]]

Prints how many were killed, and the digests of the weights of both.

The framework is imported once and every child is forked from here: fifty kills would otherwise be
fifty imports. The kills are real SIGKILLs, at random moments, and every third one waits for the
temporary file of a checkpoint that is being written. SETTINGS is JSON, in place of those below.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

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
CHECKPOINT_SECONDS = 0.02


def work(runs: Path, model: str) -> None:
    how = {"runs": runs, "quiet": True, "checkpoint_seconds": CHECKPOINT_SECONDS}
    # A process that is killed before run.json exists leaves a folder that is no run.
    started = [path.parent for path in runs.glob("*/run.json")]
    if started:
        training.resume(str(started[0]), device="cpu", **how)
    else:
        training.train(model, "synthetic", settings=SETTINGS, device="cpu", **how)


def child(runs: Path, model: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work(runs, model)
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


def main() -> None:
    folder, kills, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    model = sys.argv[4] if len(sys.argv) > 4 else "cnn"
    if len(sys.argv) > 5:
        SETTINGS.update(json.loads(sys.argv[5]))
    trainer_of(registry().models.get(model))  # imports its framework before the forks,
    if "torch" in sys.modules:
        importlib.import_module("torch._dynamo")  # and what the first optimiser would import
    _, undisturbed = train(folder / "whole", model, 0, chance)
    killed, disturbed = train(folder / "killed", model, kills, chance)
    print(killed, undisturbed, disturbed)


def train(runs: Path, model: str, kills: int, chance: random.Random) -> tuple[int, str]:
    """How many children were killed, and the digest of what the last one wrote."""
    killed = 0
    while True:
        pid = child(runs, model)
        if killed < kills:
            if killed % 3 == 2:
                wait_for_write(runs)
            else:
                time.sleep(chance.uniform(0.05, 0.5))
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            if os.WEXITSTATUS(status):
                sys.exit("a child failed")
            break
        killed += 1
    (model_file,) = runs.glob("*/model.safetensors")
    return killed, hashlib.sha256(model_file.read_bytes()).hexdigest()


def wait_for_write(runs: Path) -> None:
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        if any(runs.glob("*/checkpoints/.*.tmp")):
            return


if __name__ == "__main__":
    main()
