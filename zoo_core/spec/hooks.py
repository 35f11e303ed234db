"""The hooks that a plugin can implement, in the order in which the zoo calls them.

A plugin is a module that an entry point of the group `zoo` names. It marks functions of these names
with `@zoo.hookimpl` and may leave out any of them, and any argument that it does not need:

    import zoo

    @zoo.hookimpl
    def zoo_models():
        return [zoo.ModelEntry(name="tiny", target="zoo_tiny.model:Tiny", summary="A tiny network")]

Keep that module light. Everybody's `zoo list` imports it, so torch and the like belong in the
module that the target names, which is imported only when somebody uses the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from zoo_core.spec.entries import DatasetEntry, ModelEntry, TrainerEntry

API = 1
"""The major version of these hooks and entry types. A plugin may say `ZOO_API = 1`."""

hookspec = pluggy.HookspecMarker("zoo")
hookimpl = pluggy.HookimplMarker("zoo")


# ---------------------------------------------------------------- what a plugin contributes
# Called once, when the plugin is loaded. Whatever is wrong with the result of one of them makes
# this plugin `failed` in `zoo plugins`, and changes nothing for anybody else.


@hookspec
def zoo_models() -> Iterable[ModelEntry]:  # type: ignore[empty-body]
    """Architectures for `zoo list`, `zoo train` and `zoo.create`.

    Return the entries. Names are unique within the plugin; another plugin may use the same name,
    and then both are reached as `plugin/name`.
    """


@hookspec
def zoo_datasets() -> Iterable[DatasetEntry]:  # type: ignore[empty-body]
    """Pictures for `--dataset` and `zoo data`.

    Return the entries. The zoo caches and verifies what their targets deliver.
    """


@hookspec
def zoo_trainers() -> Iterable[TrainerEntry]:  # type: ignore[empty-body]
    """Trainers, for models that the torch trainer of the zoo cannot train.

    Return the entries. A model chooses one by name with `ModelEntry.trainer`.
    """


@hookspec
def zoo_manifests() -> Iterable[str]:  # type: ignore[empty-body]
    """Lists of trained weights that the plugin knows of.

    Return strings such as "zoo_tiny:weights.json": a package and a file inside it, in the format of
    weights_manifest.json. The files are read when somebody asks for weights, not before.
    """


# ---------------------------------------------------------------- the life of a run
# For loggers. Called in this order, in the process that trains. An implementation that raises is
# warned about and not called again in that run; it never stops the training.


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
    """The run stopped before its end: an error, or an interruption that can be resumed.

    run: as above. error: what stopped it.
    """
