"""Decides a training job: everything that the person, the model and the data leave open."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core import __version__
from zoo_core.data.dataset import Dataset
from zoo_core.data.datasets import is_path
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.errors import UsageError
from zoo_core.io.process import process
from zoo_core.io.targets import resolve
from zoo_core.runs.run import FORMAT
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.framework import TensorSpec, check_options
from zoo_core.spec.recipe import Recipe
from zoo_core.train.display import Display
from zoo_core.train.job import Events, Job, Trainer, trainer_of
from zoo_core.use.load import fitting, tensors_of
from zoo_core.weights.references import find


def prepare(
    entry: ModelEntry,
    chosen: Recipe,
    data: Dataset,
    display: Display,
    device: str = "auto",
    runs: Path | None = None,
    checkpoint_seconds: float = 30.0,
) -> tuple[Job, Trainer]:
    """A job without a run yet; whatever is wrong with the settings is said here."""
    trainer = trainer_of(entry)
    config, preprocess = fit_to_data(entry, chosen, data)
    job = Job(
        entry, config, data, chosen, preprocess, None, Events(display.warn), display, device,
        checkpoint_seconds=checkpoint_seconds,
    )  # fmt: skip
    trainer.check(job)  # before anything is fetched
    job.training_loader(backend="numpy")
    config = trainer.complete(entry, config, display.say)
    spec = trainer.tensor_spec(entry, config)
    init = None
    if chosen.init:
        init = tensors_of_weights(chosen.init, spec, runs, display)
    elif "pretrained" in entry.capabilities:
        init = pretrained_tensors(entry, config, spec, display)
        # Where training started is said in the recipe; the trained model is whole without it.
        config |= {"weights": entry.options["weights"]}
    return replace(job, config=config, init=init), trainer


def lasting(reference: str) -> str:
    """A dataset's reference that means the same in other folders: a run is used there too."""
    return str(Path(reference).expanduser().absolute()) if is_path(reference) else reference


def fit_to_data(
    entry: ModelEntry, recipe: Recipe, data: Dataset
) -> tuple[dict[str, Any], Preprocess]:
    """The model's options and the preprocessing: the data decides what nobody has set."""
    wanted = dict(recipe.preprocess)
    if "preprocess" in entry.capabilities:
        give = resolve(entry.capabilities["preprocess"], f"model {entry.name!r}")
        wanted = {**give(check_options(entry, recipe.model)), **wanted}
    for option, setting in (("image_size", "size"), ("in_channels", "channels")):
        if option in recipe.model:
            wanted.setdefault(setting, recipe.model[option])
    preprocess = Preprocess.for_dataset(data, wanted)
    shapes: dict[str, Any] = {
        "image_size": preprocess.size,
        "in_channels": preprocess.channels,
    }
    if entry.num_classes is not None and data.classes:
        shapes["num_classes"] = len(data.classes)
    config = check_options(entry, {**shapes, **recipe.model})
    classes = config.get("num_classes")
    if classes is not None and data.classes and classes != len(data.classes):
        raise UsageError(
            f"model.num_classes is {classes}, and {data.name} has {len(data.classes)} classes"
        )
    return config, preprocess


def describe_run(
    job: Job, trainer: Trainer, recipe_name: str, reference: str, command: str
) -> dict[str, Any]:
    """The document of a run that has not ended yet."""
    entry, provider = job.entry, job.entry.provider
    described = trainer.describe(trainer.sketch(entry, job.config))
    train, validation = job.parts
    return {
        "format": FORMAT,
        "status": "running",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "model": {
            "name": entry.name,
            "plugin": provider.plugin if provider else "",
            "distribution": provider.distribution if provider else "",
            "version": provider.version if provider else "",
            "trainer": entry.trainer,
            "framework": entry.framework,
            "task": entry.task,
            "kinds": entry.kinds,
            "config": job.config,
        },
        "dataset": {
            "reference": reference,
            "name": job.dataset.name,
            "options": job.recipe.data,
            "digest": job.dataset.digest,
            "classes": job.dataset.classes,
            "train": len(train),
            "validation": len(validation),
            "test": len(job.dataset.test) if job.dataset.test else 0,
        },
        "recipe_name": recipe_name,
        "recipe": asdict(job.recipe),
        "preprocess": job.preprocess.to_dict(),
        "environment": environment(trainer, entry, job.device),
        "parameters": {
            "trainable": described.trainable,
            "total": described.total,
            "bytes": described.bytes,
        },
        "structure": described.structure,
        "result": None,
        "error": "",
    }


def environment(trainer: Trainer, entry: ModelEntry, device: str) -> dict[str, Any]:
    """What the bytes of the result depend on, besides the settings."""
    provider = entry.provider
    return {
        "zoo-core": __version__,
        **({provider.distribution: provider.version} if provider else {}),
        "python": platform.python_version(),
        "numpy": np.__version__,
        **trainer.environment(device),
        "processes": process()[1],
        "platform": platform.platform(),
        "processor": processor(),
    }


def processor() -> str:
    """The name of the processor, where the platform tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def command_line() -> str:
    """How this process was started, for run.json."""
    return shlex.join(["zoo", *sys.argv[1:]])


def tensors_of_weights(
    reference: str,
    spec: TensorSpec,
    runs: Path | None,
    display: Display,
) -> dict[str, np.ndarray]:
    """Tensors of trained weights that fit the new model; the rest, the head usually, start anew."""
    found = find(reference, runs)
    return _kept_tensors(found.source, tensors_of(found), spec, display)


def pretrained_tensors(
    entry: ModelEntry, config: Mapping[str, Any], spec: TensorSpec, display: Display
) -> dict[str, np.ndarray]:
    """What the `pretrained` capability of a model gives it to start from."""
    give = resolve(entry.capabilities["pretrained"], f"model {entry.name!r}")
    found = give(config, display.say)
    return _kept_tensors(config.get("weights") or "pretrained weights", found, spec, display)


def _kept_tensors(
    source: str, found: Mapping[str, np.ndarray], spec: TensorSpec, display: Display
) -> dict[str, np.ndarray]:
    kept = fitting(found, spec)
    if not any(array.ndim > 1 for array in kept.values()):
        raise UsageError(
            f"no weight of {source} fits this model",
            "its options, channels for example, must be those of the trained model",
        )
    new = [name for name in spec if name not in kept]
    sentence = f"Starting from {source}: {len(kept)} of {len(spec)} tensors"
    display.say(sentence + (f"; new: {', '.join(new)}." if new else "."))
    return kept
