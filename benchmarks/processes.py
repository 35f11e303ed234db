"""Two processes of one thread that train together: zoo beside a bare loop, in one run.

    python benchmarks/processes.py [--models cnn nano_vit_p4] [--processes 2] [--steps 60]

The bare loop is DistributedDataParallel around the same network, with the same optimiser and batch
size, on batches that are ready in memory; what it does not do is look at data. zoo: `zoo.train`,
without augmentation. Both are started by torchrun, in turns; the best of several counts. Asked for:
at least 1.1 times the images a second of the bare loop.

Then a trace of one step of zoo, by torch's profiler: when the first reduction of gradients starts,
when backward computes its last gradient, and how long collectives take.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import zoo
from zoo_core.io.process import joined
from zoo_core.torch.learner import TorchLearner
from zoo_core.torch.task import OPTIMIZERS

PLAIN = {"epochs": 1, "augment": (), "mixup": 0.0, "evaluate_every": 0, "accumulate": 1}
WARM = 5  # steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", default=["cnn", "nano_vit_p4"])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=64, help="of all processes together")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    best: dict[str, dict[str, Any]] = {}
    for _ in range(options.repeat):
        for way in ("bare", "zoo"):
            for name, found in start(way, options).items():
                kept = best.setdefault(name, {})
                kept[way] = max(found["rate"], kept.get(way, 0.0))
                kept |= {k: v for k, v in found.items() if k != "rate"}
    what = f"{options.processes} processes of one thread, batches of {options.batch}"
    print(f"{what}\n{'images/s':14} {'bare':>8} {'zoo':>8}")
    for name, kept in best.items():
        print(
            f"{name:14} {kept['bare']:8.0f} {kept['zoo']:8.0f} {kept['zoo'] / kept['bare']:7.2f}x"
        )
    for name, kept in best.items():
        print(
            f"{name}: of a step of {kept['step']:.1f} ms, in {kept['pieces']} pieces of gradients: "
            f"the first reduction starts at {kept['first']:.1f} ms, backward computes until "
            f"{kept['last']:.1f} ms, the last reduction ends at {kept['end']:.1f} ms; "
            f"{kept['collectives']:.1f} ms in collectives"
        )


def start(way: str, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Both processes of one way; what the first one prints last."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--nproc-per-node", str(options.processes), __file__, "--worker", way]
    given = {"steps": options.steps, "batch": options.batch}
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    done = subprocess.run(
        [*torchrun, *words, "--models", *options.models],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": "9"},
    )
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def work(options: argparse.Namespace) -> None:
    found = {}
    with joined():
        for name in options.models:
            run = bare if options.worker == "bare" else with_zoo
            found[name] = run(name, options)
        if dist.get_rank() == 0:
            print(json.dumps(found))


def settings_of(name: str) -> Mapping[str, Any]:
    return vars(zoo.info(name).recipes["default"]) | PLAIN


def bare(name: str, options: argparse.Namespace) -> dict[str, float]:
    recipe = settings_of(name)
    model = DistributedDataParallel(zoo.create(name, **recipe["model"]))
    chosen = OPTIMIZERS[recipe["optimizer"]]
    optimizer = chosen.make(model.parameters(), **{f: recipe[f] for f in chosen.options})
    own = options.batch // dist.get_world_size()
    images, labels = torch.randn(10, own, 3, 32, 32), torch.randint(0, 10, (10, own))
    rates = []
    for step in range(options.steps):
        started = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[step % 10]), labels[step % 10])
        loss.backward()
        optimizer.step()
        rates.append(time.perf_counter() - started)
    counted = rates[min(WARM, options.steps - 1) :]
    return {"rate": options.batch * len(counted) / sum(counted)}


def with_zoo(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Steps alone are timed, as in the bare loop; each includes the making of its batch."""
    real, traced, taken = TorchLearner.step, {}, []

    def step(self: TorchLearner, batch: Any, place: Any) -> None:
        taken.append(time.perf_counter())
        if place.step != options.steps - 1:
            return real(self, batch, place)
        with torch.profiler.profile() as profiler, torch.profiler.record_function("step"):
            real(self, batch, place)
        traced.update(look(profiler))

    TorchLearner.step = step  # type: ignore[method-assign]
    data = {"train_size": options.steps * options.batch, "test_size": 10}
    settings = {**PLAIN, "batch_size": options.batch, "data": data}
    # With SystemExit ends the training of all processes but the first.
    with tempfile.TemporaryDirectory() as runs, suppress(SystemExit):
        zoo.train(name, "synthetic", settings=settings, runs=Path(runs), quiet=True)
    TorchLearner.step = real  # type: ignore[method-assign]
    counted = taken[min(WARM, options.steps - 2) :]  # from the start of one step to the next
    rate = options.batch * (len(counted) - 1) / (counted[-1] - counted[0])
    return {"rate": rate, **traced}


def look(profiler: torch.profiler.profile) -> dict[str, float]:
    """Milliseconds from the start of the step."""
    events = profiler.events() or []
    whole = next(event for event in events if event.name == "step").time_range
    reductions = [e.time_range for e in events if e.name.endswith("all_reduce") and ":" in e.name]
    computed = [
        event.time_range
        for event in events
        if event.name.startswith("autograd::engine::evaluate_function")
        and "Reach" not in event.name
        and "AccumulateGrad" not in event.name
    ]
    assert reductions, "there is no reduction in the trace"
    points = {
        "step": whole.end,
        "first": min(one.start for one in reductions),
        "last": max(one.end for one in computed),
        "end": max(one.end for one in reductions),
    }
    found = {name: (point - whole.start) / 1000 for name, point in points.items()}
    spent = sum(one.end - one.start for one in reductions) / 1000
    return {**found, "pieces": len(reductions), "collectives": spent}


if __name__ == "__main__":
    main()
