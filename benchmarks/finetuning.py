"""Ways to use pretrained backbones in one table: gain, accuracy, time, memory.

    python benchmarks/finetuning.py --models efficientnet_lite0_finetune mobilenet_v2_finetune \\
        --datasets groceries cifar10:1000:1500 --ways head last:2 lora:4 all \\
        --set precision=bfloat16 --epochs 2 --runs ways

Trains with `zoo train`, a process for each run and one run after the other, what the folder does
not have, and prints the table from the run directories. Interrupted, it goes on where it was; runs
that are there cost nothing. cifar10:1000:1500 is a part of a dataset: its first 1,000 training and
1,500 test images. --epochs counts for fine-tuning; `head` keeps its own recipe. A gain on the test
images compares with `head`, which has to be among the ways. Time is what the processor worked for
the whole command, the passes over images that are not in the cache yet among that; memory is the
largest resident size. cost.json in a run directory keeps both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo_core.runs import predictions
from zoo_core.runs.run import Run
from zoo_core.runs.statistics import Interval, paired, wilson

COLUMNS = ("model, images", "`task.finetune`", "validation images: gain", "kept", "test accuracy",
           "gain on the test images, points", "CPU time", "peak memory")  # fmt: skip
COST = "cost.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--datasets", nargs="+", required=True)
    parser.add_argument("--ways", nargs="+", default=["head", "last:2", "lora:4", "all"])
    parser.add_argument("--set", action="append", default=[], help="a setting, as of zoo train")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=Path("ways"), help="the folder of the runs")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    lines = []
    for model, asked in product(options.models, options.datasets):
        data = part_of(asked, options.runs)
        head = None
        for way in options.ways:
            settings = [*options.set, f"task.finetune={way}"]
            if way != "head":
                settings.append(f"epochs={options.epochs}")
            name = "-".join((model, *asked.split(":"), *way.split(":"))).replace(os.sep, "-")
            run = trained(model, data, name, settings, options.runs)
            head = run if way == "head" else head
            lines.append(line_of(run, way, head))
    print("| " + " | ".join(COLUMNS) + " |\n|---|---|---|---|---|---|---:|---:|")
    print("\n".join(lines))


def part_of(asked: str, folder: Path) -> str:
    """What `zoo train --dataset` takes; NAME:TRAIN:TEST becomes a file of so many images."""
    name, *counts = asked.rsplit(":", 2)
    if len(counts) != 2 or not all(map(str.isdigit, counts)):
        return asked
    path = folder / f"{'-'.join((name, *counts))}.npz"
    if not path.exists():
        data, arrays = zoo.open_dataset(name), {}
        for word, split, count in zip(
            ("train", "test"), (data.train, data.test), counts, strict=True
        ):
            assert split is not None and split.labels is not None
            arrays[f"{word}_images"] = np.asarray(split.images[: int(count)])
            arrays[f"{word}_labels"] = split.labels[: int(count)]
        np.savez(path, classes=np.array(data.classes), **arrays)
    return str(path)


def trained(model: str, data: str, name: str, settings: Sequence[str], runs: Path) -> Run:
    """The run of this name, trained to its end; its cost is that of all commands it took."""
    run = Run(runs / name)
    if (run.path / COST).exists():
        return run
    chosen = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "zoo", "train", model, "--dataset", data, *chosen]
    print(f"{name} ...", file=sys.stderr, flush=True)
    process = subprocess.Popen(
        [*command, "--name", name, "--runs", str(runs)], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{name}: zoo train failed")
    scale = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    cost = {"cpu_seconds": used.ru_utime + used.ru_stime, "memory": scale * used.ru_maxrss}
    (run.path / COST).write_text(json.dumps(cost))
    return run


def line_of(run: Run, way: str, head: Run | None) -> str:
    document, cost = run.read(), json.loads((run.path / COST).read_text())
    data, result = document["dataset"], document["result"]
    tuned, test = result.get("finetune") or {}, result["test"]
    kept, judged = "head", ""
    if tuned:
        kept = "head" if tuned["kept"] == "probe" else "fine-tuned"
        gained = points(tuned["gain"], tuned["interval"])
        judged = f"{tuned['images']:,}: {gained}"
    gain = ""
    if head is not None and head is not run:
        gain = "0, the same bytes" if same_file(run, head) else on_the_same_images(run, head)
    low, high = wilson(test["accuracy"], test["images"])
    cells = [
        f"`{document['model']['name']}`, {data['name']} ({data['train'] + data['validation']:,} "
        f"and {data['test']:,})",
        f"`{way}`",
        judged,
        kept,
        f"{test['accuracy']:.1%} ({100 * low:.1f} to {100 * high:.1f})".replace("%", " %"),
        gain,
        f"{cost['cpu_seconds']:.0f} s",
        f"{cost['memory'] / 1e9:.1f} GB",
    ]
    return "| " + " | ".join(cells) + " |"


def same_file(one: Run, other: Run) -> bool:
    first, second = (run.read()["result"]["model"]["sha256"] for run in (one, other))
    return bool(first == second)


def on_the_same_images(run: Run, head: Run) -> str:
    ours, theirs = predictions.of_run(run), predictions.of_run(head)
    assert ours is not None and theirs is not None and predictions.same_images(ours, theirs)
    right, before = ours.right(), theirs.right()
    found = paired(int((right & ~before).sum()), int((before & ~right).sum()), len(right))
    return points(found.value, found.interval)


def points(value: float, interval: Interval | Any) -> str:
    return f"{100 * value:.1f} ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})"


if __name__ == "__main__":
    main()
