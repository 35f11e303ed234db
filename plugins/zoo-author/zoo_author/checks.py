"""Checks of plugins, of datasets and of commands: each raises a Finding. Models: models.py."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from collections.abc import Collection
from typing import Any
from unittest import SkipTest

import click
import numpy as np

import zoo
from zoo import DatasetEntry, Preprocess, Split, ZooError, open_dataset
from zoo.kit import (
    API,
    HOOKS,
    SLOW,
    Loader,
    MissingDependency,
    PluginRecord,
    check_packaged,
    did_you_mean,
    load_plugins,
    package_folder,
    parse_augment,
    registry,
    resolve,
)
from zoo.testing import Finding

HEAVY = (
    "torch", "torchvision", "timm", "numpy", "PIL", "matplotlib", "scipy", "sklearn", "pandas",
    "tensorflow", "jax", "keras", "safetensors", "huggingface_hub", "transformers",
)  # fmt: skip
BUILTIN = "builtin"  # the plugin that is the zoo itself
MANIFEST = "weights.json"  # as `zoo publish --to package:` calls it
ENTRIES = ("models", "datasets", "trainers", "augmentations", "commands", "engines")
REMEDIES = {  # by the state of a plugin
    "conflict": "choose another name for the entry point: the family's, not the architecture's",
    "incompatible": "install the zoo-core that it needs, or write it for this one",
}
SAMPLE = 256  # images that say what the pixels of a dataset are like
OFF, TIMES = 0.2, 2.0  # from the mean, of the std: what is closer is a matter of taste
SHARED = 0.1  # of the test images: so many may be in the training set by chance


class Skipped(SkipTest):
    """Raised by a check that cannot be made here; the message says why. pytest shows it as such."""


def record_of(plugin: str) -> PluginRecord:
    for record in load_plugins().records:
        if record.id == plugin:
            return record
    raise Finding(
        f"no installed package has an entry point {plugin!r} in the group 'zoo'",
        "the zoo finds plugins by that group alone",
        "write [project.entry-points.zoo] into pyproject.toml, and install the package again",
    )


def check_loads(plugin: str) -> None:
    """It is installed, can be imported, and what its hooks return is valid."""
    record = record_of(plugin)
    fix = f"correct it; `zoo plugins {record.id} --traceback` shows where it happens"
    if "ModuleNotFoundError" in record.reason or "AttributeError" in record.reason:
        fix = f"the entry point says {record.value!r}: it must be a module that is in the package, "
        fix += "and that module may import zoo and light things only"
    if record.state != "ok":
        raise Finding(
            f"plugin {plugin!r} is {record.state}: {record.reason}",
            "the zoo continues without it: nothing that it provides can be used",
            REMEDIES.get(record.state, fix),
        )


def check_hooks(record: PluginRecord) -> None:
    """Every function that looks like a hook is one, and the plugin has some."""
    if not record.hooks:
        raise Finding(
            f"plugin {record.id!r} implements no hook",
            "it is loaded at every start and contributes nothing",
            "mark a function of hookspecs.py, zoo_models for example, with @zoo.hookimpl",
        )
    for name, value in vars(load_plugins().objects[record.id]).items():
        if name.startswith("zoo_") and callable(value) and name not in record.hooks:
            hint = did_you_mean(name, HOOKS)
            raise Finding(
                f"{record.value}.{name} looks like a hook and is never called",
                "the zoo calls functions that are marked and have the name of a hook",
                f"mark it with @zoo.hookimpl{f' ({hint})' if hint else ''}, or rename it",
            )


def check_version(record: PluginRecord) -> None:
    """It says which version of the hooks it was written for."""
    if getattr(load_plugins().objects[record.id], "ZOO_API", None) is None:
        raise Finding(
            f"{record.value} does not say which version of the zoo's hooks it was written for",
            "a later zoo with other hooks could only guess whether it fits",
            f"write ZOO_API = {API} into it",
        )


def check_light(record: PluginRecord) -> None:
    """Importing it costs next to nothing, measured in a process of its own, whatever else the
    machine does meanwhile."""
    code = (
        "import sys, time, zoo, pluggy; zoo.hookimpl, zoo.ModelEntry, zoo.Recipe; "
        f"start = time.process_time(); import {record.value.partition(':')[0]}; "
        "print(time.process_time() - start, *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *printed, last = done.stdout.splitlines()
    seconds, *modules = last.split()
    if printed:
        raise Finding(
            f"importing {record.value} prints {printed[0]!r}",
            "everybody's `zoo list` imports it, and the output of --json must be JSON alone",
            "take the print out of the plugin, or write to stderr in the code that a target names",
        )
    if heavy := [name for name in HEAVY if name in modules]:
        raise Finding(
            f"importing {record.value} imports {', '.join(heavy)} ({float(seconds):.1f} s)",
            "everybody's `zoo list` imports it, whatever they came for",
            "import them in the module that the target names, not in the plugin or __init__.py",
        )
    for entry in record.entries("commands"):
        if (module := entry.target.partition(":")[0]) in modules:
            raise Finding(
                f"importing {record.value} imports {module}, the code of command {entry.name!r}",
                "everybody's `zoo list` imports it, whatever they came for",
                "put the command into a module of its own that nothing imports",
            )
    if float(seconds) > SLOW:
        raise Finding(
            f"importing {record.value} takes {float(seconds):.2f} s",
            "everybody's `zoo list` waits for it",
            f"find out what is slow: python -X importtime -c 'import {record.value}'",
        )


def check_names(record: PluginRecord) -> None:
    """No other plugin that is installed here uses one of its names."""
    for other in load_plugins().records:
        for field in ENTRIES:
            mine, theirs = ({e.name for e in r.entries(field)} for r in (record, other))
            if other.id != record.id and (shared := sorted(mine & theirs)):
                kept = field == "commands" and other.id == BUILTIN
                wins = f"`zoo {shared[0]}` stays the built-in one" if kept else "neither wins"
                raise Finding(
                    f"{other.distribution} has {field} of the same name: {', '.join(shared)}",
                    f"{wins}: with both installed, people must write {record.id}/{shared[0]}",
                    "choose another name, with your family's in front for example",
                )


def check_targets(record: PluginRecord) -> None:
    """Everything that its entries name exists."""
    targets = [(e.name, e.target) for field in ENTRIES for e in record.entries(field)]
    for entry in record.entries("models"):
        targets += [(f"{entry.name}, {name}", to) for name, to in entry.capabilities.items()]
        targets += [(f"{entry.name}, task", entry.task)] * entry.own_task
        for what, name in (("dataset", entry.dataset), ("trainer", entry.trainer)):
            if name not in getattr(registry(), f"{what}s"):
                raise Finding(
                    f"model {entry.name!r} names the {what} {name!r}, which nobody provides here",
                    f"`zoo train {entry.name}` would stop with that sentence",
                    "correct the name, or add the plugin that provides it to the dependencies",
                )
    trainers = [entry.target for entry in record.entries("trainers")]
    for what, target in targets:
        try:
            found = resolve(target, what)
            _ = found() if target in trainers else None  # with all methods that it needs
        except Exception as error:
            raise Finding(
                str(error),
                "it is imported when somebody uses it, so it would fail then",
                "correct the target ('package.module:name'), or add the missing dependency",
            ) from error


def check_weights(record: PluginRecord) -> None:
    """The lists of weights that it ships can be read, and the files in its package are intact."""
    own, named = record.value.partition(":")[0].partition(".")[0], record.entries("manifests")
    if f"{own}:{MANIFEST}" not in named and (package_folder(own) / MANIFEST).exists():
        raise Finding(
            f"{own} ships {MANIFEST}, and no hook names it",
            "the weights travel in the wheel, and nobody can load them",
            f'let zoo_manifests return ["{own}:{MANIFEST}"]',
        )
    for target in named:
        try:
            check_packaged(target)
        except ZooError as error:
            raise Finding(
                f"{target}: {error}",
                "`zoo list --weights` warns of it, or zoo.load refuses these weights",
                "publish the run again, and see that the wheel contains the list and the files",
            ) from error


RECORD_CHECKS = (  # of a plugin that check_loads has nothing to say about
    check_hooks, check_version, check_light, check_names, check_targets, check_weights,
)  # fmt: skip


def check_command(name: str) -> None:
    """Its target is a click command that explains itself."""
    entry = registry().commands.get(name)
    command = resolve(entry.target, name)
    is_one = isinstance(command, click.Command)
    if not is_one or not command.help:
        raise Finding(
            f"{entry.target} {'has no help' if is_one else 'is not a click command'}",
            f"`zoo {entry.name} --help` could not say what it does",
            "make it with @zoo.kit.command(), and give it a docstring",
        )


def check_augmentation(plugin: str, example: str) -> None:
    """What it makes of an image is decided by its draws alone, and the same in NumPy and torch."""
    (word,) = parse_augment((f"{plugin}/{example}",))
    size = word.does.side or 16

    def made(channels: int, batch: int, backend: str) -> np.ndarray:
        rng = np.random.default_rng(0)
        split = Split(rng.integers(0, 256, (12, 16, 16, channels), np.uint8), np.zeros(12, int))
        shown, words = Preprocess(size, channels, (0.0,), (1.0,)), (f"{plugin}/{example}",)
        how: dict[str, Any] = {"preprocess": shown, "augment": words, "backend": backend}
        loader = Loader(split, batch_size=batch, **how)
        return np.concatenate([np.asarray(batch.images) for batch in loader.epoch(0)])

    same = {
        "other images each time": (12, "numpy", "draw with `draws`, not with random or numpy"),
        "images that depend on the others": (5, "numpy", "use each image's own draws alone"),
        "other images in torch than in NumPy": (12, "torch", "use what both frameworks have"),
    }
    for channels in (3, 1):
        for what, (batch, backend, fix) in same.items():
            try:
                pair = made(channels, 12, "numpy"), made(channels, batch, backend)
            except MissingDependency as error:
                raise Skipped(str(error)) from error
            except ZooError as error:
                why = "a training that uses this word stops with that sentence"
                raise Finding(str(error), why, error.hint or "correct the target") from error
            if not np.allclose(*pair, atol=1e-4):  # of 1
                why = "a run that is resumed, or made again elsewhere, would see other images"
                raise Finding(f"{word.entry.target} makes {what}", why, fix)


def check_signature(what: str, target: str, declared: Collection[str]) -> None:
    """A target takes what its entry declares; an argument that is None is for other code."""
    taken = inspect.signature(resolve(target, what)).parameters
    differ = [name for name in declared if name not in taken]
    differ += [k for k, one in taken.items() if k not in declared and one.default is not None]
    if differ and not any(one.kind is one.VAR_KEYWORD for one in taken.values()):
        raise Finding(
            f"{target} takes {', '.join(taken)}, and the entry of {what} declares "
            f"{', '.join(declared)}: they differ in {', '.join(differ)}",
            "people can set what the entry declares, and the target is given exactly that",
            f"let `config` have {differ[0]} if the target has it, and only then; an entry with "
            "num_classes=None leaves that one out",
        )


def check_statistics(entry: DatasetEntry, data: zoo.Dataset) -> None:
    """Declared mean and std are roughly those of the images; several ways to compute them pass.

    An entry that declares none has 0.5. Recipes and models are not checked: pretrained weights
    keep the statistics that they were trained with, whatever the images are.
    """
    declared = {"mean": entry.mean, "std": entry.std}
    if set(declared.values()) == {(0.5,)}:
        return
    rows = np.linspace(0, len(data.train) - 1, min(len(data.train), SAMPLE)).astype(np.int64)
    pixels = data.train.images[rows] / np.float32(255)
    means, stds = pixels.mean((0, 1, 2)), pixels.std((0, 1, 2))
    spread = np.maximum(stds, 1e-3) / np.array(data.std)
    if (abs(means - data.mean) > OFF).any() or (abs(np.log(spread)) > math.log(TIMES)).any():
        found = {"mean": means, "std": stds}
        wanted = (f"{k}={tuple(round(float(v), 4) for v in vs)}" for k, vs in found.items())
        raise Finding(
            f"{entry.name} declares mean={entry.mean} and std={entry.std}, and its images have "
            f"{' and '.join(wanted)}",
            "models that are trained on it get inputs that are far from 0 or hardly vary",
            "write what the images have into the entry, or leave both out",
        )


def check_dataset(name: str) -> None:
    """It can be opened, and is what the entry says: sizes, digests, mean and std."""
    entry, data, said = registry().datasets.get(name), None, []
    check_signature(name, entry.target, entry.config)
    for _ in range(2):
        try:
            data = open_dataset(name)
            said.append(data.digest)
        except zoo.UsageError as error:
            raise Skipped(f"it needs options: {error}") from error
        except zoo.DataError as error:
            said.append(" ".join(str(error).split()))
            if "could not be fetched" in said[0] and "not what it should be" not in said[0]:
                raise Skipped(said[0]) from error
    if said[0] != said[1]:
        raise Finding(
            f"{entry.target} gives other arrays each time: it draws at random without a seed",
            "no two people would train on the same data, and no digest can hold",
            "draw from numpy.random.default_rng(0), or sort the files that it reads",
        )
    if data is None:
        raise Finding(
            said[0],
            "`zoo train --dataset` stops with that sentence",
            "correct the entry or the target; docs/datasets.md says what it delivers",
        )
    if not entry.digests:
        # The names of the classes are in the entry.
        digests = {what: digest for what, digest in data.digests.items() if what != "classes"}
        raise Finding(
            f"{name} does not say which bytes it is made of",
            "nobody who fetches it later can know whether it is still the same data",
            f"write digests={digests!r} into the entry",
        )
    check_statistics(entry, data)
    seen = {hash(image.tobytes()) for image in data.train.images}
    tested = data.test.images if data.test else ()
    if (shared := sum(hash(image.tobytes()) in seen for image in tested)) > SHARED * len(tested):
        raise Finding(
            f"{shared} of {len(tested)} test images of {entry.name} are the same as in training",
            "a model that remembers them scores well, and nobody learns how good it is",
            "keep each image in one split: look at the slices that the target takes",
        )
