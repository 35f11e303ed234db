"""Kills a child at moments of its work, then looks at what is left.

    python leftovers_driver.py train|tune|pack|publish|pull FOLDER KILLS SEED

After each kill a copy of the folder is cleaned as `zoo cache clear --leftovers` does it; the folder
itself goes on with the next child, which nobody cleans up for. Prints how many leftovers there were
after the kills, and what remains after cleaning and after the last child, which is not killed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from fixtures import kills

kills.arm()  # a worker of a search, which imports this file before it does anything

SETTINGS: dict[str, Any] = {"epochs": 2, "data": {"train_size": 200, "test_size": 40}}


def train(home: Path) -> None:
    from zoo_core.train import runner

    how: dict[str, Any] = {"runs": home / "runs", "quiet": True, "checkpoint_seconds": 0}
    if begun := list(how["runs"].glob("*/run.json")):
        runner.resume(str(begun[0].parent), **how)
    else:
        runner.train("fcn_numpy", "synthetic", settings=SETTINGS, **how)


def tune(home: Path) -> None:
    from zoo_tune.search import SearchSettings
    from zoo_tune.tuning import run_search

    how: dict[str, Any] = {"runs": home / "runs", "quiet": True, "report": False}
    if any(how["runs"].glob("*/search.json")):
        run_search(SearchSettings(resume="latest", **how))
    else:
        settings = SETTINGS | {"subset": 1.0, "validation_fraction": 0.2}
        run_search(
            SearchSettings(
                model="fcn_numpy", dataset="synthetic", settings=settings, trials=3,
                searcher="random", workers=2, **how,
            )
        )  # fmt: skip


def pack(home: Path) -> None:
    import numpy as np

    from zoo_core.io.blocks import BlockStore, Layout
    from zoo_core.io.files import cache_dir

    layout = Layout(key={"rows": "squares"}, rows=40, row_bytes=8)
    with BlockStore(cache_dir("packs") / "squares.bin", 8).writing(layout) as writer:
        for block in writer:
            writer.commit(block, np.square(np.array(writer.rows(block), np.int64)))


def publish(home: Path) -> None:
    from zoo_core.publish import publish as publishing
    from zoo_core.runs.run import Run

    (run,) = Run.every(home / "runs")
    publishing.publish(publishing.plan(run, f"file:{home / 'shared'}"))


def pull(home: Path) -> None:
    from zoo_core.weights.references import obtain

    obtain(f"file:{home / 'shared'}")


def at(home: Path) -> None:
    """Let all that the zoo keeps be below this folder."""
    os.environ |= {"ZOO_CACHE": str(home / "cache"), "ZOO_MANIFEST": str(home / "user/list.json")}
    os.environ["TMPDIR"] = tempfile.tempdir = str(home / "tmp")
    (home / "tmp").mkdir(parents=True, exist_ok=True)


def left(home: Path) -> list[str]:
    """By name, whatever the zoo's own function says."""
    ends = (".tmp", ".lock", ".claim")
    places = [home / name for name in ("cache", "user", "runs", "tmp", "shared")]
    found = [p for place in places for p in place.rglob("*") if p.name.endswith(ends)]
    return [str(p.relative_to(home)) for p in found] + [
        str(p.relative_to(home)) for p in (home / "runs").glob("*") if not any(p.glob("*.json"))
    ]


def main() -> None:
    from zoo_tune import tuning  # noqa: F401 - imported before the forks

    from zoo_core.runs.leftovers import all_leftovers
    from zoo_core.spec.registry import registry
    from zoo_core.train.job import trainer_of

    trainer_of(registry().models.get("fcn_numpy"))
    work, folder = globals()[sys.argv[1]], Path(sys.argv[2])
    count, seed = map(int, sys.argv[3:])
    home, whole = folder / "home", folder / "whole"
    for one in (home, whole):
        at(one)
        if work in (publish, pull):
            train(one)
        if work is pull:
            publish(one)
            shutil.rmtree(one / "cache", ignore_errors=True)
    _, events = kills.child(lambda: work(whole), whole)
    answer: dict[str, Any] = {"events": events, "seen": 0, "kept": []}
    at(home)
    for moment in sorted(random.Random(seed).sample(range(1, events + 1), count)):
        share = max(1, moment // count)  # of what a child does: each goes on where one died
        if not kills.child(lambda: work(home), home, share)[0]:
            break
        answer["seen"] += len(left(home))
        copy = folder / "copy"
        shutil.copytree(home, copy)
        at(copy)
        found = all_leftovers(copy / "runs")
        assert all(one.remove() for one in found), found
        answer["kept"] += [p for p in left(copy) if not p.startswith("shared")]
        shutil.rmtree(copy)
        at(home)
    assert not kills.child(lambda: work(home), home)[0]
    answer["after"] = left(home)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
