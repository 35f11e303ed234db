"""Hub faults and broken plugins, from the tables of tests/fixtures, as campaigns."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class HubFaults:
    """Every fault of the table once, in any order; then any fault at a later request."""

    folder: Path

    def __enter__(self) -> HubFaults:
        from fixtures import hub_faults

        for name in [name for name in os.environ if name.startswith(("ZOO_", "HF_"))]:
            del os.environ[name]
        os.environ["ZOO_CONFIG"] = os.devnull
        self._faults: Any = hub_faults
        self.folder.mkdir(parents=True, exist_ok=True)
        self._stage = hub_faults.Stage(self.folder).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._stage.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def draw(self, seed: int, number: int) -> list[str]:
        table = random.Random(seed).sample(self._faults.FAULTS, len(self._faults.FAULTS))
        if number < len(table):
            return [table[number].name]
        return [next(self._faults.endless(f"{seed} {number}")).name]

    def attempt(self, subject: list[str]) -> tuple[int, str]:
        """Let a fault happen; 0 where the command never made the request that was to fail."""
        outcome = self._stage.attempt(self._faults.drawn(subject[0]))
        problem = "" if outcome.survived else f"{subject[0]}: {'; '.join(outcome.problems)}"
        return int(outcome.happened or bool(problem)), problem


@dataclass
class BrokenPlugins:
    """Each broken plugin once, in any order, with one of the commands; then with the next one."""

    folder: Path
    seen: set[str] = field(default_factory=set)

    def __enter__(self) -> BrokenPlugins:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def draw(self, seed: int, number: int) -> list[str]:
        from fixtures.broken_plugins import BROKEN, COMMANDS

        turn, place = divmod(number, len(BROKEN))
        name = random.Random(seed).sample(sorted(BROKEN), len(BROKEN))[place]
        return [name, list(COMMANDS)[(place + turn) % len(COMMANDS)]]

    def attempt(self, subject: list[str]) -> tuple[int, str]:
        from fixtures.broken_plugins import attempt

        name, command = subject
        problems = attempt(name, command, self.folder)
        shutil.rmtree(self.folder / f"{name}-{command}", ignore_errors=True)
        return 1, "; ".join(problems)
