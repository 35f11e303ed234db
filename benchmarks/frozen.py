"""A pass, a search on its features and fine-tuning, in units of the bare network, in one run.

    python benchmarks/frozen.py [--pictures 10000] [--trials 20] [--seconds 15] [--finetune 256]
                                [--model NAME] [--dataset NAME] [--set NAME=VALUE]...

A part of CIFAR-10, EfficientNet-Lite0 at 224 pixels with its real weights. The speed of the bare
network on preprocessed batches in memory, just as the pass runs it (batch norms folded, channels
last, the same batch and precision), and as one would write it down. In turns with that the pass,
from an empty cache; the best of each counts. After it a search of 20 trials, the final training
with a test after each epoch, the evaluation and the reports, as `zoo tune --trials 20 --train`
does. The naive way does the same with a forward pass over the images in every epoch of every trial;
its count follows from the epochs that were really trained. Between pass and search epochs of
fine-tuning with the recipe `finetune`, as a training does them, in turns with a plain torch loop
over the same batches, which it has ready in memory: same threads, layout, precision, optimiser and
clipping. Asked for: at most 1.1 passes, a pass at 95 % or more of the speed of the bare network,
fine-tuning at 95 % or more of the plain
loop. --trials 0 leaves the search out, --finetune 0 the fine-tuning.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import zoo_core.torch  # noqa: F401  # before torch: idle threads wait as in every command

# isort: split
import torch
from zoo_frozen.torch import finetune
from zoo_frozen.torch.backbones import FrozenModel
from zoo_frozen.torch.extract import Extractor, batch_for
from zoo_tune import tuning

import zoo
from zoo_core.data import datasets
from zoo_core.data.dataset import Dataset, Split
from zoo_core.io.process import keep_freed_memory
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import registry
from zoo_core.spec.settings import override, parse_settings
from zoo_core.train.builder import build_job, fit_to_data
from zoo_core.train.display import open_display
from zoo_core.train.job import trainer_of
from zoo_core.train.loop import Loop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pictures", type=int, default=10_000, help="of the training set")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=15, help="for the speed of the network")
    parser.add_argument("--finetune", type=int, default=256, help="images of an epoch")
    parser.add_argument("--rounds", type=int, default=3, help="of everything; the best counts")
    parser.add_argument("--model", default="efficientnet_lite0_finetune")
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--set", action="append", default=[], help="a setting, as of zoo train")
    options = parser.parse_args()
    entry = registry().models.get(options.model)
    settings = parse_settings(options.set, entry)
    recipe = override(entry.recipes["default"], settings)
    data = part_of(datasets.open_dataset(options.dataset), options.pictures)
    pictures = len(data.train) + len(data.test or ())
    print(f"{pictures} images, {torch.get_num_threads()} threads", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ZOO_CACHE"] = folder
        rates, passes = dict[str, np.ndarray](), []
        for number in range(options.rounds):
            os.environ["ZOO_CACHE"] = str(Path(folder) / str(number))  # empty
            for name, rate in bare_rates(entry, recipe, data, options.seconds).items():
                rates[name] = np.maximum(rates.get(name, 0), rate)
            before = spent()
            compute(entry, recipe, data)
            passes.append(spent() - before)
        pass_seconds = np.min(passes, axis=0)
        bare, rate = rates["bare, as the pass runs it"], pictures / pass_seconds
        for name, given in {**rates, "the pass": rate}.items():
            print(f"{name:32} {given[0]:6.1f} images/s of CPU, {given[1]:6.1f} in all")
        of_cpu, in_all = rate / bare
        print(f"{'':32} {of_cpu:.0%} of bare in CPU time, {in_all:.0%} in all", flush=True)
        if options.finetune:
            finetuning(entry, settings, part_of(data, options.finetune), options.rounds)
        if not options.trials:
            return
        tuning.open_data = lambda _, recipe, *__: (data, recipe)  # the part, not the whole
        before = spent()
        found = zoo.tune(
            entry.name, options.dataset, settings=settings, trials=options.trials, train=True,
            quiet=True, runs=Path(folder) / "runs",
        )  # fmt: skip
        rest_seconds = (spent() - before)[0]
        assert found.trained is not None
        epochs = sum(trial.epochs for trial in found.trials)
        search = epochs * round(len(data.train) * found.search.plan().recipe.subset)
        final = len(found.trained.run.metrics()) * pictures
    print(f"{len(found.trials)} trials, {epochs} epochs, accuracy {found.trained.accuracy:.1%}")
    once = pass_seconds[0]
    whole = once + rest_seconds
    print(
        f"with the cache: {whole / once:.2f} passes, {whole * bare[0] / pictures:.2f} of the "
        f"bare network ({rest_seconds:.0f} s of CPU besides the pass)"
    )
    print(f"naively: {(search + final + len(data.test or ())) / pictures:.1f} passes")


def compute(entry: ModelEntry, recipe: Recipe, data: Dataset) -> None:
    """The pass alone, from an empty cache."""
    job = build_job(entry, recipe, data, open_display(True), device="cpu")
    job.trainer.prepare(job)


def part_of(data: Dataset, count: int) -> Dataset:
    """So many images for training, a fifth of that for the test; a dataset of its own."""
    assert data.test is not None and data.train.labels is not None and data.test.labels is not None
    train = Split(data.train.images[:count], data.train.labels[:count])
    test = Split(data.test.images[: count // 5], data.test.labels[: count // 5])
    return replace(data, train=train, test=test, digest=f"{data.digest} {count}")


def bare_rates(
    entry: ModelEntry, recipe: Recipe, data: Dataset, seconds: float
) -> dict[str, np.ndarray]:
    """Images for each second, as `spent` counts them; preprocessing is done before."""
    trainer = trainer_of(entry)
    config, preprocess = fit_to_data(entry, recipe, data)
    config = trainer.complete(entry, config, print)  # type: ignore[attr-defined]
    cpu_device = torch.device("cpu")
    size = batch_for(cpu_device, preprocess.size)

    def measure(network: torch.nn.Module, batches: list[torch.Tensor]) -> np.ndarray:
        with torch.inference_mode(), extractor._cast():
            network(batches[0])
            before, done = spent(), 0
            while (spent() - before)[0] < seconds:
                network(batches[done % len(batches)])
                done += 1
            return done * len(batches[0]) / (spent() - before)

    backbone = trainer.untrained(entry, config).backbone  # type: ignore[attr-defined]
    extractor = Extractor(backbone, preprocess, cpu_device, "plain", size, recipe.precision)
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


def finetuning(entry: ModelEntry, settings: Mapping[str, Any], data: Dataset, rounds: int) -> None:
    """An epoch of the zoo and one of a plain loop, again and again; the best of each."""
    measured = {"epochs": 1, "evaluate_every": 0, "validation_fraction": 0.0}
    recipe = override(entry.recipes["finetune"], {**settings, **measured})
    data, how = replace(data, test=None), finetune.asked_for(recipe)
    job = build_job(entry, recipe, data, open_display(True), device="cpu")
    assert how is not None

    def model() -> FrozenModel:
        made = job.trainer.untrained(entry, job.config)  # type: ignore[attr-defined]
        assert isinstance(made, FrozenModel)
        finetune.unfreeze(made, how)
        return made

    learner = finetune.Finetuner(job, model())
    ready = list(job.training_loader(**learner.loading()).epoch(0))
    last = torch.channels_last if learner.channels_last else torch.contiguous_format
    plain = model().to(memory_format=last).train()  # type: ignore[call-overload]
    learned = [p for p in plain.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        learned, recipe.lr, weight_decay=recipe.weight_decay, fused=True
    )  # fmt: skip

    dtype = getattr(torch, recipe.precision)

    def loop() -> float:
        started = time.perf_counter()
        for batch in ready:
            with torch.autocast("cpu", dtype, dtype != torch.float32):
                loss = torch.nn.functional.cross_entropy(plain(batch.images), batch.labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(learned, recipe.clip_grad)
            optimizer.step()
            optimizer.zero_grad()
        return len(data.train) / (time.perf_counter() - started)

    def zoos() -> float:
        return Loop(learner, job).fit().images_per_second

    keep_freed_memory()
    found = [(loop(), zoos()) for _ in range(rounds + 1)][1:]  # the first is for warming up
    bare, ours = (max(rates) for rates in zip(*found, strict=True))
    print(f"{f'fine-tuning {how}, a plain loop':32} {bare:6.1f} images/s")
    print(f"{f'fine-tuning {how}':32} {ours:6.1f} images/s, {ours / bare:.0%} of that", flush=True)


def spent() -> np.ndarray:
    """Seconds of CPU, and seconds."""
    return np.array([sum(os.times()[:4]), time.perf_counter()])


if __name__ == "__main__":
    main()
