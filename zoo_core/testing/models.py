"""Checks of models of every framework and task: they count right, train, load, score the same.

Checks of datasets: what is declared is what the target delivers.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

from zoo_core.data import dataset as checks
from zoo_core.data.datasets import open_dataset
from zoo_core.io.errors import (
    DataError,
    Finding,
    MissingDependency,
    PluginError,
    Skipped,
    UsageError,
    WeightsError,
    ZooError,
)
from zoo_core.spec.framework import framework_of
from zoo_core.spec.registry import registry

SHAPES = ("image_size", "in_channels")
FEW = {"train_size": 16, "test_size": 8, "classes": 4}  # made-up pictures
BRIEFLY = {
    "epochs": 1,
    "batch_size": 8,
    "accumulate": 1,
    "warmup": 0.0,
    "augment": (),
    "validation_fraction": 0.0,
    "patience": 0,
    "restore_best": False,
}


def check_counts(name: str, **options: Any) -> None:
    """The declared numbers of parameters are those that its trainer counts."""
    entry = registry().models.get(name)
    trainer = framework_of(entry)
    counted = trainer.describe(trainer.build(entry, entry.options))
    for field, found in (("parameters", counted.trainable), ("total_parameters", counted.total)):
        declared = getattr(entry, field)
        if declared not in (None, found):
            raise Finding(
                f"{name} declares {field}={declared:,} and has {found:,}",
                "people choose a model by that figure, and compare it with the paper's",
                f"write {field}={found:_} into the entry, or correct the network",
            )


def check_training(name: str, **options: Any) -> None:
    """`zoo train` works with it, on a few made-up pictures, and the run loads and predicts."""
    from zoo_core.train.runner import train
    from zoo_core.use.load import load
    from zoo_core.use.predict import evaluate_run

    entry = registry().models.get(name)
    size, channels = (options.get(k, entry.options[k]) for k in SHAPES)
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = train(
                name,
                "synthetic",
                runs=Path(folder),
                quiet=True,
                settings=BRIEFLY
                | {
                    "model": {k: v for k, v in options.items() if k not in SHAPES},
                    "data": {**FEW, "image_size": min(size, 64), "channels": channels},
                    "preprocess": {"size": size},
                },
            )
            load(result.path)
            again = evaluate_run(str(result.path))
        except (DataError, WeightsError, MissingDependency) as error:
            raise Skipped(str(error)) from error
        except ZooError as error:
            raise Finding(
                f"`zoo train {name}` stops: {error}",
                "that is the first thing that people try",
                "try it: " + f"zoo train {name} --dataset synthetic --epochs 1 --debug",
            ) from error
        pairs = [(again[k], result.metrics[k]) for k in ("loss", "accuracy") if k in again]
        if not all(math.isclose(now, then, rel_tol=1e-4) for now, then in pairs):
            raise Finding(
                f"{name} scores otherwise after it was loaded from its run",
                "what is published would not be what was measured",
                "keep everything that forward uses in parameters or persistent buffers",
            )


def check_generation(name: str, **options: Any) -> None:
    """What declares `generate` draws pictures of the right shape, the same ones from one seed."""
    import numpy as np

    from zoo_core.data.preprocess import Preprocess
    from zoo_core.spec.framework import check_options
    from zoo_core.use.generate import open_sampler

    entry = registry().models.get(name)
    config = check_options(entry, options)
    model = framework_of(entry).build(entry, config)
    preprocess = Preprocess(config["image_size"], config["in_channels"], (0.5,), (0.5,))
    classes = [f"class {number}" for number in range(config.get("num_classes") or 0)]
    source = open_sampler(entry, model, preprocess, classes)
    try:
        one, two = source.sample(3).images, source.sample(3).images
    except PluginError as error:
        raise Finding(
            str(error),
            "`zoo generate` and the pictures of a run need it",
            "give back an array of (samples, channels, height, width)",
        ) from error
    if not np.array_equal(one, two):
        raise Finding(
            f"{name} draws other pictures from the same noise",
            "nobody could draw a sample again, or compare two epochs",
            "put the model into evaluation, and draw nothing at random in `draw`",
        )


def check_dataset(name: str) -> None:
    """It can be opened: sizes, labels and digests are those of the entry, which has digests."""
    entry = registry().datasets.get(name)
    try:
        data = open_dataset(name)
    except UsageError as error:
        raise Skipped(f"it needs options: {error}") from error
    except DataError as error:
        said = " ".join(str(error).split())
        if "could not be fetched" in said and "not what it should be" not in said:
            raise Skipped(said) from error
        raise Finding(
            said,
            "`zoo train --dataset` stops with that sentence",
            "correct the entry or the target; docs/datasets.md says what it delivers",
        ) from error
    if entry.digests:
        return
    arrays = {
        f"{split}_{what}": getattr(part, what)
        for split, part in (("train", data.train), ("test", data.test))
        if part is not None
        for what in ("images", "labels")
    }
    digests = checks.check_arrays(entry, arrays, {}, declared=False).digests
    digests.pop("classes")  # these are in the entry
    raise Finding(
        f"{name} does not say which bytes it is made of",
        "whoever fetches it next year cannot know whether it is still the same data",
        f"write digests={digests!r} into the entry",
    )
