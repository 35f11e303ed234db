"""Predicts a folder undisturbed, then in children that are killed at counted events.

    python kill_driver.py FOLDER PHOTOS KILLS SEED

Prints the bytes of both tables, and for each child which rows had been committed before it began
and which it computed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from fixtures import kills

from zoo_core.use import load, many

folder, photos = Path(sys.argv[1]), sys.argv[2]
count, seed = map(int, sys.argv[3:])
children = folder / "children"


def work(home: Path) -> None:
    home.mkdir(exist_ok=True)
    log = os.open(children, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    scored = many.Work._scored

    def told(self: Any, rows: range) -> Any:
        done = self.store.progress()
        before = [r for b, d in enumerate(done.blocks) if d for r in done.rows_of(b)]
        os.write(log, f"{json.dumps([before, [*rows]])}\n".encode())
        return scored(self, rows)

    many.Work._scored = told  # type: ignore[method-assign]
    many.predict_many("lenet_numpy.mnist", photos, home / "out.csv", batch=4)


def main() -> None:
    load.load("lenet_numpy.mnist")  # imports its framework before the forks
    many.BLOCKS = (8, 8)
    whole, killed = folder / "whole", folder / "killed"
    _, events = kills.child(lambda: work(whole), whole)
    children.unlink()
    kills.kill_again_and_again(lambda: work(killed), killed, count, events, seed)
    told = [json.loads(line) for line in children.read_text().splitlines()]
    tables = [(home / "out.csv").read_text() for home in (whole, killed)]
    left = sorted(path.name for path in killed.rglob("*"))
    print(json.dumps({"tables": tables, "computed": told, "left": left}))


main()
