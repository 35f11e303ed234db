"""Photos from a pack and from their files against torchvision's usual way, measured in one run.

    python benchmarks/photos.py [--small 1500] [--large 60] [--rounds 5] [--seconds 2]

The usual way is ImageFolder, RandomResizedCrop(224), flip, ToTensor, Normalize and a DataLoader
with 0 and with 2 workers; ratios are against the better of the two. Ours are float batches of the
same size with `resized_crop:224` and `flip`, from a pack, and from files that are decoded each
time. Files are JPEG, of 500 x 375 pixels and of 12 megapixels, made for the benchmark. Also
printed: the speed of packing as a share of decoding and resizing alone, on all cores; and how far
stored pixels are from Pillow's antialiased bilinear resize of the whole image.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator
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

SIZE, STORED, BATCH = 224, 256, 64
WARM = 5  # batches before the clock starts
SHAPES = {"small": (500, 375), "large": (4000, 3000)}
AUGMENT = ("resized_crop:224", "flip")
CORES = os.cpu_count() or 1


def make_photos(folder: Path, shape: tuple[int, int], count: int) -> Path:
    """JPEG files with as much detail as photos have: about 1.5 bits for each pixel."""
    rng = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        if number < 20:
            coarse = rng.integers(0, 256, (shape[1] // 25, shape[0] // 25, 3), np.uint8)
            image = np.asarray(Image.fromarray(coarse).resize(shape, Image.Resampling.BICUBIC))
            noisy = image + rng.normal(0, 6, image.shape)
            Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=85)
        else:  # the same twenty over and over, each time as a file of its own
            path.write_bytes((folder / f"class{number % 2}" / f"{number % 20}.jpg").read_bytes())
    return folder


def usual(folder: Path, workers: int) -> Iterator[int]:
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    steps = [
        transforms.RandomResizedCrop(SIZE),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.5,) * 3, (0.5,) * 3),
    ]
    data = datasets.ImageFolder(str(folder), transforms.Compose(steps))
    while True:  # as many epochs as the clock wants
        for images, _ in DataLoader(data, BATCH, shuffle=True, num_workers=workers):
            yield len(images)


def opened(folder: Path, store: str) -> Dataset:
    options = {"image_size": STORED, "channels": 3, "test_fraction": 0, "store": store}
    return open_dataset(str(folder), options, report=lambda line: None)


def ours(folder: Path, store: str) -> Iterator[int]:
    data = opened(folder, store)
    preprocess = Preprocess.for_dataset(data, {"size": SIZE})
    loader = Loader(data.train, batch_size=BATCH, preprocess=preprocess, augment=AUGMENT)
    while True:
        for batch in loader.epoch(0):
            yield len(batch)


def rate(batches: Callable[[], Iterator[int]], seconds: float) -> tuple[float, float]:
    """Images a second, and milliseconds of processors for an image, which others disturb less."""
    made, counts = batches(), []
    for number, count in enumerate(made):
        if number <= WARM:  # workers start, and hold a few batches ready
            began, processed = time.perf_counter(), time.process_time()
            continue
        counts.append(count)
        if time.perf_counter() - began > seconds and number > seconds * WARM:
            break
    elapsed, used = time.perf_counter() - began, time.process_time() - processed
    made.close()  # type: ignore[attr-defined]
    return sum(counts) / elapsed, 1000 * used / sum(counts)


def compare(name: str, folder: Path, stores: tuple[str, ...], rounds: int, seconds: float) -> None:
    sides: dict[str, Callable[[], Iterator[int]]] = {
        "usual, 0 workers": lambda: usual(folder, 0),
        "usual, 2 workers": lambda: usual(folder, 2),
        **{f"zoo, {store}": lambda store=store: ours(folder, store) for store in stores},
    }
    best, least = dict.fromkeys(sides, 0.0), dict.fromkeys(sides, float("inf"))
    for _ in range(rounds):  # in turns, so that a busy moment meets all of them
        for side, batches in sides.items():
            quick, used = rate(batches, seconds)
            best[side], least[side] = max(best[side], quick), min(least[side], used)
    reference = max(best["usual, 0 workers"], best["usual, 2 workers"])
    width, height = SHAPES[name]
    print(f"\n{width} x {height} pixels: images a second, and processor time, best of {rounds}")
    for side, value in best.items():
        print(f"  {side:20s}{value:10,.1f}{value / reference:8.2f}x", end="")
        times = least["usual, 0 workers"] / least[side]
        print("" if "2 workers" in side else f"{least[side]:10.2f} ms{times:8.2f}x")


def packing(folder: Path, rounds: int) -> None:
    """Packing against decoding and resizing alone, both from files and with all cores."""
    files = sorted(folder.rglob("*.jpg"))
    best = {"decode and resize": 0.0, "packing": 0.0}
    used = dict.fromkeys(best, float("inf"))

    def decode() -> None:
        with ThreadPoolExecutor(CORES) as pool:
            for _ in pool.map(lambda path: read_image(path, Form(STORED, 3)), files):
                pass

    def pack() -> None:
        with tempfile.TemporaryDirectory(dir=folder.parent) as cache:
            os.environ["ZOO_CACHE"] = cache
            opened(folder, "packed")

    before = os.environ.get("ZOO_CACHE", "")
    for _ in range(rounds):
        for side, work in (("decode and resize", decode), ("packing", pack)):
            started, processed = time.perf_counter(), time.process_time()
            work()
            best[side] = max(best[side], len(files) / (time.perf_counter() - started))
            used[side] = min(used[side], time.process_time() - processed)
    os.environ["ZOO_CACHE"] = before
    share, costs = best["packing"] / best["decode and resize"], used["decode and resize"]
    print(f"  packing {len(files):,} files: {best['packing']:,.0f} images a second, ", end="")
    print(f"{share:.0%} of decoding and resizing alone", end="; ")
    print(f"{costs / used['packing']:.0%} by processor time")


def pixels(folder: Path) -> None:
    """What a scaled decode changes: the mean distance from a resize of the whole image."""
    found = []
    for path in sorted(folder.rglob("*.jpg"))[:20]:
        stored = read_image(path, Form(STORED, 3)).astype(int)
        whole = Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
        whole.load()  # in full, so that no draft can be made
        found.append(np.abs(stored - fit_image(whole, Form(STORED, 3))).mean())
    print(f"  stored pixels differ by {np.mean(found):.2f} levels from a resize of the whole image")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--small", type=int, default=1500, help="files of 500 x 375 pixels")
    parser.add_argument("--large", type=int, default=60, help="files of 12 megapixels; 0: none")
    parser.add_argument("--rounds", type=int, default=5, help="of each, the best counts")
    parser.add_argument("--seconds", type=float, default=2.0, help="that a round takes")
    options = parser.parse_args()
    torch.set_num_threads(1)  # as in the workers of a DataLoader; more wait for each other
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ZOO_CACHE"] = str(Path(folder) / "cache")
        for name, stores in (("small", ("packed", "direct")), ("large", ("direct",))):
            if not (count := getattr(options, name)):
                continue
            files = make_photos(Path(folder) / name, SHAPES[name], count)
            compare(name, files, stores, options.rounds, options.seconds)
            pixels(files)
            packing(files, options.rounds)


if __name__ == "__main__":
    main()
