"""Batches a second of Zoo's loader against torchvision's usual way, measured in one run.

    python benchmarks/loader.py [--pictures 50000] [--rounds 5] [--stretch 40]

The usual way is a Dataset that makes a PIL image of each array, ToTensor, Normalize and a
DataLoader with 0 and with 2 workers; ratios are against the better of the two. Also printed: the
speed of other words as a share of that of flip and crop, the share of an MLP's training epoch that
goes into data, and the peak memory of an epoch. CIFAR-10 is used if it is in the cache, random
images of the same shape otherwise: the times are the same.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from zoo_core.data.dataset import Split
from zoo_core.data.loader import Loader
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.errors import ZooError

BATCH = 128
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
PREPROCESS = Preprocess(32, 3, MEAN, STD)
WORDS = ("flip", "crop:4")
OTHERS = (
    ("erase:0.25",), ("jitter:0.4",), ("jitter:0.4,hue=0.1",), ("trivial",), ("rand:1,9",),
    ("rand:2,9",), (*WORDS, "trivial"), ("affine:rotate=10",),
)  # fmt: skip
USUAL_IMAGES = 10_000  # enough for the slow side; the rate does not depend on it


def training_images(count: int) -> Split:
    from zoo_core.data.datasets import open_dataset

    try:
        train = open_dataset("cifar10", fetch=False).train
        return Split(train.images[:count], train.labels[:count])  # type: ignore[index]
    except ZooError:
        rng = np.random.default_rng(0)
        images = rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
        return Split(images, rng.integers(0, 10, count))


def usual(split: Split, augmented: bool, workers: int) -> Iterator[int]:
    """Batch sizes of one epoch, the way a tutorial loads images."""
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
    from torchvision import transforms

    steps = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    if augmented:
        random = [transforms.RandomHorizontalFlip(), transforms.RandomCrop(32, padding=4)]
        steps = [*random, *steps]
    transform = transforms.Compose(steps)
    assert split.labels is not None
    labels = split.labels.tolist()

    class Pictures(Dataset):
        def __len__(self) -> int:
            return min(USUAL_IMAGES, len(split))

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            return transform(Image.fromarray(split.images[index])), labels[index]

    for images, _ in DataLoader(Pictures(), BATCH, shuffle=True, num_workers=workers):
        yield len(images)


def ours(split: Split, augment: tuple[str, ...], epoch: int, **options: object) -> Iterator[int]:
    loader = Loader(split, batch_size=BATCH, preprocess=PREPROCESS, augment=augment, **options)
    for batch in loader.epoch(epoch):
        yield len(batch)


def rate(epoch: Callable[[], Iterator[int]], stretch: int) -> float:
    """Images a second in the quickest stretch of an epoch: what else runs here counts least."""
    times, counts = [], []
    for count in epoch():
        times.append(time.perf_counter())
        counts.append(count)
    # A stretch is ten times what workers hold ready, so that a burst of theirs says little.
    spans = range(stretch, len(times))
    return max(
        sum(counts[i - stretch + 1 : i + 1]) / (times[i] - times[i - stretch]) for i in spans
    )


def compare(split: Split, augment: tuple[str, ...], rounds: int, stretch: int) -> None:
    sides: dict[str, Callable[[], Iterator[int]]] = {
        "usual, 0 workers": lambda: usual(split, bool(augment), 0),
        "usual, 2 workers": lambda: usual(split, bool(augment), 2),
        "zoo": lambda: ours(split, augment, 0),
        "zoo, channels last": lambda: ours(split, augment, 0, channels_last=True),
        "zoo, numpy": lambda: ours(split, augment, 0, backend="numpy"),
    }
    best = dict.fromkeys(sides, 0.0)
    for _ in range(rounds):  # in turns, so that a busy moment meets all of them
        for name, epoch in sides.items():
            best[name] = max(best[name], rate(epoch, stretch))
    reference = max(best["usual, 0 workers"], best["usual, 2 workers"])
    print(f"\n{' + '.join(augment) or 'plain'}: images a second, best of {rounds} epochs")
    for name, value in best.items():
        print(f"  {name:20s}{value:12,.0f}{value / reference:8.1f}x")


def compare_words(split: Split, rounds: int, stretch: int) -> None:
    """How quick other words are, as shares of the speed of flip and crop."""
    backends = ("numpy", "torch")
    sides = [(words, backend) for words in (WORDS, *OTHERS) for backend in backends]
    best = dict.fromkeys(sides, 0.0)
    for _ in range(rounds):
        for words, backend in sides:
            quick = rate(lambda w=words, b=backend: ours(split, w, 0, backend=b), stretch)
            best[words, backend] = max(best[words, backend], quick)
    print(f"\nspeed of words as a share of that of {' + '.join(WORDS)}, best of {rounds} epochs")
    print(f"  {'':28s}{'zoo, numpy':>12s}{'zoo':>12s}")
    for words in OTHERS:
        shares = (best[words, backend] / best[WORDS, backend] for backend in backends)
        print(f"  {' + '.join(words):28s}{''.join(f'{share:12.2f}' for share in shares)}")


def share_of_training(split: Split, augment: tuple[str, ...]) -> float:
    """Of training the mlp, how much is data; the most of three stretches of 100 batches.

    The most, because waiting for a busy machine is counted as training and makes data look small.
    """
    torch.manual_seed(0)
    sizes = (3072, 512, 256, 10)
    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    model = nn.Sequential(nn.Flatten(), layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    optimizer = torch.optim.Adam(model.parameters())
    loader = Loader(split, batch_size=BATCH, preprocess=PREPROCESS, augment=augment)
    shares = []
    for epoch in range(3):
        data = 0.0
        start = time.perf_counter()
        for number in range(min(100, len(loader))):
            before = time.perf_counter()
            batch = loader.batch(epoch, number)
            data += time.perf_counter() - before
            loss = nn.functional.cross_entropy(model(batch.images), batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        shares.append(data / (time.perf_counter() - start))
    return max(shares)


def peak_memory(count: int) -> None:
    """In a process of its own: what an epoch adds to the uint8 data, as JSON on stdout."""

    def peak() -> int:  # getrusage would also count what the parent process had
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if "VmHWM" in line)

    warm = Split(np.zeros((2 * BATCH, 32, 32, 3), np.uint8), np.zeros(2 * BATCH, np.int64))
    for _ in ours(warm, WORDS, 0):
        pass
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the imports
    before = peak()
    images = np.ones((count, 32, 32, 3), np.uint8)
    for _ in ours(Split(images, np.zeros(count, np.int64)), WORDS, 0):
        pass
    print(json.dumps({"grown": peak() - before, "data": images.nbytes}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pictures", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5, help="epochs of each, the best counts")
    parser.add_argument("--stretch", type=int, default=40, help="batches that are timed together")
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        return peak_memory(options.pictures)
    split = training_images(options.pictures)
    print(f"{len(split):,} images, batch {BATCH}, {torch.get_num_threads()} threads")
    for augment in ((), WORDS):
        compare(split, augment, options.rounds, options.stretch)
    compare_words(split, options.rounds, options.stretch)
    print("\nshare of an mlp training epoch (3072-512-256-10, Adam) that goes into data")
    for augment in ((), WORDS):
        name = " + ".join(augment) or "plain"
        print(f"  {name:20s}{share_of_training(split, augment):12.1%}")
    if sys.platform != "linux":
        return
    again = [sys.executable, __file__, "--memory", "--pictures", str(options.pictures)]
    memory = json.loads(subprocess.check_output(again, text=True))
    batch = BATCH * 32 * 32 * 3 * 4
    ratio = (memory["grown"] - 2 * batch) / memory["data"]
    print(f"\npeak memory of an epoch, less two batches: {ratio:.2f}x the uint8 images")


if __name__ == "__main__":
    main()
