"""Runs a pass in child processes that are killed again and again, then prints what came of it.

    python kill_driver.py WEIGHTS KILLS SEED IMAGES

The framework is imported once and every child is forked from here. The kills are real SIGKILLs: a
child dies at the n-th of its events, which are the beginning of a commit and each time a file is
forced to the disk, in the middle of a commit. Printed: the digests of the files, and which blocks
each child computed, with those that were committed before it began.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
from pathlib import Path

from features.parts import settings

from zoo_core.data.datasets import open_dataset
from zoo_core.data.features import kept
from zoo_core.io.blocks import Writer
from zoo_core.spec.registry import registry
from zoo_core.spec.settings import choose_recipe, override
from zoo_core.train.builder import build_job
from zoo_core.train.display import Display

weights, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
moments = random.Random(seed)
entry = registry().models.get("resnet18_features")
changes = {"data": {"train_size": int(sys.argv[4]), "test_size": 300}}
recipe = override(choose_recipe(entry, "default"), settings(weights, **changes))
data = open_dataset("synthetic", **recipe.data)
job = build_job(entry, recipe, data, Display(quiet=True), device="cpu")

read, write = os.pipe()
os.set_blocking(read, False)
LAST_EVENT = 5  # a commit has four: so no child makes more than one
commit, fsync = Writer.commit, os.fsync


def child(last: int) -> int:
    """Start a child that dies at this event, or never if it is 0."""
    pid = os.fork()
    if pid:
        return pid
    events = 0

    def count() -> None:
        nonlocal events
        events += 1
        if events == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted_commit(self, block, *rest):  # type: ignore[no-untyped-def]
        os.write(write, f"{self._store.id}:{block} ".encode())
        count()
        commit(self, block, *rest)

    def counted_fsync(descriptor: int) -> None:
        count()
        fsync(descriptor)

    Writer.commit, os.fsync = counted_commit, counted_fsync  # type: ignore[method-assign]
    job.trainer.features(job)  # type: ignore[attr-defined]
    os._exit(0)


def committed() -> list[str]:
    return [
        f"{file.id}:{block}"
        for file in kept()
        if (found := file.progress())
        for block, digest in enumerate(found.blocks)
        if digest
    ]


def drain() -> list[str]:
    try:
        return os.read(read, 1 << 16).decode().split()
    except BlockingIOError:
        return []


children, killed = [], 0
while True:
    before = committed()
    _, status = os.waitpid(child(moments.randint(1, LAST_EVENT) if killed < kills else 0), 0)
    killed += os.WIFSIGNALED(status)
    children.append({"before": before, "computed": drain()})
    if not os.WIFSIGNALED(status):
        break
files = {file.path.name: hashlib.sha256(file.path.read_bytes()).hexdigest() for file in kept()}
print(json.dumps({"files": files, "children": children, "killed": killed}))
