"""Two trainings at once on one machine, with several ways in which idle threads may wait.

    python benchmarks/busy.py [--model cnn] [--batches 64 128] [--seconds 4] [--repeat 3]

A thread that waits for the others at the end of a parallel loop first spins, then sleeps. Spinning
is quickest on a quiet machine; beside another training it takes the processor away from those who
have work. Every row is a setting of the OpenMP library: images per second of one training alone,
and of each of two that run at once, both with all processors, as shares of the best one alone. Each
figure is the best of several runs, taken in turns. Asked for: each of two at least 40 %, at the
least cost alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

import zoo
from zoo_core.io.process import CALM, WAITING

SETTINGS: dict[str, dict[str, str]] = {
    "spin (OpenMP's own)": {},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    **{
        f"spin {count:,} times": {"GOMP_SPINCOUNT": str(count)}
        for count in (100, 1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000)
    },
    "one thread each": {"OMP_NUM_THREADS": "1"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(images_per_second(options.model, options.batches[0], options.seconds))
        return
    shown = " ".join(f"{name}={value}" for name, value in CALM.items())
    print(f"{os.cpu_count()} processors; the zoo's default is {shown}")
    for batch in options.batches:
        alone, each = measure(options, batch)
        best = max(alone.values())
        print(f"\n{options.model}, batch {batch}: {best:,.0f} images/s at best")
        print(f"{'waiting threads':24} {'alone':>7} {'each of two':>12}")
        for name in options.settings:
            print(f"{name:24} {alone[name] / best:7.0%} {each[name] / best:12.0%}", flush=True)


def measure(options: argparse.Namespace, batch: int) -> tuple[dict[str, float], dict[str, float]]:
    """Images per second by setting: of one alone, and of the slower of two at once."""
    alone = dict.fromkeys(options.settings, 0.0)
    each = dict(alone)
    for _ in range(options.repeat):
        for name in options.settings:
            for rates, count in ((alone, 1), (each, 2)):
                rates[name] = max(rates[name], min(run(options, batch, SETTINGS[name], count)))
    return alone, each


def run(
    options: argparse.Namespace, batch: int, setting: dict[str, str], count: int
) -> list[float]:
    """So many trainings that begin at the same moment, when all are ready."""
    command = [sys.executable, __file__, "--model", options.model, "--batches", str(batch)]
    command += ["--seconds", str(options.seconds), "--work"]
    # The workers import torch before the zoo could set its default, so that it stays out of this.
    clean = {k: v for k, v in os.environ.items() if k not in (*WAITING, "OMP_NUM_THREADS")}
    made = [
        subprocess.Popen(
            command, env=clean | setting, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(count)
    ]
    for process in made:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    begin = time.time() + 0.1
    for process in made:
        assert process.stdin is not None
        process.stdin.write(f"{begin}\n")
        process.stdin.flush()
    return [float(process.communicate()[0]) for process in made]


def images_per_second(model: str, batch: int, seconds: float) -> float:
    """Steps of SGD on one random batch, counted between two moments that all processes share."""
    torch.manual_seed(0)
    network = zoo.create(model).train().to(memory_format=torch.channels_last)
    images = torch.rand(batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    labels = torch.arange(batch) % 10
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, fused=True)
    print("ready", flush=True)
    begin = float(input())
    done, end = 0, begin + seconds
    while (now := time.time()) < end or not done:
        loss = F.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        done += now >= begin
    return done * batch / seconds


if __name__ == "__main__":
    main()
