"""From a reference to weights, and from weights to a model that can be used.

A reference is a model (`cnn`), weights of it (`cnn.cifar10`), a run, a .safetensors file, or a
repository (`hf:org/name@revision`, `file:FOLDER`). Whatever it is, the file passes verify.py.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_core import strict_json
from zoo_core.errors import (
    MissingDependency,
    UnknownName,
    UsageError,
    WeightsError,
    ZooError,
    did_you_mean,
)
from zoo_core.files import read_bytes
from zoo_core.hub import store
from zoo_core.hub.repository import CONFIG, is_repository
from zoo_core.manifest import (
    LARGEST_ENTRY,
    Listed,
    Weights,
    all_weights,
    default_weights,
    find_weights,
    parse,
)
from zoo_core.models import assemble, check_options, trainer_of
from zoo_core.registry import plugin_of, registry
from zoo_core.targets import describe
from zoo_core.train.run import Run, find_run
from zoo_core.types import ModelEntry

if TYPE_CHECKING:
    import numpy as np

    from zoo_core.data.preprocess import Preprocess
    from zoo_core.hub.verify import WeightsFile
    from zoo_core.train.job import Trainer

RUN_NAME = re.compile(r".+-\d{8}T\d{6}Z(-\d+)?")


@dataclass(frozen=True)
class Found:
    """Weights on this machine, and what is known about them; the file is not checked yet."""

    reference: str  # as it was typed
    source: str  # where they come from, exactly
    path: Path
    model: str  # plugin/name
    config: Mapping[str, Any]
    classes: tuple[str, ...] = ()
    preprocess: Mapping[str, Any] = field(default_factory=dict)
    dataset: str = ""  # a name or a folder
    data_options: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    sha256: str = ""  # "" and None where there is nothing to compare with
    bytes: int | None = None
    dtype: str = ""
    distribution: str = ""
    run: Run | None = None
    follow: bool = True  # whether the file may be a symbolic link


@dataclass(frozen=True)
class About:
    """What `zoo.load(...).zoo` says about a model."""

    entry: ModelEntry
    config: Mapping[str, Any]
    classes: tuple[str, ...]
    preprocess: Preprocess | None
    metrics: Mapping[str, float]
    digest: str  # sha256 of the weight file; "" for a model without weights
    source: str


# ---------------------------------------------------------------- finding


def published(reference: str) -> Listed | None:
    """The entry of published weights, by name or by repository; None for a run or a file."""
    if is_repository(reference):
        return Listed(store.look_up(reference), "", "")
    return look_up_name(reference) if _is_name(reference) else None


def _is_name(reference: str) -> bool:
    """Whether a reference is a name of the manifests, rather than a run."""
    if reference == "latest" or reference.endswith(".safetensors"):
        return False
    if RUN_NAME.fullmatch(reference) or _is_path(reference):
        return False
    bare = reference.rpartition("/")[2]
    if bare.partition(".")[0] in registry().models:
        return True
    return any(bare in (one.weights.name, one.weights.model) for one in all_weights()[0])


def _is_path(reference: str) -> bool:
    """A bare name is never a path, and `a/b` is none if `a` is a plugin."""
    if reference.startswith((".", "~")) or Path(reference).is_absolute() or "\\" in reference:
        return True
    head, slash, _ = reference.partition("/")
    known = {plugin_of(entry) for entry in registry().models}
    return bool(slash) and head not in known


def look_up_name(name: str) -> Listed:
    """The entry that a name means: `model` or `model.tag`, with or without `plugin/`."""
    listed, problems = all_weights()
    try:
        if "." in name:
            return find_weights(name, listed)
        entry = registry().models.get(name)
    except UnknownName as error:
        by_model = [one for one in listed if one.weights.model == name.rpartition("/")[2]]
        if by_model:  # known, but its plugin is not installed
            return by_model[0]
        if problems:
            raise UnknownName(str(error), f"{error.hint}; {problems[0]}") from error
        raise
    found = default_weights(listed, entry.name, plugin_of(entry), entry.dataset)
    if found is None:
        raise WeightsError(
            f"no weights of model {name!r} are published",
            f"zoo train {name} makes some; zoo.create({name!r}) builds it untrained",
        )
    return found


def find(reference: str, runs: Path | None = None, *, fetch: bool = True) -> Found:
    """The weights that a person means, brought here if they are not yet.

    fetch: False for the place where they are or would be.
    """
    listed = published(reference)
    if listed is None:
        if reference.endswith(".safetensors"):
            return _of_file(Path(reference).expanduser())
        try:
            return of_run(find_run(reference, runs, trained=True), reference)
        except UnknownName as error:
            if _is_path(reference):
                raise
            known = [*registry().models.labels(), *(one.weights.name for one in all_weights()[0])]
            hint = did_you_mean(reference, known, error.hint, most=2)
            raise UnknownName(f"there is no run and no model {reference!r}", hint) from error
    if fetch:
        path = store.obtain(
            listed, lambda path: check(_of_weights(reference, listed.weights, path))
        )
        if is_repository(reference):
            store.note(reference, listed.weights)
    else:
        path = store.packaged_file(listed) or store.stored_file(listed.weights)
    return _of_weights(reference, listed.weights, path)


def _of_weights(reference: str, weights: Weights, path: Path) -> Found:
    return Found(
        reference,
        weights.sources[0] if weights.sources else str(path),
        path,
        f"{weights.plugin}/{weights.model}",
        weights.config,
        weights.classes,
        weights.preprocess,
        weights.dataset,
        {
            key.removeprefix("data."): value
            for key, value in weights.recipe.items()
            if key.startswith("data.")
        },
        weights.metrics,
        weights.sha256,
        weights.bytes,
        weights.dtype,
        weights.distribution,
        follow=False,
    )


def of_run(run: Run, reference: str = "") -> Found:
    """The weights of a run; run.json knows their digest."""
    document = run.read()
    try:
        result = document["result"]
        if not result or not run.model_file.exists():
            raise WeightsError(
                f"{run.path} has no trained weights yet", f"zoo train --resume {run.path}"
            )
        file, model, data = result["model"], document["model"], document["dataset"]
        split, figures = measured(result)
        return Found(
            reference or str(run.path),
            str(run.path),
            run.model_file,
            f"{model['plugin']}/{model['name']}",
            dict(model["config"]),
            tuple(data["classes"]),
            document["preprocess"],
            data["reference"],
            document["recipe"]["data"],
            {
                f"{split}_{name}": value
                for name, value in figures.items()
                if isinstance(value, int | float)
            },
            str(file["sha256"]),
            int(file["bytes"]),
            distribution=model["distribution"],
            run=run,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ZooError(f"{run.settings_file} is damaged: {describe(error)}") from error


def measured(result: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The split that a run's result was measured on, and its figures."""
    split = next((name for name in ("test", "validation", "train") if result.get(name)), "test")
    return split, result.get(split) or {}


def _of_file(path: Path) -> Found:
    """A file on its own: a run's, one with a config.json beside it, or one that tells itself."""
    if (path.parent / "run.json").exists() and path.name == "model.safetensors":
        return of_run(Run(path.parent), str(path))
    beside = path.parent / CONFIG
    if beside.exists():
        try:
            weights = parse(read_bytes(beside, LARGEST_ENTRY), Weights, str(beside))
        except OSError as error:
            raise WeightsError(f"{beside} cannot be read: {error.strerror}") from error
        if weights.file.rpartition("/")[2] == path.name:
            return _of_weights(str(path), weights, path)
    return Found(str(path), str(path), path, "", {})


# ---------------------------------------------------------------- loading


def open_found(found: Found, *, rehash: bool = False) -> tuple[Found, WeightsFile]:
    """The checked file, and what is known of it; a file on its own says it in its metadata."""
    from zoo_core.hub.verify import open_weights

    file = open_weights(
        found.path, sha256=found.sha256, size=found.bytes, follow=found.follow, rehash=rehash
    )
    if found.model:
        return found, file
    try:
        about = strict_json.loads(file.header.metadata["zoo"].encode())
        model, config, classes = str(about["model"]), dict(about["config"]), about["classes"]
        told = Found(
            found.reference, found.source, found.path, model, config, tuple(map(str, classes)),
            dict(about["preprocess"]), str(about["dataset"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise WeightsError(
            f"{found.path} does not say of which model it is",
            "put the config.json of its repository beside it",
        ) from error
    return told, file


def tensors_of(found: Found) -> dict[str, np.ndarray]:
    """All tensors that are there, checked as a file, for somebody who takes what fits."""
    from zoo_core.hub.verify import check_tensors, open_weights

    file = open_weights(found.path, sha256=found.sha256, size=found.bytes, follow=found.follow)
    return check_tensors(file, None, found.dtype)


def fitting(tensors: Mapping[str, np.ndarray], spec: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Those of the tensors that a model can take."""
    return {
        name: array
        for name, array in tensors.items()
        if name in spec and tuple(array.shape) == tuple(spec[name][0])
    }


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
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in found.config.items()}
    return entry, check_options(entry, options)


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


def check(found: Found, *, rehash: bool = False) -> dict[str, Any]:
    """Everything that a load checks; against the model only where that can be built here."""
    from zoo_core.hub.verify import check_tensors

    found, file = open_found(found, rehash=rehash)
    spec = None
    if found.model in registry().models:
        entry, config = model_of(found)
        with contextlib.suppress(MissingDependency):  # the plugin is here, its framework is not
            spec = spec_of(trainer_of(entry), entry, config)
    check_tensors(file, spec, found.dtype)
    return {
        "path": str(found.path),
        "bytes": file.bytes,
        "sha256": file.sha256,
        "compared": bool(found.sha256),  # with a digest that was known before
        "fits": None if spec is None else found.model,
    }


def load_found(
    found: Found,
    *,
    num_classes: int | None = None,
    device: str = "cpu",
    dtype: str = "",
    rehash: bool = False,
) -> Any:
    """Check weights and make the model of them; its attribute `zoo` says what it is."""
    from zoo_core.data.preprocess import Preprocess
    from zoo_core.hub.verify import check_tensors

    found, file = open_found(found, rehash=rehash)
    entry, config = model_of(found)
    trainer = trainer_of(entry)
    spec = spec_of(trainer, entry, config)
    tensors = check_tensors(file, spec, found.dtype)
    preprocess = Preprocess.from_dict(found.preprocess)
    classes, metrics = found.classes, found.metrics
    if len(classes) > config.get("num_classes", len(classes)):
        raise WeightsError(f"{found.reference} names more classes than its model has")
    if num_classes is not None and num_classes != config.get("num_classes"):
        config = check_options(entry, {**config, "num_classes": num_classes})
        spec = spec_of(trainer, entry, config)
        kept = fitting(tensors, spec)
        new = [name for name in spec if name not in kept]
        store.say(f"{found.reference}: {len(kept)} of {len(spec)} tensors; new: {', '.join(new)}.")
        tensors, classes, metrics = kept, (), {}
    model = assemble(trainer, entry, config, tensors, device, dtype)
    model.zoo = About(entry, config, classes, preprocess, metrics, file.sha256, found.source)
    return model


def load_untrained(
    reference: str, runs: Path | None, num_classes: int | None, device: str, dtype: str
) -> Any:
    """The model of a reference as it is before any training; no weights are fetched."""
    if reference in registry().models:
        entry = registry().models.get(reference)
        config = entry.options
    else:
        found = find(reference, runs, fetch=False)
        entry, config = model_of(found if found.model else open_found(found)[0])
    if num_classes is not None:
        config = check_options(entry, {**config, "num_classes": num_classes})
    model = assemble(trainer_of(entry), entry, config, {}, device, dtype)
    model.zoo = About(entry, config, (), None, {}, "", "")
    return model


def load(
    reference: str | Path,
    *,
    pretrained: bool = True,
    num_classes: int | None = None,
    device: str = "cpu",
    dtype: Any = "",
    runs: Path | None = None,
) -> Any:
    """See zoo_core.api.load."""
    text, kind = str(reference), str(dtype).removeprefix("torch.") if dtype else ""
    if "\0" in text or not text:
        raise UsageError(f"{text!r} is no reference to weights")
    if isinstance(reference, Path) and not reference.is_absolute():
        text = f"./{text}"
    if not pretrained:
        return load_untrained(text, runs, num_classes, device, kind)
    return load_found(find(text, runs), num_classes=num_classes, device=device, dtype=kind)
