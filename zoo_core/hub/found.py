"""Weights on this machine, what is known about them, and every check that they must pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from zoo_core import strict_json
from zoo_core.errors import MissingDependency, UnknownName, WeightsError, ZooError
from zoo_core.manifest import Value
from zoo_core.models import check_options, trainer_of
from zoo_core.registry import registry
from zoo_core.targets import describe
from zoo_core.train.run import Run
from zoo_core.types import ModelEntry, freeze

if TYPE_CHECKING:
    import numpy as np

    from zoo_core.data.preprocess import Preprocess
    from zoo_core.hub.verify import Spec, WeightsFile
    from zoo_core.train.job import Trainer


@dataclass(frozen=True, kw_only=True)
class Found:
    """Weights on this machine, and what is known about them; the file is not checked yet."""

    reference: str  # as it was typed
    source: str  # where they come from, exactly
    path: Path
    model: str = ""  # plugin/name; "" where only the file itself can tell
    config: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    preprocess: Mapping[str, Any] = field(default_factory=dict)
    dataset: str = ""  # a name or a folder
    data_options: Mapping[str, Any] = field(default_factory=dict)
    task_options: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    sha256: str = ""  # "" and None where there is nothing to compare with
    bytes: int | None = None
    dtype: str = ""
    distribution: str = ""
    run: Run | None = None


class Told(msgspec.Struct, frozen=True):
    """What a run, or a file on its own, must say about its model; nobody else has checked it."""

    model: str
    config: dict[str, Value]
    dataset: str
    classes: tuple[str, ...]
    preprocess: dict[str, Value]


@dataclass(frozen=True)
class Checked:
    """The same, once every check is passed."""

    found: Found
    file: WeightsFile
    tensors: Mapping[str, np.ndarray]
    preprocess: Preprocess
    fits: bool  # the model; False where that is not installed, or its framework is not


def check(found: Found, *, rehash: bool = False) -> Checked:
    """Everything that must hold of weights before they are kept or used."""
    from zoo_core.data.preprocess import Preprocess
    from zoo_core.hub.verify import check_tensors, open_weights

    file = open_weights(found.path, sha256=found.sha256, size=found.bytes, rehash=rehash)
    if not found.model:
        found = _told_by(file, found)
    spec = _spec(found) if found.model in registry().models else None
    tensors = check_tensors(file, spec, found.dtype)
    try:
        preprocess = Preprocess.from_dict(found.preprocess)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise WeightsError(
            f"the preprocessing that comes with {found.reference} is none: {describe(error)}"
        ) from error
    return Checked(found, file, tensors, preprocess, spec is not None)


def _told_by(file: WeightsFile, found: Found) -> Found:
    """What a file on its own says about itself, in its metadata."""
    try:
        told = msgspec.convert(strict_json.loads(file.header.metadata["zoo"].encode()), Told)
    except (KeyError, ValueError) as error:
        raise WeightsError(
            f"{found.path} does not say of which model it is",
            "put the config.json of its repository beside it",
        ) from error
    return replace(found, **msgspec.structs.asdict(told))


def _spec(found: Found) -> Spec | None:
    entry, config = model_of(found)
    try:
        spec = spec_of(trainer_of(entry), entry, config)
    except MissingDependency:
        return None  # the plugin is here, and its framework is not
    outputs = config.get("num_classes")
    if isinstance(outputs, int) and len(found.classes) > outputs:
        raise WeightsError(f"{found.reference} names more classes than its model has")
    return spec


def model_of(found: Found) -> tuple[ModelEntry, dict[str, Any]]:
    """The model that weights belong to, with its options. Only installed plugins are asked."""
    try:
        entry = registry().models.get(found.model)
    except UnknownName as error:
        name = found.model.rpartition("/")[2]
        install = f"pip install {found.distribution}" if found.distribution else error.hint
        raise UnknownName(
            f"{found.reference} is made for model {found.model!r}, which is not installed",
            install if name not in registry().models else f"{install}, which has a {name} too",
        ) from error
    return entry, check_options(entry, freeze(found.config))


def spec_of(trainer: Trainer, entry: ModelEntry, config: Mapping[str, Any]) -> dict[str, Any]:
    """A trainer's tensor_spec; options that come with weights may be absurd."""
    try:
        return trainer.tensor_spec(entry, config)
    except ZooError:
        raise
    except Exception as error:
        raise WeightsError(
            f"model {entry.name!r} cannot be built with the options that come with the weights: "
            f"{describe(error)[:200]}"
        ) from error
