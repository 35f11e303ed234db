"""A search and a training on cached features, in units of one forward pass, in one run.

    python benchmarks/frozen.py [--pictures 5000] [--trials 20]

A part of CIFAR-10, EfficientNet-Lite0 at 224 pixels with its real weights. First the speed of the
bare network on preprocessed batches in memory, just as the pass runs it (batch norms folded,
channels last, the same batch), and as one would write it down: that gives the seconds of one
forward pass over the pictures. Then everything from an empty cache: the pass, a search of 20 trials
as in the published experiment, the final training with a test after each epoch, the evaluation. The
naive way does the same with a forward pass over the pictures in every epoch of every trial; its
count follows from the epochs that were really trained. Asked for: at most 1.1 passes, and a pass at
80 % or more of the speed of the bare network.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from zoo_core.data import datasets
from zoo_core.data.arrays import Dataset, Split
from zoo_core.features.store import kept
from zoo_core.features.torch_extract import Extractor, batch_for
from zoo_core.models import trainer_of
from zoo_core.registry import registry
from zoo_core.train.memory import keep_freed_memory
from zoo_core.train.training import fit_to_data
from zoo_core.tune import tuning

MODEL = "efficientnet_lite0_finetune"
BARE_SECONDS = 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pictures", type=int, default=5000, help="of the training set")
    parser.add_argument("--trials", type=int, default=20)
    options = parser.parse_args()
    data = part_of(datasets.open_dataset("cifar10"), options.pictures)
    pictures = len(data.train) + len(data.test or ())
    print(f"{pictures} pictures, {torch.get_num_threads()} threads", flush=True)
    rates = bare_rates(data)
    for name, rate in rates.items():
        print(f"{name:32} {rate:6.1f} images/s of CPU", flush=True)
    bare = rates["bare, as the pass runs it"]

    with tempfile.TemporaryDirectory() as folder:
        os.environ["ZOO_CACHE"] = folder
        tuning.open_dataset = lambda *_, **__: data  # the part, not the whole
        started, before = time.perf_counter(), cpu()
        found = tuning.tune(
            MODEL, "cifar10", preset="paper", recipe="default", trials=options.trials, train=True,
            quiet=True, runs=Path(folder) / "runs",
        )  # fmt: skip
        wall, busy = time.perf_counter() - started, cpu() - before
        seconds = sum(progress.seconds for file in kept() if (progress := file.progress()))
    assert found.trained is not None
    epochs = sum(trial.epochs for trial in found.trials)
    search = epochs * round(len(data.train) * found.search.plan().recipe.subset)
    final = len(found.trained.run.metrics()) * pictures
    # The pass's share of the clock, taken as its share of the CPU: it is all that computes then.
    extraction = pictures / (seconds * busy / wall)
    print(f"{'the pass':32} {extraction:6.1f} images/s of CPU, {extraction / bare:.0%} of bare")
    print(f"{len(found.trials)} trials, {epochs} epochs, accuracy {found.trained.accuracy:.1%}")
    print(
        f"with the cache: {busy * bare / pictures:.2f} passes ({busy:.0f} s of CPU, {wall:.0f} s)"
    )
    print(f"naively: {(search + final + len(data.test or ())) / pictures:.1f} passes")


def part_of(data: Dataset, count: int) -> Dataset:
    """So many pictures for training, a fifth of that for the test; a dataset of its own."""
    assert data.test is not None and data.train.labels is not None and data.test.labels is not None
    train = Split(data.train.images[:count], data.train.labels[:count])
    test = Split(data.test.images[: count // 5], data.test.labels[: count // 5])
    return replace(data, train=train, test=test, digest=f"{data.digest} {count}")


def bare_rates(data: Dataset) -> dict[str, float]:
    """Images for each second of CPU; preprocessing is done before."""
    entry = registry().models.get(MODEL)
    trainer = trainer_of(entry)
    config, preprocess = fit_to_data(entry, entry.recipes["default"], data)
    config = trainer.complete(entry, config, print)  # type: ignore[attr-defined]
    cpu_device = torch.device("cpu")
    size = batch_for(cpu_device, preprocess.size)

    def measure(network: torch.nn.Module, batches: list[torch.Tensor]) -> float:
        with torch.inference_mode():
            network(batches[0])
            before, done = cpu(), 0
            while cpu() - before < BARE_SECONDS:
                network(batches[done % len(batches)])
                done += 1
            return done * len(batches[0]) / (cpu() - before)

    backbone = trainer._backbone(entry, config).make()  # type: ignore[attr-defined]
    extractor = Extractor(backbone, preprocess, cpu_device, "plain", size)
    images = data.train.images[: 8 * size]
    ready = [
        preprocess.batch(list(images[start : start + size]), channels_last=True)
        for start in range(0, len(images), size)
    ]
    rates = {}
    plain = preprocess.batch(list(np.asarray(images)))
    rates["bare, as written, batch 64"] = measure(backbone.eval(), [plain])
    keep_freed_memory()
    rates["bare, as the pass runs it"] = measure(extractor._network, ready)
    return rates


def cpu() -> float:
    return sum(os.times()[:4])


if __name__ == "__main__":
    main()
