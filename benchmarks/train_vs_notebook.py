"""The same MLP and CNN trained the usual notebook way and by zoo, in one run.

    python benchmarks/train_vs_notebook.py [--dataset cifar10] [--pictures 20000] [--epochs 2]

The notebook way: torchvision's CIFAR10 with ToTensor and Normalize, a DataLoader with shuffling,
plain Adam, loss.item() every step, a test pass after each epoch; with 0 and with 2 loader workers,
of which the quicker counts. zoo: `zoo.train` with the same batch size, learning rate and epochs on
the same images, its test passes included. Best of several. Asked for: 2.5x for mlp, 1.3x for cnn,
equal accuracy within noise. The last part is the time from `zoo train mlp` to the first step, in
units of a Python that imports torch and makes an Adam: at most 1.3.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

import zoo
from zoo_core.data.dataset import Dataset

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
LR = {"mlp": 3e-4, "cnn": 1e-3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--dataset", default="cifar10", help="of color images of 32 pixels")
    parser.add_argument("--pictures", type=int, default=20_000, help="of the training set")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--models", nargs="+", default=["mlp", "cnn"], choices=["mlp", "cnn"])
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    data = zoo.open_dataset(options.dataset)
    print(f"{options.pictures} images, {options.epochs} epochs, {torch.get_num_threads()} threads")
    for name in options.models:
        best: dict[str, tuple[float, float]] = {}
        for _ in range(options.repeat):
            for way, run in (
                ("notebook, 0 workers", lambda n=name: notebook(n, data, options, 0)),
                ("notebook, 2 workers", lambda n=name: notebook(n, data, options, 2)),
                ("zoo", lambda n=name: with_zoo(n, data, options)),
            ):
                best[way] = min(best.get(way, (float("inf"), 0.0)), run())
        for way, (seconds, accuracy) in best.items():
            print(f"{name:4} {way:20} {seconds:7.1f} s   accuracy {accuracy:.1%}")
        ratio = min(best[way][0] for way in best if way != "zoo") / best["zoo"][0]
        print(f"{name:4} zoo is {ratio:.2f}x as fast\n")
    first_step(options.dataset, options.repeat)


def notebook(
    name: str, data: Dataset, options: argparse.Namespace, workers: int
) -> tuple[float, float]:
    from torchvision import datasets, transforms

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])

    def torchvision_dataset(images: np.ndarray, labels: np.ndarray) -> datasets.CIFAR10:
        # As torchvision's own, without reading its pickles from disk.
        made = datasets.CIFAR10.__new__(datasets.CIFAR10)
        made.data, made.targets = images, labels.tolist()
        made.transform, made.target_transform = transform, None
        return made

    assert data.test is not None and data.train.labels is not None
    assert data.test.labels is not None
    train = torchvision_dataset(
        data.train.images[: options.pictures], data.train.labels[: options.pictures]
    )
    test = torchvision_dataset(data.test.images, data.test.labels)
    started = time.perf_counter()
    loader = DataLoader(train, batch_size=128, shuffle=True, num_workers=workers)
    test_loader = DataLoader(test, batch_size=128, num_workers=workers)
    model = zoo.create(name)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR[name])
    loss_function = nn.CrossEntropyLoss()
    accuracy = 0.0
    for _ in range(options.epochs):
        model.train()
        running = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = loss_function(model(images), labels)
            loss.backward()
            optimizer.step()
            running += loss.item()
        model.eval()
        right = total = 0
        with torch.no_grad():
            for images, labels in test_loader:
                output = model(images)
                running += loss_function(output, labels).item()
                right += (output.argmax(1) == labels).sum().item()
                total += len(labels)
        accuracy = right / total
    return time.perf_counter() - started, accuracy


def with_zoo(name: str, data: Dataset, options: argparse.Namespace) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as runs:
        settings = {"lr": LR[name], "epochs": options.epochs, "batch_size": 128,
                    "subset": options.pictures / len(data.train), "optimizer": "adam",
                    "schedule": "constant", "augment": (), "mixup": 0.0, "ema": 0.0,
                    "label_smoothing": 0.0, "weight_decay": 0.0}  # fmt: skip
        result = zoo.train(
            name, options.dataset, recipe="paper", settings=settings, runs=runs, quiet=True
        )
        # Training and the test passes after each epoch, as in the notebook.
        line = result.run.metrics()[-1]
        return result.seconds, line["test_accuracy"]


def first_step(dataset: str, repeat: int) -> None:
    """From the command to the first step, against what nobody can avoid."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    bare = "import torch; torch.optim.Adam([torch.zeros(3, requires_grad=True)])"
    # The first step is over when the loop reports it.
    code = (
        "import os, sys\n"
        "from zoo_core.train import display\n"
        "display.Display.step = lambda *given: os._exit(0)\n"
        "from zoo_core.cli.main import main\n"
        "main(['train', 'mlp', '--dataset', sys.argv[1], '--runs', sys.argv[2]])\n"
    )
    best = {"bare": float("inf"), "zoo": float("inf")}
    with tempfile.TemporaryDirectory() as runs:
        for _ in range(repeat):
            for way, command in (("bare", [bare]), ("zoo", [code, dataset, str(Path(runs) / "r")])):
                started = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-c", *command],
                    check=True,
                    env=environment,
                    stderr=subprocess.DEVNULL,
                )
                best[way] = min(best[way], time.perf_counter() - started)
    print(f"import torch and make Adam   {best['bare']:.2f} s")
    ratio = best["zoo"] / best["bare"]
    print(f"zoo train mlp to first step  {best['zoo']:.2f} s   {ratio:.2f}x")


if __name__ == "__main__":
    main()
