"""How long weights take to load, as ratios measured in one run.

    python benchmarks/load.py [--repeat 10] [--hidden 3400] [--entries 10000]

1. `zoo.load` of a local file of 45 MB and of cnn.cifar10, which copies the file and checks digest,
   header, names, shapes, dtypes and finiteness, against what one writes by hand: build the module,
   `safetensors.torch.load_file`, `load_state_dict`; once without any check, which should take at
   most 1.5 times as long on a processor with SHA instructions, once with the digest of the file.
2. What it consists of: the copy, the digest, both in two threads as the zoo does it, whether all
   numbers are finite, the module by hand and without memory.
3. `zoo list --weights` of a manifest with 10,000 entries, as a process: under half a second.

Each figure is the best of several, taken in turns, because machines are noisy.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import safetensors.torch
import torch

import zoo
from zoo_core.io.tensors import contents, to_bytes
from zoo_core.weights.manifest import Weights, write
from zoo_core.weights.references import obtain
from zoo_core.weights.verify import finite

OPTIONS = {"num_classes": 10, "in_channels": 3, "image_size": 32}
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeat", type=int, default=10)
    options.add_argument("--hidden", type=int, default=3400, help="units of the first layer")
    options.add_argument("--entries", type=int, default=10_000, help="of the manifest")
    chosen = options.parse_args()
    repeat = chosen.repeat
    OPTIONS["hidden"] = (chosen.hidden, 256)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ZOO_CACHE"] = f"{folder}/cache"
        path = Path(folder) / "model.safetensors"
        write_model(path)
        build = functools.partial(zoo.create, "mlp", **OPTIONS)
        measure(f"a file of {path.stat().st_size / 1e6:.0f} MB", path, path, build, repeat)
        cnn = obtain("cnn.cifar10")
        build = functools.partial(zoo.create, "cnn", **cnn.located.config)
        measure("cnn.cifar10", "cnn.cifar10", cnn.located.path, build, 5 * repeat)
        listing(Path(folder), chosen.entries, max(1, repeat // 2))


def write_model(path: Path) -> None:
    model = zoo.create("mlp", **OPTIONS)
    about = {
        "model": "mlp/mlp",
        "config": {**OPTIONS, "dropout": 0.0},
        "dataset": "none",
        "classes": [],
        "preprocess": {"size": 32, "channels": 3, "mean": [0.5], "std": [0.5]},
    }
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}  # fmt: skip
    path.write_bytes(to_bytes(arrays, json.dumps(about)))


def measure(
    name: str, reference: str | Path, path: Path, build: Callable[[], torch.nn.Module], repeat: int
) -> None:
    def by_hand() -> torch.nn.Module:
        model = build()
        model.load_state_dict(safetensors.torch.load_file(path))
        return model.eval()

    print(f"\n{name}, best of {repeat}")
    compare("build, load_file, load_state_dict", by_hand,
            "zoo.load", lambda: zoo.load(reference), repeat)  # fmt: skip
    compare("the same after hashlib.file_digest", lambda: (plain_digest(path), by_hand()),
            "zoo.load", lambda: zoo.load(reference), repeat)  # fmt: skip
    weights = obtain(str(path))
    entry, config, framework = weights.model
    parts = {
        "copy": path.read_bytes,
        "digest": lambda: plain_digest(path),
        "copy and digest, as the zoo": lambda: copied(path),
        "finite": lambda: [finite(array, str(array.dtype)) for array in weights.tensors.values()],
        "build": build,
        "build without memory": lambda: framework.tensor_spec(entry, config),
    }
    for part, function in parts.items():
        print(f"  {part:34} {best_of(function, repeat) * 1000:8.1f} ms")


def copied(path: Path) -> object:
    with path.open("rb") as file:
        return contents(file)


def best_of(function: Callable[[], object], repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        started = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - started)
    return best


def plain_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def compare(
    one: str, first: Callable[[], object], other: str, second: Callable[[], object], repeat: int
) -> None:
    best = [float("inf"), float("inf")]
    for _ in range(repeat):  # in turns
        best = [min(old, best_of(f, 1)) for old, f in zip(best, (first, second), strict=True)]
    print(f"{one:36} {best[0] * 1000:8.1f} ms")
    print(f"{other:36} {best[1] * 1000:8.1f} ms  {best[1] / best[0]:.2f}x")


def listing(folder: Path, count: int, repeat: int) -> None:
    """A process of its own, with Python's start and all imports."""
    entries = [
        Weights(
            name=f"net_{number}.cifar10", model=f"net_{number}", plugin="net",
            distribution="zoo-net", dataset="cifar10", file="model.safetensors", bytes=6_830_104,
            config={"num_classes": 10, "in_channels": 3, "image_size": 32, "hidden": [512, 256]},
            classes=CLASSES,
            preprocess={"size": 32, "channels": 3, "mean": [0.49, 0.48, 0.45],
                        "std": [0.2, 0.2, 0.2], "interpolation": "bilinear"},
            sha256=f"{number:064x}", dtype="float32", parameters=1_707_274,
            metrics={"test_loss": 1.31, "test_accuracy": 0.545, "test_top5": 0.93},
            recipe={"optimizer": "adam", "lr": 5.6e-05, "epochs": 13, "batch_size": 128},
            license="mit", sources=(f"hf:org/name@{number:040x}",),
        )
        for number in range(count)
    ]  # fmt: skip
    manifest = folder / "manifest.json"
    write(manifest, entries)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["ZOO_MANIFEST"] = str(manifest)
    command = [sys.executable, "-m", "zoo", "list", "--weights"]
    best = busy = float("inf")
    for _ in range(repeat):
        before, started = used(), time.perf_counter()
        done = subprocess.run(command, env=environment, check=True, capture_output=True)
        best = min(best, time.perf_counter() - started)
        busy = min(busy, used() - before)
    rows = [line for line in done.stdout.splitlines() if line.startswith(b"net_")]
    assert len(rows) == count, "every entry has a row"
    size = manifest.stat().st_size / 1e6
    name = f"zoo list --weights, {count:,} entries in {size:.0f} MB"
    print(f"{name}  {best * 1000:.0f} ms, of which {busy * 1000:.0f} ms computing")


def used() -> float:
    """Seconds that child processes have computed: what they waited for others is not in it."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
