"""Memory and sharing of a pack that is larger than the memory should be, in one run.

    python benchmarks/packs.py [--images 200000] [--steps 200] [--features 5000] [--folder FOLDER]

CIFAR-10, enlarged to 224 pixels by a reader, is packed; an mlp with two hidden layers of 64 trains
on it, is evaluated, and a small backbone gives features. Each part is a process of its own; printed
is the largest RssAnon of each: the memory that the system cannot take back, without pages of files.
Then two processes map the pack, and smaps tells what they share. Random images stand in for
CIFAR-10 where it is not in the cache. 200,000 images take 30 GB of disk, below --folder, and about
a quarter of an hour. Killed, the same command with the same --folder goes on: the pack with its
next block, and then with the parts that have no figures yet. Without --folder all of it is
temporary.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIZE = 224
SPARE = 2 << 30  # bytes of disk that stay free
LOOKED_AT = 20_000  # images of which both processes take every byte from the map
PARTS = ("pack", "train", "evaluate", "features")


def enlarged(count: int) -> Any:
    """The dataset, packed if it is not yet."""
    from zoo_core.data.originals import Originals
    from zoo_core.data.stores import open_originals
    from zoo_core.spec.registry import registry

    small = np.load(Path(os.environ["ZOO_CACHE"]) / "small.npy", mmap_mode="r")

    def read(number: int) -> bytes:
        file = io.BytesIO()
        Image.fromarray(small[number % len(small)]).save(file, "PPM")
        return file.getvalue()

    rows = np.arange(count)
    originals = Originals(
        names=[f"row {number}" for number in range(count)],
        read=read,
        key=["enlarged", count],
        labels=rows % 10,
        classes=[f"class {number}" for number in range(10)],
        splits={"train": rows[: count * 9 // 10], "test": rows[count * 9 // 10 :]},
    )
    entry = registry().readers.get("builtin/image_folder")
    options = {**entry.options, "image_size": SIZE, "channels": 3, "store": "packed"}
    return open_originals("enlarged", entry, options, originals, lambda line: None)


def small_images() -> np.ndarray:
    from zoo_core.data.datasets import open_dataset
    from zoo_core.io.errors import ZooError

    try:
        images: np.ndarray = open_dataset("cifar10", fetch=False).train.images
    except ZooError:
        images = np.random.default_rng(0).integers(0, 256, (2000, 32, 32, 3), np.uint8)
    return images


def train(data: Any, steps: int) -> None:
    from zoo_core.runs.run import new_run
    from zoo_core.spec.recipe import Recipe
    from zoo_core.spec.registry import registry
    from zoo_core.train.builder import begin_run, build_job
    from zoo_core.train.display import Display
    from zoo_core.train.runner import execute

    subset = min(1.0, steps * 128 / len(data.train))
    recipe = Recipe(epochs=1, batch_size=128, lr=1e-4, subset=subset, model={"hidden": [64, 64]})
    job = build_job(registry().models.get("mlp"), recipe, data, Display(quiet=True))
    runs = Path(os.environ["ZOO_CACHE"]) / "runs"
    shutil.rmtree(runs, ignore_errors=True)  # one that was killed; there are no figures of it
    with new_run(runs, "mlp", "enlarged") as run:
        execute(begin_run(job, run, recipe_name="", command=""))


def evaluate(data: Any) -> None:
    import zoo
    from zoo_core.spec.recipe import Recipe
    from zoo_core.use.evaluate import measure_model

    model = zoo.load(next((Path(os.environ["ZOO_CACHE"]) / "runs").glob("mlp-*")))
    measure_model(model.zoo.entry, model, model.zoo.preprocess, data, Recipe(), split="train")


def features(data: Any, count: int) -> None:
    from dataclasses import replace

    from torch import nn
    from zoo_frozen.torch.backbones import FrozenModel
    from zoo_frozen.torch.extract import Pass

    from zoo_core.data.preprocess import Preprocess
    from zoo_core.train.display import Display

    layers = nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    model = FrozenModel(nn.Sequential(*layers), 16, name="small", layer="last")
    data = replace(data, train=data.train.part(np.arange(min(count, len(data.train)))))
    work = Pass(model, "0" * 64, Preprocess.for_dataset(data), data, "train")
    assert len(work.features(lambda: model.backbone, Display(quiet=True)).array) <= count


class Watched:
    """The largest RssAnon of this process while it is entered."""

    def __enter__(self) -> Watched:
        self.most, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while True:
            lines = Path("/proc/self/status").read_text().splitlines()
            now = next(int(line.split()[1]) * 1024 for line in lines if "RssAnon" in line)
            self.most = max(self.most, now)
            if self._over.wait(0.02):
                return

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def work(options: argparse.Namespace) -> None:
    """One part, in a process of its own; JSON on stdout."""
    started = time.perf_counter()
    with Watched() as watched:
        data = enlarged(options.images)
        if options.part == "train":
            train(data, options.steps)
        elif options.part == "evaluate":
            evaluate(data)
        elif options.part == "features":
            features(data, options.features)
    print(json.dumps({"anon": watched.most, "seconds": time.perf_counter() - started}))


def hold(options: argparse.Namespace) -> None:
    """Map the pack, look at many images and say so; then, when both have, say what smaps says."""
    images = enlarged(options.images).train.images
    for start in range(0, min(len(images), LOOKED_AT), 256):
        images[start : start + 256].max()
    print("ready", flush=True)
    sys.stdin.readline()
    found, inside = {"Rss": 0, "Pss": 0, "Private_Dirty": 0}, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):
            inside = rest[-1:] == [str(images.path)]
        elif inside and name[:-1] in found:
            found[name[:-1]] += int(rest[0]) * 1024
    print(json.dumps(found), flush=True)
    sys.stdin.readline()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--features", type=int, default=5000)
    parser.add_argument("--folder", type=Path, help="where the pack is made, and kept")
    parser.add_argument("--part", choices=[*PARTS, "map"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        return hold(options) if options.part == "map" else work(options)
    if not Path("/proc/self/smaps").exists():
        return print("0 figures: this system has no /proc/self/smaps")
    with tempfile.TemporaryDirectory() as temporary:
        measure((options.folder or Path(temporary)).absolute(), options)


def measure(folder: Path, options: argparse.Namespace) -> None:
    """Every part in a process of its own; what was measured is kept in figures.json."""
    folder.mkdir(parents=True, exist_ok=True)
    room = options.images * SIZE * SIZE * 3
    kept = sum(512 * path.stat().st_blocks for path in folder.glob("packs/*"))
    if (free := shutil.disk_usage(folder).free - SPARE) < room - kept:
        most = (free + kept) // (SIZE * SIZE * 3)
        sys.exit(f"{folder} has no room for {room / 1e9:.1f} GB: --images {max(0, most)} would fit")
    if not (folder / "small.npy").exists():
        images = small_images()
        with (folder / "small.tmp").open("wb") as file:
            np.save(file, images)
        (folder / "small.tmp").replace(folder / "small.npy")
    how = [f"--{name}={getattr(options, name)}" for name in ("images", "steps", "features")]
    again, env = [sys.executable, __file__, *how, "--part"], os.environ | {"ZOO_CACHE": str(folder)}
    print(f"{options.images:,} images, {room / 1e9:.1f} GB of pixels")
    figures = folder / "figures.json"
    known = json.loads(figures.read_text()) if figures.exists() else {}
    done = known.setdefault(" ".join(how), {})
    for part in PARTS:
        if part not in done:
            done[part] = json.loads(subprocess.check_output([*again, part], text=True, env=env))
            figures.write_text(json.dumps(known))
        seconds, anon = done[part]["seconds"], done[part]["anon"] / 1e9
        print(f"  {part:10s}RssAnon {anon:6.2f} GB{seconds:8.1f} s", flush=True)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([*again, "map"], env=env, **pipes) for _ in range(2)]
    for process in both:
        process.stdout.readline()  # type: ignore[union-attr]
    for process in both:
        process.stdin.write("\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    lines = [process.stdout.readline() for process in both]  # type: ignore[union-attr]
    for process in both:
        process.communicate("\n")
    for number, line in enumerate(lines, 1):
        kinds = (f"{name} {value / 1e9:.2f} GB" for name, value in json.loads(line).items())
        print(f"  process {number} of 2 that map the pack: {', '.join(kinds)}")


if __name__ == "__main__":
    main()
