"""One campaign in a process of its own: a line of JSON for what was counted, again and again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from campaigns.tally import Tally

TURN = 20.0  # seconds for one kind of mutations
CASES = Path(__file__).parent / "cases"


def _kills(folder: Path) -> Any:
    from campaigns.kills import Kills

    return Kills(folder)


def _calls(folder: Path) -> Any:
    from campaigns.calls import Calls

    return Calls(folder)


def _hub(folder: Path) -> Any:
    from campaigns.faults import HubFaults

    return HubFaults(folder)


def _plugins(folder: Path) -> Any:
    from campaigns.faults import BrokenPlugins

    return BrokenPlugins(folder)


# What opens a campaign: `draw(seed, number)` gives a subject, a list of words, and `attempt` tries
# it: how many it counts, and what did not hold. Mutations count for themselves.
OPEN: dict[str, Callable[[Path], Any]] = {
    "kills": _kills, "calls": _calls, "hub": _hub, "plugins": _plugins,
}  # fmt: skip


def tallies(name: str, seed: int, seconds: float, folder: Path) -> Iterator[Tally]:
    """Run a campaign for so long; what each part of it counted."""
    deadline = time.monotonic() + seconds
    if name == "mutations":
        yield from _mutations(seed, deadline, folder)
        return
    with OPEN[name](folder) as campaign:
        number = 0
        while time.monotonic() < deadline:
            subject = campaign.draw(seed, number)
            tried, problem = campaign.attempt(subject)
            if problem:
                keep(name, seed, number, problem, subject)
            yield Tally(tried, tried - bool(problem), [problem] * bool(problem))
            number += 1


def _mutations(seed: int, deadline: float, folder: Path) -> Iterator[Tally]:
    """Every kind by turns, each time with another seed, so that a Ctrl-C loses one turn only."""
    from campaigns import mutations

    folder.mkdir(parents=True, exist_ok=True)
    share = min(TURN, (deadline - time.monotonic()) / len(mutations.KINDS))
    for turn in range(10**6):
        for kind in mutations.KINDS:
            if (left := deadline - time.monotonic()) <= 0:
                return
            yield mutations.run(kind, seed + turn * 10**6, min(share, left), folder)
            for failed in folder.glob("*.bin"):
                shutil.move(failed, CASES / failed.name)  # a test of the mutations tries it again


def keep(name: str, seed: int, number: int, what: str, subject: list[str]) -> None:
    """A file for what failed; a test tries it again until somebody has repaired it."""
    case = {"campaign": name, "seed": seed, "number": number, "what": what, "subject": subject}
    file = CASES / f"{name}-{seed}-{number}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(case, indent=2) + "\n")


def replay(files: list[Path], folder: Path) -> dict[str, str]:
    """Try kept cases again: for each file what does not hold, "" if all does."""
    cases = {file.name: json.loads(file.read_text()) for file in files}
    found = {}
    for name in sorted({case["campaign"] for case in cases.values()} & OPEN.keys()):
        with OPEN[name](folder / name) as campaign:
            for file, case in cases.items():
                if case["campaign"] == name:
                    found[file] = campaign.attempt(case["subject"])[1]
    return found


def work(name: str, seed: int, seconds: float, folder: Path) -> None:
    """Print what is counted until the time is over, or a Ctrl-C."""
    out = sys.stdout
    with suppress(KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for one in tallies(name, seed, seconds, folder):
            out.write(json.dumps(asdict(one)) + "\n")
            out.flush()
    os._exit(0)  # libraries that this process only holds for its children complain at its end
