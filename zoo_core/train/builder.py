"""Decides a training job: everything that the person, the model and the data leave open."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core import __version__
from zoo_core.data.dataset import Dataset
from zoo_core.data.draws import subset_indices, train_validation
from zoo_core.data.preprocess import Preprocess
from zoo_core.data.targets import strata
from zoo_core.io.errors import UsageError, ZooError
from zoo_core.io.process import process
from zoo_core.runs.run import FORMAT, Directory, Run
from zoo_core.spec.answers import NUMBERS
from zoo_core.spec.entries import ModelEntry, Provider
from zoo_core.spec.framework import check_options
from zoo_core.spec.plugins import CORE
from zoo_core.spec.recipe import Recipe, freeze
from zoo_core.spec.registry import as_reference, is_path, registry
from zoo_core.train.checkpoint import Checkpoints
from zoo_core.train.display import Display
from zoo_core.train.job import Events, Job, honoured, refuse_ignored, trainer_of
from zoo_core.use.load import capability, fitting
from zoo_core.weights.references import obtain


def build_job(
    entry: ModelEntry,
    recipe: Recipe,
    data: Dataset,
    display: Display,
    *,
    device: str = "auto",
    runs: Path | None = None,
    checkpoint_seconds: float = 30.0,
    run: Run | None = None,
) -> Job:
    """The one way to a job, a new one or one that goes on with `run`; says what is wrong with it.

    runs: the folder in which `init` finds other runs.
    """
    trainer, events = trainer_of(entry), Events(display.warn)
    refuse_ignored(entry, trainer, recipe)
    parts = parts_of(data, recipe)
    if (labels := data.train.labels) is not None:
        data = replace(data, targets=data.targets.fitted(labels[parts[0]]))
    if run:
        recorded = run.read()
        config = freeze(recorded["model"]["config"])
        preprocess = Preprocess.from_dict(recorded["preprocess"])
    else:
        config, preprocess = fit_to_data(entry, recipe, data)
    ours = run if process()[0] == 0 else None
    job = Job(entry, trainer, config, data, parts, recipe, preprocess, events, display, device)
    job = replace(job, checkpoint_seconds=checkpoint_seconds, run=ours, resume_from=run)
    trainer.check(job)  # before anything is fetched
    job.training_loader(backend="numpy")  # refuses words and sizes that cannot be
    if not run:
        config = trainer.complete(entry, job.config, display.say)
        described = trainer.describe(trainer.sketch(entry, config))
        job = replace(job, config=config, described=described)
    if run and Checkpoints(run.checkpoints).latest_path():
        return job  # the checkpoint has the weights; what `init` names may be gone by now
    job = replace(job, init=starting_tensors(job, runs))
    if "pretrained" in entry.capabilities:
        # Where training started is said in the recipe; the trained model is whole without it.
        job = replace(job, config={**job.config, "weights": entry.options["weights"]})
    return job


def parts_of(data: Dataset, recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """Indices into the training split: what is trained on, what is kept for validation."""
    labels = strata(data.train.labels)
    indices = subset_indices(len(data.train), recipe.subset, recipe.seed, labels)
    if not recipe.validation_fraction:
        return indices, indices[:0]
    return train_validation(indices, recipe.validation_fraction, recipe.seed, labels)


def lasting(reference: Any) -> str:
    """A dataset's reference that means the same in other folders and processes."""
    if not isinstance(reference, str | Path):
        what = f"{type(reference).__name__} is an object of this program, which others cannot open"
        raise UsageError(what, "save the images to a file or folder, and give its path")
    reference = as_reference(reference)
    return str(Path(reference).expanduser().absolute()) if is_path(reference) else reference


def fit_to_data(
    entry: ModelEntry, recipe: Recipe, data: Dataset
) -> tuple[dict[str, Any], Preprocess]:
    """The model's options and the preprocessing: the data decides what nobody has set."""
    wanted = dict(recipe.preprocess)
    if "preprocess" in entry.capabilities:
        give = capability(entry, "preprocess")
        wanted = {**give(check_options(entry, recipe.model)), **wanted}
    for option, setting in (("image_size", "size"), ("in_channels", "channels")):
        if option in recipe.model:
            wanted.setdefault(setting, recipe.model[option])
    preprocess = Preprocess.for_dataset(data, wanted)
    shapes = {"image_size": preprocess.size, "in_channels": preprocess.channels}
    outputs = len(data.targets.names)
    if entry.num_classes is not None and outputs:
        shapes["num_classes"] = outputs
    config = check_options(entry, {**shapes, **recipe.model})
    classes = config.get("num_classes")
    if classes is not None and outputs and classes != outputs:
        what = "classes" if data.classes else "numbers for each image"
        raise UsageError(f"model.num_classes is {classes}, and {data.name} has {outputs} {what}")
    return config, preprocess


def begin_run(job: Job, run: Run, *, recipe_name: str, command: str) -> Job:
    """The job in a new run directory."""
    entry, data, described = job.entry, job.dataset, job.described
    provider = entry.provider or Provider(plugin="", distribution="", version="")
    assert described is not None
    if job.config == entry.options and entry.parameters not in (None, described.trainable):
        job.display.warn(
            f"plugin {provider.plugin!r} declares {entry.parameters:,} "
            f"parameters for {entry.name!r}, and it has {described.trainable:,}"
        )
    if data.targets.kind == NUMBERS and job.recipe.augment:
        words = ",".join(job.recipe.augment)
        job.display.warn(
            f"augment={words} changes the images and leaves their numbers as they are: a place in "
            "an image can then not be learned; --set augment= does without"
        )
    used, sizes = honoured(job.trainer), asdict(described)
    answers = None if entry.own_task else job.trainer.answers(entry, data.targets)
    structure = sizes.pop("structure")
    document = {
        "name": run.name,
        "format": FORMAT,
        "status": "running",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "model": {
            "name": entry.name,
            **asdict(provider),
            "trainer": entry.trainer,
            "framework": entry.framework,
            "task": answers.task if answers else entry.task,
            "kinds": answers.kinds if answers else entry.kinds,
            "config": job.config,
        },
        "dataset": {
            "reference": data.reference,
            "name": data.name,
            "options": job.recipe.data,
            "digest": data.digest,
            "classes": data.classes,
            **({"targets": data.targets.to_dict()} if data.targets.to_dict() else {}),
            "train": len(job.parts[0]),
            "validation": len(job.parts[1]),
            "test": len(data.test or ()),
        },
        "figures": {
            name: asdict(figure)
            for name, figure in job.trainer.figures(entry, data.targets).items()
        },
        "recipe_name": recipe_name,
        "recipe": {name: value for name, value in asdict(job.recipe).items() if name in used},
        "preprocess": job.preprocess.to_dict(),
        "environment": environment(entry, job.device),
        "parameters": sizes,
        "structure": structure,
        "result": None,
        "error": "",
    }
    run.write(document)
    return replace(job, run=run)


def environment(entry: ModelEntry, device: str) -> dict[str, Any]:
    """What the bytes of the result depend on, besides the settings."""
    return {
        **distributions(entry),
        "zoo-core": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        **trainer_of(entry).environment(device),
        "processes": process()[1],
        "platform": platform.platform(),
        "processor": processor(),
    }


def distributions(entry: ModelEntry) -> dict[str, str]:
    """Versions of the packages that bring a model and its trainer, and of what those ask for."""
    found: dict[str, str] = {}
    for provider in (entry.provider, registry().trainers.get(entry.trainer).provider):
        if provider is None or provider.distribution in ("", CORE):
            continue
        found[provider.distribution] = provider.version
        with suppress(metadata.PackageNotFoundError):
            for text in metadata.requires(provider.distribution) or ():
                name = re.split(r"[^\w.-]", text, maxsplit=1)[0]
                if "extra ==" not in text:
                    with suppress(metadata.PackageNotFoundError):
                        found[name] = metadata.version(name)
    return found


def check_same(
    begun: Directory, data: Dataset, entry: ModelEntry, device: str, display: Display
) -> None:
    """Refuse to go on with other images; warn of whatever else the result depends on."""
    before = begun.read()
    if data.digest != before["dataset"]["digest"]:
        what = f"dataset {data.name} is no longer the one that {begun.name} was started with"
        raise ZooError(what, f"start a new {begun.kind}, or bring the old images back")
    for name, now in environment(entry, device).items():
        if (then := before["environment"].get(name, now)) != now:  # older runs know fewer
            display.warn(f"{name} was {then} and is now {now}: the result may differ")


def processor() -> str:
    """The name of the processor, where the platform tells."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def command_line() -> str:
    """How this process was started, for run.json."""
    return shlex.join(["zoo", *sys.argv[1:]])


def starting_tensors(job: Job, runs: Path | None) -> dict[str, np.ndarray] | None:
    """Weights to start from that fit, of `init` or the model's own; None: all start at random."""
    entry, display = job.entry, job.display
    if job.recipe.init:
        weights = obtain(job.recipe.init, runs, tensors_only=True)
        source, tensors = weights.located.name, weights.tensors
    elif "pretrained" in entry.capabilities:
        options = {**job.config, **job.recipe.model}
        source = options.get("weights") or "pretrained weights"
        tensors = capability(entry, "pretrained")(options, display.say)
    else:
        return None
    spec = job.trainer.tensor_spec(entry, job.config)
    kept = fitting(tensors, spec)
    if not any(array.ndim > 1 for array in kept.values()):
        raise UsageError(
            f"no weight of {source} fits this model",
            "its options, channels for example, must be those of the trained model",
        )
    new = [name for name in spec if name not in kept]
    sentence = f"Starting from {source}: {len(kept)} of {len(spec)} tensors"
    display.say(sentence + (f"; new: {', '.join(new)}." if new else "."))
    return kept
