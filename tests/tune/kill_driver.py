"""Searches in child processes that are killed again and again, then prints what was found.

    python kill_driver.py RUNS KILLS SEED WORKERS

The framework is imported once and every child is forked from here.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

# Imported before the forks, and by no child: what a search, its optimiser and its report need.
import hyperopt  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import torch

from zoo_core.tune.search import SearchSettings
from zoo_core.tune.tuning import run_search

SETTINGS: dict[str, Any] = {
    "epochs": 6,
    "subset": 1.0,
    "batch_size": 16,
    "model": {"hidden": (16,)},
    "data": {"train_size": 400, "test_size": 50},
}


def work(runs: Path, workers: int) -> None:
    how: dict[str, Any] = {"runs": runs, "quiet": True, "checkpoint_seconds": 0.02}
    if any(runs.glob("*/search.json")):
        run_search(SearchSettings(resume="latest", **how))
    else:
        run_search(
            SearchSettings(
                model="mlp", dataset="synthetic", settings=SETTINGS, trials=7, startup=4,
                train=True, device="cpu", workers=workers, **how,
            )
        )  # fmt: skip


def child(runs: Path, workers: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work(runs, workers)
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


def main() -> None:
    runs, kills, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    workers = int(sys.argv[4])
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # imports the rest of torch
    killed = 0
    while True:
        pid = child(runs, workers)
        if killed < kills:
            time.sleep(chance.uniform(0.2, 0.8) if workers == 1 else chance.uniform(6, 9))
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            if os.WEXITSTATUS(status):
                sys.exit("a child failed")
            break
        killed += 1
    (found,) = runs.glob("*/search.json")
    trials = [json.loads(line) for line in found.with_name("trials.jsonl").read_text().splitlines()]
    trials.sort(key=lambda trial: trial["number"])
    for trial in trials:  # all but how long it took
        trial.pop("seconds")
        for line in trial["curve"]:
            del line["seconds"], line["images_per_second"]
    (model,) = runs.glob("mlp-*/model.safetensors")
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    best = [
        line for line in (found.with_name("best.toml")).read_text().splitlines() if "#" not in line
    ]
    print(json.dumps({"killed": killed, "trials": trials, "weights": digest, "best": best}))


if __name__ == "__main__":
    main()
