"""Trains in several processes, again and again, and prints what came out, a line for each.

    python ranks_driver.py FOLDER JOBS

JOBS is JSON, a list of trainings: {"runs": a folder in FOLDER, "processes": 2, "model": "mlp",
"settings": {...}, "kill": [rank, step]}. A training goes on with what its folder has, by its name,
or by a resume where "resume" is true. With "kill", that process kills itself before that step of
its own; the others die with it, as under torchrun.
torch is imported once, and every process is forked from here: each would otherwise import it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from zoo_core.spec.registry import registry
from zoo_core.torch.learner import TorchLearner
from zoo_core.train import runner
from zoo_core.train.job import trainer_of


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def work(folder: Path, job: dict[str, Any], rank: int) -> None:
    """One process. Only the first one has the folder of runs: the others have an empty one."""
    runs = folder / job["runs"] if rank == 0 else folder / f"process-{rank}" / job["runs"]
    if job.get("kill", [None])[0] == rank:
        real, left = TorchLearner.step, job["kill"][1]

        def step(self: Any, batch: Any, place: Any) -> None:
            nonlocal left
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            real(self, batch, place)

        TorchLearner.step = step  # type: ignore[method-assign]
    how: dict[str, Any] = {"runs": runs, "quiet": True, "checkpoint_seconds": 0, "device": "cpu"}
    if job.get("resume"):
        runner.resume("it", **how)
    else:
        runner.train(job["model"], "synthetic", settings=job["settings"], name="it", **how)


def train(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    port, living = free_port(), {}
    for rank in range(job["processes"]):
        pid = os.fork()
        if not pid:
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(job["processes"])}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            try:
                work(folder, job, rank)
            except SystemExit as ended:
                os._exit(int(ended.code or 0))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        living[pid] = rank
    ends: dict[int, int] = {}
    while living:
        pid, status = os.wait()
        ends[living.pop(pid)] = os.waitstatus_to_exitcode(status)
        if status:
            for other in living:
                os.kill(other, signal.SIGKILL)
    found = {"ends": [ends[rank] for rank in sorted(ends)]}
    for file in (folder / job["runs"]).glob("*/model.safetensors"):
        found["digest"] = hashlib.sha256(file.read_bytes()).hexdigest()
        found["model"] = str(file)
        found["lines"] = [json.loads(line) for line in file.with_name("metrics.jsonl").open()]
    return found


def main(folder: Path, jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        trainer_of(registry().models.get(job["model"]))  # imports before the forks,
    importlib.import_module("torch._dynamo")  # and what the first optimiser would import
    for job in jobs:
        print(json.dumps(train(folder, job)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
