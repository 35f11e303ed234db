"""Packs images and trains on them undisturbed, then in children that are killed at counted events.

    python kill_driver.py FOLDER PHOTOS STORE KILLS SEED

Prints the digests of the packs and of the weights of both, and for each child which images had been
committed before it began and which it decoded. Threads make all batches ahead.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from fixtures import kills

from zoo_core.data import loader, packs
from zoo_core.io.blocks import BlockStore
from zoo_core.spec.registry import registry
from zoo_core.train import runner as training
from zoo_core.train.job import trainer_of

folder, photos, store = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
count, seed = map(int, sys.argv[4:])
children = folder / "children"  # a line for each: what was committed before it, what it decoded
SETTINGS: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 16,
    "augment": ("resized_crop:12", "flip"),
    "preprocess": {"size": 12},
    "model": {"hidden": (8,)},
    "data": {"image_size": 16, "store": store},
}


def work(home: Path) -> None:
    os.environ["ZOO_CACHE"] = str(home / "cache")
    log = os.open(children, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"\n{json.dumps(committed())} ".encode())
    decode = packs.Pack._decode

    def told(self: Any, rows: range, *places: Any) -> Any:
        os.write(log, "".join(f",{row}" for row in rows).encode())
        return decode(self, rows, *places)

    packs.Pack._decode = told  # type: ignore[method-assign]
    how: dict[str, Any] = {"runs": home / "runs", "quiet": True, "checkpoint_seconds": 0}
    if started := [path.parent for path in (home / "runs").glob("*/run.json")]:
        training.resume(str(started[0]), device="cpu", **how)
    else:
        training.train("mlp", photos, settings=SETTINGS, device="cpu", **how)


def committed() -> list[int]:
    found = [(one.progress(), one.block_rows) for one in packs.kept_packs()]
    blocks = [(place, size) for p, size in found if p for place, d in enumerate(p.blocks) if d]
    return [row for place, size in blocks for row in range(place * size, (place + 1) * size)]


def digests(home: Path) -> list[str]:
    (model,) = home.glob("runs/*/model.safetensors")
    (pack,) = home.glob("cache/packs/*.safetensors")
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in (model, pack)]


def main() -> None:
    trainer_of(registry().models.get("mlp"))  # imports its framework before the forks,
    importlib.import_module("torch._dynamo")  # and what the first optimiser would import
    loader.LARGE = 0
    small = partial(BlockStore, block_rows=8)
    packs.BlockStore = small  # type: ignore[misc]
    packs.kept_stores = lambda where, suffix: [small(p) for p in where.glob(f"*{suffix}*")]
    whole, killed = folder / "whole", folder / "killed"
    _, events = kills.child(lambda: work(whole), whole)
    children.unlink()
    kills.kill_again_and_again(lambda: work(killed), killed, count, events, seed)
    told = []
    for line in children.read_text().splitlines()[1:]:
        before, _, decoded = line.rpartition(" ")
        told.append({"before": json.loads(before), "decoded": json.loads(f"[{decoded[1:]}]")})
    print(json.dumps({"whole": digests(whole), "killed": digests(killed), "children": told}))


main()
