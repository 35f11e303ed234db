"""Searches undisturbed, then in children that are killed at counted events; prints what was found.

    python kill_driver.py FOLDER KILLS SEED WORKERS MODEL TRIALS

What they need is imported once, and every child is forked from here.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from fixtures import kills

kills.arm()  # a worker, which imports this file before it does anything

SETTINGS: dict[str, Any] = {
    "epochs": 6,
    "subset": 1.0,
    "batch_size": 16,
    "model": {"hidden": (16,)},
    "data": {"train_size": 400, "test_size": 50},
}


def main(folder: Path, count: int, seed: int, workers: int, model: str, trials: int) -> None:
    # Imported before the forks, and by no child: what a search, its optimiser and its report need.
    import hyperopt  # noqa: F401
    import matplotlib.pyplot  # noqa: F401

    if model == "mlp":
        import torch

        torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # imports the rest of torch

    from zoo_tune.search import SearchSettings
    from zoo_tune.tuning import run_search

    def work(runs: Path) -> None:
        how: dict[str, Any] = {"runs": runs, "quiet": True}
        if any(runs.glob("*/search.json")):
            run_search(SearchSettings(resume="latest", **how))
        else:
            run_search(
                SearchSettings(
                    model=model, dataset="synthetic", settings=SETTINGS, trials=trials,
                    startup=trials - 3, train=True, device="cpu", workers=workers,
                    report=count > 1, **how,  # of a small search, drawing is what costs most
                )
            )  # fmt: skip

    whole, killed = folder / "whole", folder / "killed"
    _, events = kills.child(lambda: work(whole), whole)
    kills.kill_again_and_again(lambda: work(killed), killed, count, events, seed)
    print(json.dumps({"whole": found(whole), "killed": found(killed), "events": events}))


def found(runs: Path) -> dict[str, Any]:
    """All that a search leaves but how long it took."""
    (search,) = runs.glob("*/search.json")
    lines = search.with_name("trials.jsonl").read_text().splitlines()
    trials = sorted(map(json.loads, lines), key=lambda trial: trial["number"])
    for trial in trials:
        trial.pop("seconds")
        for line in trial["curve"]:
            del line["seconds"], line["images_per_second"]
    (model,) = runs.glob("*-synthetic-*/model.safetensors")
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    best = search.with_name("best.toml").read_text().splitlines()
    return {"trials": trials, "weights": digest, "best": [one for one in best if "#" not in one]}


if __name__ == "__main__":
    folder, count, seed, workers, model, trials = sys.argv[1:]
    main(Path(folder), int(count), int(seed), int(workers), model, int(trials))
