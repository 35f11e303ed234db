"""Decides a training job: everything that the person, the model and the data leave open."""

from __future__ import annotations

import math
import platform
import re
import shlex
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core import __version__
from zoo_core.data.augment import parse_augment
from zoo_core.data.dataset import Dataset
from zoo_core.data.datasets import find_dataset, lasting, open_dataset
from zoo_core.data.images import FITS
from zoo_core.data.preprocess import INPUT, Preprocess
from zoo_core.io.errors import DataError, UsageError, ZooError
from zoo_core.io.process import be_portable, process
from zoo_core.runs.run import FORMAT, Directory, Run
from zoo_core.spec.answers import CLASS, NUMBERS
from zoo_core.spec.discovery import CORE
from zoo_core.spec.entries import ModelEntry, Provider
from zoo_core.spec.framework import Config, check_options
from zoo_core.spec.recipe import AUTO, Recipe, freeze
from zoo_core.spec.registry import qualified_name, registry
from zoo_core.spec.settings import asked
from zoo_core.train.checkpoint import Checkpoints
from zoo_core.train.display import Display
from zoo_core.train.job import Events, Job, Say, honoured, refuse_ignored, trainer_of
from zoo_core.use.load import capability, fitting
from zoo_core.weights.references import obtain

ENOUGH = 400  # updates: a training with fewer has mostly not arrived yet
FEW_IMAGES = "few_images"  # the recipe that stands in for `default` where that makes fewer
FEW = 10  # training images of a class
# Flags of a processor on which the code that is chosen to compute depends.
ARITHMETIC = re.compile(r"s?sse|pni|avx|fma|f16c|amx|asimd|neon|sve|bf16|i8mm")


def follow_data(
    entry: ModelEntry, recipe: Recipe, asked: Collection[str], data: Dataset, say: Say
) -> str:
    """The recipe to use for so few images in place of `default`, or ""; what it does is said.

    asked: the fields that a person has set, and "recipe" where that was named.
    """
    images = len(data.parts(recipe)[0])
    updates, few = trainer_of(entry).updates(recipe, images), entry.recipes.get(FEW_IMAGES)
    if updates is None or updates >= ENOUGH:
        return ""
    lacking = f"{updates:,} update{'s' * (updates != 1)}: {images:,} images, epochs={recipe.epochs}"
    lacking += f", batch_size={recipe.batch_size}"
    if few and not {"recipe", *apart(entry.recipes["default"], few)} & {*asked}:
        say(f"Training with the recipe {FEW_IMAGES}: the recipe default makes only {lacking}.")
        return FEW_IMAGES
    size = min(recipe.batch_size, 32)
    epochs = math.ceil(ENOUGH / math.ceil(images / size))
    more = f"--set batch_size={size} --set epochs={epochs} makes {ENOUGH} or more"
    say(f"The recipe makes only {lacking}; {more}.")
    if few and "recipe" not in asked:
        mine = ", ".join(name for name in apart(entry.recipes["default"], few) if name in asked)
        say(f"You set {mine}, so the recipe is default; --recipe {FEW_IMAGES} is for few images.")
    return ""


def spare_tests(
    entry: ModelEntry, recipe: Recipe, asked: Collection[str], data: Dataset, say: Say
) -> Recipe:
    """The recipe, with no more test images between epochs than an epoch trains on; that is said."""
    images, tests = len(data.parts(recipe)[0]), len(data.test or ())
    left_open = "evaluate_subset" in honoured(trainer_of(entry)) and "evaluate_subset" not in asked
    if not left_open or recipe.evaluate_subset != 1 or recipe.epochs == 1 or not 1 < images < tests:
        return recipe
    say(
        f"Epochs are measured on {images:,} of {tests:,} test images, as many as there are "
        "training images, and the end on all; --set evaluate_subset=1 measures all each time."
    )
    return replace(recipe, evaluate_subset=images)


def apart(one: Recipe, other: Recipe) -> list[str]:
    """The fields in which two recipes differ."""
    return [name for name, value in vars(one).items() if value != getattr(other, name)]


def remarks_on(job: Job) -> list[str]:
    """Sentences about the data: classes with a handful of training images."""
    targets, images = job.dataset.targets, len(job.parts[0])
    shares = zip(targets.mean, targets.names, strict=False) if targets.classes else ()
    found = sorted((n, name) for share, name in shares if (n := round(share * images)) < FEW)
    if not found:
        return []
    told = ", ".join(f"{name} ({n})" for n, name in found[:10])
    more = f" and {len(found) - 10} more" if len(found) > 10 else ""
    what = "1 class has" if len(found) == 1 else f"{len(found)} classes have"
    return [f"{what} fewer than {FEW} training images: {told}{more}."]


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
    document: Config | None = None,
    parts: tuple[np.ndarray, np.ndarray] | None = None,
) -> Job:
    """The one way to a job, a new one or one that goes on with `run`; says what is wrong with it.

    runs: the folder in which `init` finds other runs. document: the run.json of `run`, which of
    several processes only the first one can read. parts: in place of those of the recipe.
    """
    trainer, events = trainer_of(entry), Events(display.warn)
    refuse_ignored(entry, trainer, recipe)
    if recipe.portable:
        be_portable()
        if device not in ("auto", "cpu"):
            raise UsageError("portable=true computes on the CPU", f"leave out --device {device}")
        device = "cpu"
    parts = parts or data.parts(recipe)
    if (labels := data.train.labels) is not None:
        data = replace(data, targets=data.targets.fitted(labels[parts[0]]))
    if run:
        recorded = document or run.read()
        config = freeze(recorded["model"]["config"])
        preprocess = Preprocess.from_dict(recorded["preprocess"])
    else:
        config, preprocess = fit_to_data(entry, recipe, data)
    first = process()[0] == 0
    ours = run if first else None
    job = Job(entry, trainer, config, data, parts, recipe, preprocess, events, display, device)
    job = replace(job, checkpoint_seconds=checkpoint_seconds, run=ours, resume_from=run)
    trainer.check(job)  # before anything is fetched
    job.training_loader(backend="numpy")  # refuses words and sizes that cannot be
    if not run:
        config = trainer.complete(entry, job.config, display.say)
        job = replace(job, config=config)
        if recipe.precision == AUTO:  # decided once: the run has the answer
            chosen = "float32" if recipe.portable else trainer.choose_precision(job)
            job = replace(job, recipe=replace(recipe, precision=chosen))
        job = replace(job, described=trainer.outline(job))
    if first and not (run and Checkpoints(run.checkpoints).latest_path()):
        # Otherwise the first process or a checkpoint has them; what `init` names may be gone.
        job = replace(job, init=starting_tensors(job, runs))
    if "pretrained" in entry.capabilities:
        # Where training started is said in the recipe; the trained model is whole without it.
        job = replace(job, config={**job.config, "weights": entry.options["weights"]})
    return job


def check_classes(data: Dataset) -> None:
    """Refuse images that teach nothing: none at all, or of one class only."""
    labels, names = data.train.labels, data.classes
    if not len(data.train):
        raise DataError(f"{data.name} has no images to train on", "add training images")
    if data.targets.kind != CLASS or labels is None:
        return
    if len(names) == 1:
        hint = "add images of a second class; if the images need no labels, name the folder "
        hint += "that has the images themselves"
        raise DataError(f"{data.name} has one class only, {names[0]!r}", hint)
    counts = np.bincount(labels, minlength=len(names))
    if data.train.names and not counts.all():
        missing = ", ".join(name for name, count in zip(names, counts, strict=True) if not count)
        what = f"{data.name} has no images to train on of the class {missing}"
        raise DataError(what, "add training images of it, or remove the class from the test images")


def open_data(
    entry: ModelEntry, recipe: Recipe, reference: Any, say: Callable[[str], None],
    open_: Callable[..., Dataset] | None = None,
) -> tuple[Dataset, Recipe]:  # fmt: skip
    """The images as a model needs them, and the recipe with what that decided.

    A model with a fixed input decides the size at which images are stored; others leave it open.
    """
    words = [word.does for word in parse_augment(recipe.augment)]  # before anything is fetched
    wanted = wanted_preprocess(entry, recipe)
    fit = wanted.get("fit") or recipe.data.get("fit") or FITS[0]
    data_options = dict(recipe.data)
    originals = find_dataset(reference, recipe.data).entry.originals
    if originals:
        needed = [wanted.get("size", 0), wanted.get("resize", 0), *(w.stored for w in words)]
        data_options = {"image_size": max(needed) or None, **data_options}
    data = (open_ or open_dataset)(reference, data_options, fit=fit, report=say)
    check_classes(data)
    told = {"fit": fit} if fit != FITS[0] else {}
    if originals:
        data_options |= {"image_size": data.image_size, "channels": data.channels, **told}
    if data.corrections:
        data_options["corrections"] = data.corrections["file"]  # from any folder
    return data, replace(recipe, data=data_options, preprocess={**recipe.preprocess, **told})


def wanted_preprocess(entry: ModelEntry, recipe: Recipe) -> dict[str, Any]:
    """What the person and the model say of the preprocessing; the data decides the rest."""
    wanted = dict(recipe.preprocess)
    if "preprocess" in entry.capabilities:
        give = capability(entry, "preprocess")
        wanted = {**give(check_options(entry, recipe.model)), **wanted}
    for option, setting in INPUT.items():
        if option in recipe.model:
            wanted.setdefault(setting, recipe.model[option])
    return wanted


def fit_to_data(
    entry: ModelEntry, recipe: Recipe, data: Dataset
) -> tuple[dict[str, Any], Preprocess]:
    """The model's options and the preprocessing: the data decides what nobody has set."""
    preprocess = Preprocess.for_dataset(data, wanted_preprocess(entry, recipe))
    shapes = {"image_size": preprocess.size, "in_channels": preprocess.channels}
    outputs = len(data.targets.names)
    if entry.num_classes is not None and outputs:
        shapes["num_classes"] = outputs
    config = check_options(entry, {**shapes, **recipe.model})
    preprocess.check_model(config)
    classes = config.get("num_classes")
    if classes is not None and outputs and classes != outputs:
        what = "classes" if data.classes else "numbers for each image"
        raise UsageError(f"model.num_classes is {classes}, but {data.name} has {outputs} {what}")
    return config, preprocess


def asked_for(entry: ModelEntry, recipe: Recipe, dataset: Any) -> dict[str, Any]:
    """What a person asks for, before the data decides the rest; run.json keeps it."""
    named = isinstance(dataset, str | Path)
    reference = lasting(dataset) if named else find_dataset(dataset, recipe.data).reference
    used = honoured(trainer_of(entry))
    settings = {name: value for name, value in asdict(recipe).items() if name in used}
    return {"model": qualified_name(entry), "dataset": reference, **asked(settings)}


def begin_run(
    job: Job, run: Run, *, recipe_name: str, command: str, asked: Config | None = None
) -> Job:
    """The job in a new run directory; asked: what `asked_for` gave."""
    entry, data, described = job.entry, job.dataset, job.described
    provider = entry.provider or Provider(plugin="", distribution="", version="")
    assert described is not None
    if job.config == entry.options and entry.parameters not in (None, described.trainable):
        job.display.warn(
            f"plugin {provider.plugin!r} declares {entry.parameters:,} "
            f"parameters for {entry.name!r}, but the model has {described.trainable:,}"
        )
    if data.targets.kind == NUMBERS and job.recipe.augment:
        words = ",".join(job.recipe.augment)
        job.display.warn(
            f"augment={words} changes the images but not their numbers, so a model cannot learn a "
            "place in an image; --set augment= turns augmentation off"
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
        **({"asked": asked} if asked else {}),
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
            "store": data.train.store,
            "classes": data.classes,
            **({"targets": data.targets.to_dict()} if data.targets.to_dict() else {}),
            **({"left_out": data.left_out} if data.left_out else {}),
            **({"corrections": data.corrections} if data.corrections else {}),
            "train": len(job.parts[0]),
            "validation": len(job.parts[1]),
            "test": len(data.test or ()),
            **({"remarks": remarks} if (remarks := remarks_on(job)) else {}),
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
        **processor(),
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
    begun: Directory, before: Config, data: Dataset, entry: ModelEntry, device: str,
    display: Display,
) -> None:  # fmt: skip
    """Refuse other images than those of its document, `before`; warn of whatever else matters."""
    if data.digest != before["dataset"]["digest"]:
        what = f"dataset {data.name} is no longer the one that {begun.name} was started with"
        raise ZooError(what, f"start a new {begun.kind}, or restore the old images")
    for told in differences(before["environment"], environment(entry, device)):
        display.warn(f"{told}: the result may differ")


def differences(then: Config, now: Config) -> list[str]:
    """Sentences about what two environments say differently; older runs know fewer things."""
    told = []
    for name in now:
        old, new = then.get(name, now[name]), now[name]
        if isinstance(old, list) and isinstance(new, list):  # flags: only what sets them apart
            old, new = (" ".join(one for one in a if one not in b) or "without these"
                        for a, b in ((old, new), (new, old)))  # fmt: skip
        if old != new:
            told.append(f"{name} was {old} and is now {new}")
    return told


def processor() -> dict[str, Any]:
    """Name, maker, family and model of the processor, and its flags that concern arithmetic.

    Where there is no /proc/cpuinfo: what Python knows, which on Windows is the same but the flags.
    """
    told: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            name, _, value = line.partition(":")
            told.setdefault(name.strip(), value.strip())  # of the first core
    x86 = "vendor_id", "cpu family", "model", "stepping"
    arm = "CPU implementer", "CPU architecture", "CPU variant", "CPU part"
    words = " ".join(f"{name} {told[name]}" for name in (*x86, *arm) if name in told)
    words = words.replace("vendor_id ", "").replace("cpu ", "") or platform.processor()
    flags = (told.get("flags") or told.get("Features") or "").split()
    return {
        "processor": told.get("model name") or platform.processor() or platform.machine(),
        "processor_model": words,
        "processor_flags": sorted(flag for flag in flags if ARITHMETIC.match(flag)),
    }


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
            "set its options, channels for example, to those of the trained model",
        )
    new = [name for name in spec if name not in kept]
    sentence = f"Starting from {source}: {len(kept)} of {len(spec)} tensors"
    display.say(sentence + (f"; new: {', '.join(new)}." if new else "."))
    return kept
