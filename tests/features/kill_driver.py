"""Runs a pass in child processes that are killed again and again, then prints what came of it.

    python kill_driver.py WEIGHTS KILLS SEED PICTURES SECONDS

The framework is imported once and every child is forked from here. The kills are real SIGKILLs, at
random moments, every other one when a block is about to be committed. SECONDS is what the whole
pass takes here: all other children together get at most a quarter of it, so that there is work left
for the last kill on a machine of any speed. Printed: how long it took, the digests of the files,
and which blocks each child computed, with those that were committed before it began.
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

from features.parts import settings

from zoo_core.data.datasets import open_dataset
from zoo_core.data.features import Writer, kept
from zoo_core.spec.registry import registry
from zoo_core.spec.settings import choose_recipe, override
from zoo_core.train.builder import build_job
from zoo_core.train.display import Display

weights, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
patience = float(sys.argv[5]) / (2 * kills) if kills else 0.0
moments = random.Random(seed)
entry = registry().models.get("resnet18_features")
changes = {"data": {"train_size": int(sys.argv[4]), "test_size": 300}}
recipe = override(choose_recipe(entry, "default"), settings(weights, **changes))
data = open_dataset("synthetic", **recipe.data)
job = build_job(entry, recipe, data, Display(quiet=True), device="cpu")

read, write = os.pipe()
commit = Writer.commit


def told(self, block, features, seconds):  # type: ignore[no-untyped-def]
    os.write(write, f"{self.place.id}:{block} ".encode())
    commit(self, block, features, seconds)


Writer.commit = told  # type: ignore[method-assign]


def child() -> int:
    pid = os.fork()
    if not pid:
        job.trainer.features(job)  # type: ignore[attr-defined]
        os._exit(0)
    return pid


def committed() -> dict[str, int]:
    return {file.id: len(found.blocks) for file in kept() if (found := file.progress())}


def drain() -> list[str]:
    try:
        return os.read(read, 1 << 16).decode().split()
    except BlockingIOError:
        return []


os.set_blocking(read, False)
children, killed, started = [], 0, time.monotonic()
while True:
    before, computed = committed(), []
    pid = child()
    if killed < kills:
        if killed % 2:
            while not computed:
                time.sleep(0.001)
                computed = drain()
            time.sleep(moments.uniform(0, 0.01))
        else:
            time.sleep(moments.uniform(0, patience))
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    killed += os.WIFSIGNALED(status)
    children.append({"before": before, "computed": computed + drain()})
    if not os.WIFSIGNALED(status):
        break
print(
    json.dumps(
        {
            "files": {f.path.name: hashlib.sha256(f.path.read_bytes()).hexdigest() for f in kept()},
            "children": children,
            "killed": killed,
            "seconds": time.monotonic() - started,
        }
    )
)
