"""Predictions of very many images: speed, memory, and interruptions that lose nothing, in one run.

    python benchmarks/predictions.py [--images 1000000] [--interruptions 5] [--model cnn.cifar10]

CIFAR-10's test images, repeated by a store that makes no copies, go through `zoo.predict_many` into
a CSV file. A child does it; this process sends it Ctrl-C a few times, starts it again, and reads
its RssAnon: the memory that the system cannot take back. The images repeat with the size of a
batch, so that every row must equal the row of the same image before it. The speed is that of the
child's last stretch without an interruption, against the network alone on ready batches, before and
after, in the same process. Random images stand in for CIFAR-10 where it is not in the cache.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 256
DIFFERENT = 20 * BATCH  # images; after these the first one comes again
POLL = 0.2  # seconds between two looks at the child


def different() -> np.ndarray:
    import zoo

    try:
        images = zoo.open_dataset("cifar10", fetch=False).test.images
    except zoo.ZooError:
        images = np.random.default_rng(0).integers(0, 256, (DIFFERENT, 32, 32, 3), np.uint8)
    return np.ascontiguousarray(images[:DIFFERENT])


def bare(model: Any, images: np.ndarray, batches: int) -> float:
    """Images a second of the network alone: the best of three rounds."""
    from zoo_core.spec.framework import framework_of
    from zoo_core.use.load import as_input

    framework, best = framework_of(model.zoo.entry), 0.0
    ready = [as_input(model, images[n * BATCH : (n + 1) * BATCH]) for n in range(4)]
    for _ in range(3):
        started = time.perf_counter()
        for number in range(batches):
            framework.predict_batch(model, ready[number % 4])
        best = max(best, batches * BATCH / (time.perf_counter() - started))
    return best


def child(options: argparse.Namespace) -> None:
    """Predict until it is done or interrupted; prints the speed of both."""
    import zoo
    from zoo_core.data.dataset import Split
    from zoo_core.data.images import Form
    from zoo_core.data.stores import Stored
    from zoo_core.use import many

    images = different()

    class Repeated(Stored):
        kind = "direct"

        def take(self, rows: np.ndarray) -> np.ndarray:
            return images.take(rows % len(images), axis=0)

    def opened(*_: Any) -> many.Images:
        store = Repeated(Form(32, 3), np.arange(options.images))
        return many.Images(range(options.images), Split(store, None), options.images)  # type: ignore[arg-type]

    many.open_images = opened
    model = zoo.load(options.model)
    alone = bare(model, images, options.warm)
    work = many.Work(
        many.Request(run=model, reference="", out=options.out)  # type: ignore[arg-type]
    )
    done = work.store.progress()
    before, started = done.done if done else 0, time.perf_counter()
    if not work.finished():
        work.fill()
        speed = (options.images - before) / (time.perf_counter() - started)
        alone = max(alone, bare(model, images, options.warm))
        work.finish()
        print(f"{speed} {alone}", flush=True)


def anonymous(pid: int) -> float:
    """RssAnon in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = [line.split()[1] for line in lines if line.startswith("RssAnon")]
    return int(found[0]) / 1000 if found else 0.0


def committed(out: Path) -> int:
    from zoo_core.io.blocks import BlockStore
    from zoo_core.use.many import BLOCKS

    store = BlockStore(out.with_name(f".{out.name}.zoo") / "scores.safetensors", BLOCKS[0])
    progress = store.progress()
    return progress.done if progress else 0


def measure(folder: Path, options: argparse.Namespace) -> None:
    out, largest, times = folder / "out.csv", 0.0, options.interruptions
    given = {"out": out, "images": options.images, "model": options.model, "warm": options.warm}
    command = [sys.executable, __file__, "--child"]
    command += [word for name, value in given.items() for word in (f"--{name}", str(value))]
    stops = [options.images * number // (times + 1) for number in range(times)]
    lowest, printed, interrupted = float("inf"), "", 0
    for stop in [*stops, None]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        begun = committed(out)
        while process.poll() is None:
            time.sleep(POLL)
            if committed(out) > begun:  # it computes: what it needs for that is there
                used = anonymous(process.pid)
                largest, lowest = max(largest, used), min(lowest, used or lowest)
                if stop is not None and committed(out) > stop:
                    process.send_signal(signal.SIGINT)
                    interrupted += 1
                    break
        printed = process.communicate()[0] or printed
    speed, alone = map(float, printed.split())
    with out.open(newline="") as file:
        rows = csv.reader(file)
        next(rows)
        first = [row[1:] for row in islice(rows, DIFFERENT)]
        count = len(first)
        for number, row in enumerate(rows, count):
            assert row[1:] == first[number % DIFFERENT], f"row {number} is another one"
            count += 1
    assert count == options.images, f"there are {count} rows"
    print(f"{count:,} rows, all as they should be, after {interrupted} interruptions")
    print(f"RssAnon {lowest:.0f} to {largest:.0f} MB")
    print(f"{speed:,.0f} images a second, {speed / alone:.1%} of the network alone ({alone:,.0f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--interruptions", type=int, default=5)
    parser.add_argument("--model", default="cnn.cifar10")
    parser.add_argument("--warm", type=int, default=40, help="batches of the network alone")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("ZOO_CACHE", str(Path(folder) / "cache"))
        measure(Path(folder), options)
    return None


if __name__ == "__main__":
    main()
