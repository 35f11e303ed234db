"""Predictions of very many images: speed, memory, and interruptions that lose nothing, in one run.

    python benchmarks/predictions.py [--images 1000000] [--interruptions 5] [--model cnn.cifar10]
                                     [--folder FOLDER]

CIFAR-10's test images, repeated by a store that makes no copies, go through `zoo.predict_many` into
a CSV file. A child does it; this process sends it Ctrl-C a few times, starts it again, and reads
its RssAnon: the memory that the system cannot take back. What a batch needs for a moment comes and
goes, so the highest value in each twentieth of the images counts; the first two are left out,
because the allocator fills up there. The images repeat with the size of a batch, so that every row
must equal the row of the same image before it. In the child's last stretch batches of the network
alone, ready in memory, take turns with the prediction, in the same process. Random images stand in
for CIFAR-10 where it is not in the cache.

--folder keeps what was computed: the same command goes on with it. It takes about 1.2 times as long
as the network alone needs for the images: about eight minutes at 2,500 images a second.
"""

from __future__ import annotations

import argparse
import csv
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
POLL = 0.1  # seconds between two looks at the child
PARTS = 20  # of the images, for the memory


def different() -> np.ndarray:
    import zoo

    try:
        images = zoo.open_dataset("cifar10", fetch=False).test.images
    except zoo.ZooError:
        images = np.random.default_rng(0).integers(0, 256, (DIFFERENT, 32, 32, 3), np.uint8)
    return np.ascontiguousarray(images[:DIFFERENT])


class Turns:
    """Predict for some batches, then the network alone for a few, and so on; seconds of both."""

    def __init__(self, model: Any, images: np.ndarray, every: int, some: int) -> None:
        from zoo_core.spec.framework import framework_of
        from zoo_core.use.load import as_input

        predict = framework_of(model.zoo.entry).predict_batch
        ready = [as_input(model, images[n * BATCH : (n + 1) * BATCH]) for n in range(4)]
        self.compute = lambda number: predict(model, ready[number % 4])
        self.every, self.some = every, some
        self.batches, self.images = 0, 0
        self.seconds, self.alone, self.alone_images = 0.0, 0.0, 0
        self.begun = time.perf_counter()

    def told(self, images: int) -> None:
        """A batch is predicted."""
        self.batches, self.images = self.batches + 1, self.images + images
        if self.batches % self.every:
            return
        now = time.perf_counter()
        for number in range(self.some):
            self.compute(number)
        end = time.perf_counter()
        self.seconds, self.alone = self.seconds + now - self.begun, self.alone + end - now
        self.alone_images, self.begun = self.alone_images + self.some * BATCH, end

    def speeds(self) -> tuple[float, float]:
        """Images a second of the prediction, and of the network alone."""
        self.seconds += time.perf_counter() - self.begun
        return self.images / self.seconds, self.alone_images / self.alone


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
    work = many.Work(
        many.Request(run=model, reference="", out=options.out)  # type: ignore[arg-type]
    )
    if not work.finished():
        turns = Turns(model, images, options.every, max(1, options.every // 10))
        work.fill(turns.told)
        print(*turns.speeds(), flush=True)
        work.finish()


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
    out, peaks = folder / "out.csv", [0.0] * PARTS
    given = {"out": out, "images": options.images, "model": options.model, "every": options.every}
    command = [sys.executable, __file__, "--child"]
    command += [word for name, value in given.items() for word in (f"--{name}", str(value))]
    times = options.interruptions
    stops = [options.images * number // (times + 1) for number in range(times)]
    printed, interrupted, started = "", 0, time.perf_counter()
    for stop in [*stops, None]:
        begun = committed(out)
        if stop is not None and begun > stop:  # by a run before this one
            continue
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        while process.poll() is None:
            time.sleep(POLL)
            now = committed(out)
            if now > begun:  # it computes: what it needs for that is there
                part = min(PARTS - 1, now * PARTS // options.images)
                peaks[part] = max(peaks[part], anonymous(process.pid))
                if stop is not None and now > stop:
                    process.send_signal(signal.SIGINT)
                    interrupted += 1
                    break
        printed = process.communicate()[0] or printed
        done = committed(out) or options.images
        minutes = (time.perf_counter() - started) / 60
        print(f"{done:,} of {options.images:,} images after {minutes:.1f} minutes", flush=True)
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
    seen = [peak for peak in peaks[2:] if peak] or peaks
    print(f"RssAnon at most {min(seen):.0f} to {max(seen):.0f} MB in each twentieth")
    print(f"{speed:,.0f} images a second, {speed / alone:.1%} of the network alone ({alone:,.0f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--interruptions", type=int, default=5)
    parser.add_argument("--model", default="cnn.cifar10")
    parser.add_argument("--every", type=int, default=200, help="batches of a turn")
    parser.add_argument("--folder", type=Path, help="keep what was computed here")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        measure(folder, options)
    return None


if __name__ == "__main__":
    main()
