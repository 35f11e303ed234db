"""Training steps in bfloat16 against float32, in one run.

    python benchmarks/precision.py [MODEL...] [--batch 64] [--repeat 4]

Each model takes whole steps of its task (forward, backward, optimiser) on one random batch, as its
default recipe says but for the precision. The first line says whether the processor has
instructions for bfloat16 (Linux shows them as avx512_bf16 or amx_bf16 in /proc/cpuinfo).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch import Tensor, nn

import zoo
from zoo_core.data.loader import Batch
from zoo_core.spec.entries import ModelEntry
from zoo_core.torch.learner import quick_bfloat16, wants_channels_last
from zoo_core.torch.task import find_task

MODELS = "cnn", "resnet18", "nano_vit_p4", "patch_lstm", "cvae_classifier"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=4, help="best of so many steps of each")
    options = parser.parse_args()
    torch.set_flush_denormal(True)
    print(
        f"batch {options.batch}, {torch.get_num_threads()} thread(s), processor "
        f"{'with' if quick_bfloat16() else 'without'} instructions for bfloat16"
    )
    print(f"{'images/s':20} {'float32':>8} {'bfloat16':>9}")
    for name in options.models:
        exact, rounded = rates(zoo.info(name), options.batch, options.repeat)
        print(f"{name:20} {exact:8.0f} {rounded:9.0f} {rounded / exact:8.2f}x", flush=True)


def rates(entry: ModelEntry, size: int, repeat: int) -> tuple[float, float]:
    torch.manual_seed(0)
    recipe = entry.recipes["default"]
    model: nn.Module = zoo.create(entry.name, **recipe.model).train()
    images = torch.rand(size, entry.in_channels, entry.image_size, entry.image_size)
    if wants_channels_last(model):
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        images = images.contiguous(memory_format=torch.channels_last)
    batch = Batch(images, torch.arange(size) % 10, np.arange(size))
    targets = zoo.Targets("class", tuple("abcdefghij"))
    task = find_task(entry, targets)(model, recipe, targets)
    optimizers = {name: task.make_optimizer(name) for name in task.optimizers}

    def update(name: str, loss: Tensor) -> None:
        loss.backward()
        optimizers[name].step()
        optimizers[name].zero_grad()

    best = {torch.float32: float("inf"), torch.bfloat16: float("inf")}
    for round_ in range(repeat + 1):  # the first is for warming up
        for dtype in best:
            started = time.perf_counter()
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
                task.step(batch, update)
            if round_:
                best[dtype] = min(best[dtype], time.perf_counter() - started)
    exact, rounded = (size / seconds for seconds in best.values())
    return exact, rounded


if __name__ == "__main__":
    main()
