"""Try to take the zoo down, for as long as you like, and count. See docs/reliability.md.

make campaign MINUTES=60 SEED=7 ONLY=kills,calls RECORD=1
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from campaigns.record import record
from campaigns.tally import Tally

SHARES = {"kills": 0.35, "calls": 0.2, "hub": 0.1, "plugins": 0.15, "mutations": 0.2}
EVERY = 15  # seconds between two lines of progress


STOPPED: list[int] = []  # signals: a process that tries things has got them too, and ends


def campaign(name: str, seed: int, seconds: float) -> Tally:
    """Run one campaign, with a line of progress now and then."""
    total, shown = Tally(0, 0, []), time.monotonic()
    command = [sys.executable, "-m", "campaigns", "--worker", name, "--seed", str(seed)]
    # Mutations write a small file for each attempt: in memory, where there is such a folder.
    memory = "/dev/shm" if name == "mutations" and Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(
        prefix=f"campaign-{name}-", dir=memory, ignore_cleanup_errors=True
    ) as folder:
        command += ["--seconds", str(seconds), "--folder", f"{folder}/work"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if STOPPED:
            process.send_signal(signal.SIGINT)
        assert process.stdout
        for line in process.stdout:
            one = Tally(**json.loads(line))
            total.tried += one.tried
            total.survived += one.survived
            total.failed += one.failed
            for problem in one.failed:
                print(f"{name}: FAILED {problem[:2000]}", flush=True)
            if time.monotonic() > shown + EVERY:
                shown = time.monotonic()
                print(f"{name}: {told(total)}", flush=True)
        code = process.wait()
    if code and not STOPPED:
        total.failed.append(f"the campaign itself ended with exit code {code}")
    print(f"{name}: {told(total)}, seed {seed}", flush=True)
    return total


def told(tally: Tally) -> str:
    return f"{tally.tried:,} tried, {tally.survived:,} survived, {len(tally.failed):,} failed"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--only", default="", help=", ".join(SHARES))
    parser.add_argument("--record", action="store_true", help="add a row to docs/reliability.md")
    parser.add_argument("--replay", nargs="*", type=Path, help="try kept cases again")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=60, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        from campaigns.worker import work

        return work(given.worker, given.seed, given.seconds, given.folder)
    if given.replay is not None:
        from campaigns.worker import CASES, replay

        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            print(json.dumps(replay(given.replay or sorted(CASES.glob("*.json")), Path(folder))))
        return None
    chosen = [name for name in given.only.split(",") if name] or list(SHARES)
    if strangers := set(chosen) - SHARES.keys():
        parser.error(
            f"there is no campaign {sorted(strangers)[0]!r}: choose from {', '.join(SHARES)}"
        )
    if "mutations" in chosen and not Path(__file__).with_name("mutations.py").exists():
        print("mutations: missing, mutations.py is not here")
        chosen.remove("mutations")
    started, whole, counted = time.monotonic(), sum(SHARES[name] for name in chosen), {}
    print(f"Seed {given.seed}, {given.minutes:g} minutes: {', '.join(chosen)}", flush=True)
    for name in chosen:
        seconds = given.minutes * 60 * SHARES[name] / whole
        counted[name] = campaign(name, given.seed, seconds)
        if STOPPED:
            print("Interrupted.")
            break
    minutes = (time.monotonic() - started) / 60
    print(f"\nIn {minutes:.1f} minutes, seed {given.seed}:")
    for name, tally in counted.items():
        print(f"  {name:<10} {told(tally)}")
    if given.record:
        file = Path(__file__).parents[2] / "docs" / "reliability.md"
        record(
            file,
            datetime.datetime.now(datetime.UTC).date().isoformat(),
            given.seed,
            minutes,
            counted,
        )
    sys.exit(any(tally.failed for tally in counted.values()))


if __name__ == "__mp_main__":  # a worker of a search, which is killed with it
    from fixtures import kills

    kills.arm()
elif __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda number, frame: STOPPED.append(number))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
