"""Photos from a pack and from their files against torchvision's usual way, measured in one run.

    python benchmarks/photos.py [--small 3000] [--large 32] [--rounds 4] [--seconds 2]

The usual way is ImageFolder, RandomResizedCrop(224), flip, ToTensor, Normalize and a DataLoader
with 0 and with 2 workers; ratios are against the better of the two. Ours are float batches of the
same size with `resized_crop:224` and `flip`, from a pack, and from files that are decoded each
time. Files are JPEG, of 500 x 375 pixels and of 12 megapixels, made for the benchmark. Also
measured: packing as a share of decoding and resizing alone, on all cores; how far stored pixels are
from Pillow's antialiased bilinear resize of the whole image; and images of 32 pixels in memory
against the loader of an earlier revision, where this is a clone that has it. Of each the best of
several rounds counts. On two idle cores it takes about five minutes.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from zoo_core.data.dataset import Dataset
from zoo_core.data.datasets import open_dataset
from zoo_core.data.images import Form, fit_image, read_image
from zoo_core.data.loader import Loader
from zoo_core.data.preprocess import Preprocess

SIZE, STORED = 224, 256
SHAPES = {"small": (500, 375), "large": (4000, 3000)}
BATCH = {"small": 64, "large": 16}
DIFFERENT = {"small": 20, "large": 4}  # images; the other files are copies of them
AUGMENT = ("resized_crop:224", "flip")
WORKERS = (0, 2)
AHEAD = 5  # batches that workers, or our threads, may hold ready when the clock starts
CORES = os.cpu_count() or 1
BEFORE = "42b68ef~1"  # the last one whose images were all in memory
# What is measured of 32-pixel data, in a process of its own, as both revisions understand it.
IN_MEMORY = """
import sys, time
import numpy as np, torch
from zoo_core.data.dataset import Split
from zoo_core.data.loader import Loader
from zoo_core.data.preprocess import Preprocess
torch.set_num_threads(1)
rng = np.random.default_rng(0)
split = Split(rng.integers(0, 256, (20_000, 32, 32, 3), np.uint8), rng.integers(0, 10, 20_000))
how = {"preprocess": Preprocess(32, 3, (0.5,) * 3, (0.25,) * 3), "augment": ("flip", "crop:4")}
loader, best = Loader(split, batch_size=128, **how), 0.0
for epoch in range(int(sys.argv[1])):
    began = time.perf_counter()
    for batch in loader.epoch(epoch):
        pass
    best = max(best, len(split) / (time.perf_counter() - began))
print(best)
"""

Ratios = list[tuple[str, str, float]]  # what, what is asked, what was found


def make_photos(folder: Path, name: str, count: int) -> Path:
    """JPEG files with as much detail as photos have: about 1.5 bits for each pixel."""
    rng, (width, height) = np.random.default_rng(0), SHAPES[name]
    for number in range(count):
        path = folder / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        if number < DIFFERENT[name]:
            coarse = rng.integers(0, 256, (height // 25, width // 25, 3), np.uint8)
            image = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
            noisy = image + 6 * rng.standard_normal((height, width, 3), np.float32)
            Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=85)
        else:
            first = folder / f"class{number % 2}" / f"{number % DIFFERENT[name]}.jpg"
            path.write_bytes(first.read_bytes())
    return folder


def usual(folder: Path, batch: int, workers: int) -> Iterator[int]:
    """Batches without end, so that workers are started once."""
    from torch.utils.data import DataLoader, RandomSampler
    from torchvision import datasets, transforms

    steps = [
        transforms.RandomResizedCrop(SIZE),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.5,) * 3, (0.5,) * 3),
    ]
    data = datasets.ImageFolder(str(folder), transforms.Compose(steps))
    endless = RandomSampler(data, replacement=True, num_samples=1 << 30)
    for images, _ in DataLoader(data, batch, sampler=endless, num_workers=workers):
        yield len(images)


def opened(folder: Path, store: str) -> Dataset:
    options = {"image_size": STORED, "channels": 3, "test_fraction": 0, "store": store}
    return open_dataset(str(folder), options, report=lambda line: None)


def ours(folder: Path, batch: int, store: str) -> Iterator[int]:
    data = opened(folder, store)
    preprocess = Preprocess.for_dataset(data, {"size": SIZE})
    often = np.tile(np.arange(len(data.train)), 1 + 200_000 // len(data.train))
    loader = Loader(
        data.train, batch_size=batch, preprocess=preprocess, augment=AUGMENT, indices=often
    )
    for made in loader.epoch(0):
        yield len(made)


def rate(batches: Iterator[int], warm: int, seconds: float) -> tuple[float, float]:
    """Images a second, after some batches, and how many in a second of this process's time."""
    for _ in range(warm):
        next(batches)
    began, processed, images = time.perf_counter(), time.process_time(), 0
    while not images or time.perf_counter() - began < seconds:
        images += next(batches)
    elapsed, used = time.perf_counter() - began, time.process_time() - processed
    batches.close()  # type: ignore[attr-defined]
    return images / elapsed, images / used


def compare(name: str, folder: Path, stores: dict[str, str], options: argparse.Namespace) -> Ratios:
    """Each store against the better number of workers; stores: what is asked of each."""
    batch, best = BATCH[name], dict[str, tuple[float, float]]()

    def note(side: str, found: tuple[float, float]) -> None:
        kept = best.get(side, (0.0, 0.0))
        best[side] = max(kept[0], found[0]), max(kept[1], found[1])

    for _ in range(options.rounds):  # in turns, so that a busy moment meets all of them
        for workers in WORKERS:
            made = usual(folder, batch, workers)
            # What workers hold ready must be gone before the clock stops to be right.
            times = (AHEAD, 2) if workers else (1, 1)
            note(f"usual, {workers} workers", rate(made, times[0], times[1] * options.seconds))
        for store in stores:
            note(f"zoo, {store}", rate(ours(folder, batch, store), AHEAD, options.seconds))
    reference = max(best[f"usual, {workers} workers"][0] for workers in WORKERS)
    width, height = SHAPES[name]
    print(f"\n{width} x {height} pixels: images a second, best of {options.rounds}")
    for side, (value, alone) in best.items():
        print(f"  {side:20s}{value:10,.1f}{value / reference:8.2f}x", end="")
        # What workers use is not counted here; others on the machine disturb it less.
        times = alone / best["usual, 0 workers"][1]
        print("" if "2 workers" in side else f"{times:10.2f}x by processor time", flush=True)
    return [
        (f"{store}, {width} x {height}", asked, best[f"zoo, {store}"][0] / reference)
        for store, asked in stores.items()
    ]


def packing(name: str, folder: Path, rounds: int) -> Ratios:
    """Packing against decoding and resizing alone, both from files and with all cores."""
    files = sorted(folder.rglob("*.jpg"))
    best = {"decode and resize": 0.0, "packing": 0.0}
    used = dict.fromkeys(best, float("inf"))  # seconds of processors, which others disturb less

    def decode() -> None:
        with ThreadPoolExecutor(CORES) as pool:
            for _ in pool.map(lambda path: read_image(path, Form(STORED, 3)), files):
                pass

    before = os.environ["ZOO_CACHE"]
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=folder.parent) as cache:
            os.environ["ZOO_CACHE"] = cache
            works = {"decode and resize": decode, "packing": lambda: opened(folder, "packed")}
            for side, work in works.items():
                started, processed = time.perf_counter(), time.process_time()
                work()
                best[side] = max(best[side], len(files) / (time.perf_counter() - started))
                used[side] = min(used[side], time.process_time() - processed)
    os.environ["ZOO_CACHE"] = before
    share = best["packing"] / best["decode and resize"]
    print(f"  packing {len(files):,} files: {best['packing']:,.0f} images a second,")
    costs = used["decode and resize"] / used["packing"]
    alone = f"{share:.0%} of decoding and resizing alone"
    print(f"  {alone}; {costs:.0%} by processor time", flush=True)
    return [("packing, {} x {}".format(*SHAPES[name]), "0.80", share)]


def pixels(folder: Path) -> None:
    """What a scaled decode changes: the mean distance from a resize of the whole image."""
    found = []
    for path in sorted(folder.rglob("*.jpg"))[:4]:
        stored = read_image(path, Form(STORED, 3)).astype(int)
        whole = Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
        whole.load()  # in full, so that no draft can be made
        found.append(np.abs(stored - fit_image(whole, Form(STORED, 3))).mean())
    print(f"  stored pixels differ by {np.mean(found):.2f} levels from a resize of the whole image")


def in_memory(folder: Path, revision: str, rounds: int) -> Ratios:
    """32-pixel data with this loader and with that of another revision, in turns."""
    here = Path(__file__).parents[1]
    asked = ["git", "-C", str(here), "archive", revision, "zoo", "zoo_core"]
    archive = subprocess.run(asked, capture_output=True, check=False)
    if archive.returncode:
        print(f"\n32 pixels: {archive.stderr.decode().strip()}")
        return []
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder / "before", filter="data")
    best = dict.fromkeys((folder / "before", here), 0.0)
    for _ in range(rounds):
        for code in best:
            command = [sys.executable, "-c", IN_MEMORY, str(rounds)]
            env = {**os.environ, "PYTHONPATH": str(code)}
            found = subprocess.check_output(command, text=True, env=env, cwd=folder)
            best[code] = max(best[code], float(found))
    print(f"\n32 x 32 pixels in memory: images a second, best of {rounds}")
    for code, value in best.items():
        print(f"  {'now' if code == here else revision:20s}{value:10,.0f}", flush=True)
    return [(f"32 x 32, against {revision}", "1.00", best[here] / best[folder / "before"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--small", type=int, default=3000, help="files of 500 x 375 pixels")
    parser.add_argument("--large", type=int, default=32, help="files of 12 megapixels; 0: none")
    parser.add_argument("--rounds", type=int, default=4, help="of each, the best counts")
    parser.add_argument("--seconds", type=float, default=2.0, help="that a round takes")
    parser.add_argument("--before", default=BEFORE, help="the revision to compare with; '': none")
    options = parser.parse_args()
    torch.set_num_threads(1)  # as in the workers of a DataLoader; more wait for each other
    began, ratios = time.perf_counter(), Ratios()
    asked = {"small": {"packed": "5, goal 8", "direct": "1.1"}, "large": {"direct": "1.5"}}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ZOO_CACHE"] = str(Path(folder) / "cache")
        for name, stores in asked.items():
            if not (count := getattr(options, name)):
                continue
            files = make_photos(Path(folder) / name, name, count)
            ratios += compare(name, files, stores, options)
            pixels(files)
            ratios += packing(name, files, options.rounds)
        if options.before:
            ratios += in_memory(Path(folder), options.before, options.rounds)
    print(f"\nAll ratios, after {time.perf_counter() - began:.0f} s")
    for what, wanted, ratio in ratios:
        print(f"  {what:32s}{ratio:8.2f}   asked: {wanted}")


if __name__ == "__main__":
    main()
