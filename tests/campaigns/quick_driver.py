"""Campaigns without torch, for a handful of attempts, with a fault planted on demand.

    python quick_driver.py FOLDER kills|calls SUBJECTS

SUBJECTS is JSON: a list of faults ("" for none) and subjects. Prints how many each attempt counted,
and what did not hold.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def raises() -> None:
    from zoo_core.cli import catalog

    def broken(*args: object, **how: object) -> None:
        raise RuntimeError("planted")

    catalog.find_models = broken


def prints() -> None:
    os.write(1, b"a word before the document\n")


def writes() -> None:
    (Path.cwd().parent.parent / "planted").touch()


def hangs() -> None:
    time.sleep(10**6)


def forgets() -> None:
    """A resume that begins where the checkpoint says, with weights that nobody trained."""
    from zoo_core.train.learner import Learner

    Learner.load = lambda self, state: None  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    "raises": raises, "prints": prints, "writes": writes, "hangs": hangs, "forgets": forgets,
}  # fmt: skip


def main(folder: Path, campaign: str, subjects: list[tuple[str, list[str]]]) -> None:
    from campaigns import calls, kills

    usual = calls.SECONDS
    names = tuple(dict.fromkeys(subject[0] for _, subject in subjects))
    kill = campaign == "kills"
    opened: Any = kills.Kills(folder, names, False, False) if kill else calls.Calls(folder, False)
    with opened:
        found = []
        for fault, subject in subjects:
            opened.sabotage = FAULTS.get(fault)
            calls.SECONDS = 5 if fault == "hangs" else usual
            found.append(opened.attempt(subject))
        sys.stdout.write(json.dumps(found))
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
