"""Runs a pass undisturbed, then in children that are killed at counted events.

    python kill_driver.py FOLDER WEIGHTS KILLS SEED IMAGES

The framework is imported once and every child is forked from here. Prints the digests of the files
of both, and which blocks each child computed, with those that were committed before it began.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from features.parts import settings
from fixtures import kills

from zoo_core.data.datasets import open_dataset
from zoo_core.data.features import kept_features
from zoo_core.io.blocks import Writer
from zoo_core.spec.registry import registry
from zoo_core.spec.settings import choose_recipe, override
from zoo_core.train.builder import build_job
from zoo_core.train.display import Display

folder, weights = Path(sys.argv[1]), Path(sys.argv[2])
count, seed, images = map(int, sys.argv[3:])
children = folder / "children"  # a line for each: the blocks before it, and those that it computed


def open_pass(cache: Path) -> Callable[[], None]:
    """A pass with a cache of its own, which from now on is the cache of this process."""
    os.environ["ZOO_CACHE"] = str(cache)
    entry = registry().models.get("resnet18_features")
    changes = {"data": {"train_size": images, "test_size": 20}}
    recipe = override(choose_recipe(entry, "default"), settings(weights, **changes))
    data = open_dataset("synthetic", **recipe.data)
    job = build_job(entry, recipe, data, Display(quiet=True), device="cpu")

    def work() -> None:
        log = os.open(children, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, f"\n{','.join(committed())}".encode())
        commit = Writer.commit_behind

        def told(self: Any, block: int, *content: Any) -> None:
            os.write(log, f" {self._store.id}:{block}".encode())
            commit(self, block, *content)

        Writer.commit_behind = told  # type: ignore[method-assign]
        job.trainer.features(job)  # type: ignore[attr-defined]

    return work


def committed() -> list[str]:
    return [
        f"{file.id}:{block}"
        for file in kept_features()
        if (found := file.progress())
        for block, digest in enumerate(found.blocks)
        if digest
    ]


def files() -> dict[str, str]:
    return {
        file.path.name: hashlib.sha256(file.path.read_bytes()).hexdigest()
        for file in kept_features()
    }


def main() -> None:
    _, events = kills.child(open_pass(folder / "whole"), folder / "whole")
    whole = files()
    children.unlink()
    work = open_pass(folder / "killed")
    kills.kill_again_and_again(work, folder / "killed", count, events, seed)
    lines = [line.split(" ") for line in children.read_text().splitlines()[1:]]
    told = [{"before": before.split(","), "computed": blocks} for before, *blocks in lines]
    print(json.dumps({"whole": whole, "killed": files(), "children": told}))


main()
