"""The hooks that a plugin can implement, in the order in which the zoo calls them: docs/hooks.md.

A plugin is a module that an entry point of the group `zoo` names. It marks functions of these names
with `@zoo.hookimpl` and may leave out any of them, and any argument that it does not need. Keep it
light, because everybody's `zoo list` imports it: torch belongs in the module that a target names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from zoo_core.spec.entries import (
        AugmentationEntry,
        CommandEntry,
        DatasetEntry,
        EngineEntry,
        ModelEntry,
        ReaderEntry,
        TrainerEntry,
    )

API = 1  # the major version of these hooks and entry types; a plugin may say `ZOO_API = 1`
hookspec = pluggy.HookspecMarker("zoo")
hookimpl = pluggy.HookimplMarker("zoo")


# What a plugin contributes. Called once, when the plugin is loaded. Whatever is wrong with a result
# makes this plugin `failed` in `zoo plugins`, and changes nothing for anybody else.


@hookspec
def zoo_models() -> Iterable[ModelEntry]:  # type: ignore[empty-body]
    """Architectures for `zoo list`, `zoo train` and `zoo.create`, with names unique in the plugin.

    Another plugin may use the same name; then both are reached as `plugin/name`.
    """


@hookspec
def zoo_datasets() -> Iterable[DatasetEntry]:  # type: ignore[empty-body]
    """Images for `--dataset` and `zoo data`.

    Return the entries. The zoo caches and verifies what their targets deliver.
    """


@hookspec
def zoo_readers() -> Iterable[ReaderEntry]:  # type: ignore[empty-body]
    """Kinds of datasets that people bring, for references such as ./photos.csv or hf:org/name.

    Return the entries. Two readers of one suffix or prefix: the reference is refused, naming both.
    """


@hookspec
def zoo_trainers() -> Iterable[TrainerEntry]:  # type: ignore[empty-body]
    """Trainers, for models that the torch trainer of the zoo cannot train.

    Return the entries. A model chooses one by name with `ModelEntry.trainer`.
    """


@hookspec
def zoo_augmentations() -> Iterable[AugmentationEntry]:  # type: ignore[empty-body]
    """Words for `augment` in a recipe: what training does to images at random.

    Another plugin may use the same word; then both are reached as `plugin/word`.
    """


@hookspec
def zoo_manifests() -> Iterable[str]:  # type: ignore[empty-body]
    """Lists of trained weights, such as "zoo_tiny:weights.json": a package and a file inside it.

    Its format is that of weights_manifest.json. It is read when somebody asks for weights.
    """


@hookspec
def zoo_commands() -> Iterable[CommandEntry]:  # type: ignore[empty-body]
    """Commands for `zoo`, shown by `zoo --help` in a section of their own.

    A name that the zoo or another plugin has too is never taken over: the plugin's command is then
    reached as `plugin/name`.
    """


@hookspec
def zoo_engines() -> Iterable[EngineEntry]:  # type: ignore[empty-body]
    """Places where many independent pieces of work run, for `--engine`: a cluster for example.

    Return the entries. A search and a sweep give an engine their trials, one at a time.
    """


# The life of a run, for loggers. Called in this order, in the process that trains. One that raises
# is warned about and not called again in that run; it never stops the training.


@hookspec
def zoo_run_started(run: Any) -> None:
    """A run is about to take its first step, or its first one after a resume.

    run: has `path`, `name`, `read()` for run.json and `metrics()` for the epochs so far.
    """


@hookspec
def zoo_epoch_ended(run: Any, epoch: int, metrics: Mapping[str, Any]) -> None:
    """An epoch is over and its line is in metrics.jsonl.

    run: as above. epoch: counted from 1. metrics: that line, names to numbers.
    """


@hookspec
def zoo_run_ended(run: Any, result: Any) -> None:
    """The run is complete: the weights and the report are written.

    run: as above. result: what `zoo.train` returns.
    """


@hookspec
def zoo_run_failed(run: Any, error: BaseException) -> None:
    """The run stopped before its end, by an error or by an interruption that can be resumed."""


HOOKS = [name for name in dir() if name.startswith("zoo_")]
