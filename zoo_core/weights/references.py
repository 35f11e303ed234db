"""From what a person types to weights on this machine, fetched if they are not here.

A reference is a model (`cnn`), weights of it (`cnn.cifar10`), a run, a .safetensors file, or a
repository (`hf:org/name@revision`, `file:FOLDER`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from zoo_core.io.errors import UnknownName, WeightsError, ZooError, did_you_mean
from zoo_core.io.files import cache_dir, read_bytes
from zoo_core.io.targets import describe
from zoo_core.runs.run import Run, find_run
from zoo_core.spec.recipe import DIGEST
from zoo_core.spec.registry import is_path, plugin_of, registry
from zoo_core.weights import store
from zoo_core.weights.manifest import (
    LARGEST_ENTRY,
    Listed,
    Weights,
    all_weights,
    default_weights,
    find_weights,
    parse,
)
from zoo_core.weights.repository import CONFIG, is_repository
from zoo_core.weights.verify import Found, Told, check

RUN_NAME = re.compile(r".+-\d{8}T\d{6}Z(-\d+)?")


def published(reference: str) -> Listed | None:
    """The entry of published weights, by name or by repository; None for a run or a file."""
    if is_repository(reference):
        return Listed(store.look_up(reference), "", "")
    return look_up_name(reference) if _is_name(reference) else None


def _is_name(reference: str) -> bool:
    """Whether a reference is a name of the manifests, rather than a run."""
    if reference == "latest" or reference.endswith(".safetensors"):
        return False
    if RUN_NAME.fullmatch(reference) or is_path(reference):
        return False
    bare = reference.rpartition("/")[2]
    if bare.partition(".")[0] in registry().models:
        return True
    return any(bare in (one.weights.name, one.weights.model) for one in all_weights()[0])


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
            f"there are no trained weights of model {name!r}",
            f"zoo train {name} makes some, zoo.create({name!r}) builds it untrained; "
            "zoo list --weights shows what is trained already",
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
            if is_path(reference):
                written = "a repository is written hf:ORGANISATION/NAME, a folder file:FOLDER"
                raise UnknownName(str(error), f"{error.hint}; {written}") from error
            known = [*registry().models.labels(), *(one.weights.name for one in all_weights()[0])]
            shows = "zoo list --weights shows what can be loaded, zoo runs your own runs"
            hint = did_you_mean(reference, known, shows, most=2)
            raise UnknownName(f"there is no model and no run {reference!r}", hint) from error
    if fetch:
        path = store.obtain(listed, lambda path: check(of_weights(reference, listed.weights, path)))
        if is_repository(reference):
            store.note(reference, listed.weights)
    else:
        path = store.packaged_file(listed) or store.stored_file(listed.weights)
    return of_weights(reference, listed.weights, path)


def of_weights(reference: str, weights: Weights, path: Path) -> Found:
    return Found(
        reference=reference,
        source=weights.sources[0] if weights.sources else str(path),
        path=path,
        model=f"{weights.plugin}/{weights.model}",
        distribution=weights.distribution,
        config=weights.config,
        classes=weights.classes,
        preprocess=weights.preprocess,
        dataset=weights.dataset,
        data_options=_section("data.", weights.recipe),
        task_options=_section("task.", weights.recipe),
        metrics=weights.metrics,
        sha256=weights.sha256,
        bytes=weights.bytes,
        dtype=weights.dtype,
    )


def _section(prefix: str, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a dataset or a task, out of the flat recipe of a manifest."""
    return {k.removeprefix(prefix): v for k, v in recipe.items() if k.startswith(prefix)}


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
        told = {
            "model": f"{model['plugin']}/{model['name']}",
            "config": model["config"],
            "dataset": data["reference"],
            "classes": data["classes"],
            "preprocess": document["preprocess"],
        }
        return Found(
            reference=reference or str(run.path),
            source=str(run.path),
            path=run.model_file,
            distribution=model["distribution"],
            data_options=document["recipe"]["data"],
            task_options=document["recipe"]["task"],
            metrics={
                f"{split}_{name}": value
                for name, value in figures.items()
                if isinstance(value, int | float) and math.isfinite(value)
            },
            sha256=str(file["sha256"]),
            bytes=int(file["bytes"]),
            run=run,
            **msgspec.structs.asdict(msgspec.convert(told, Told)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ZooError(f"{run.settings_file} is damaged: {describe(error)}") from error


def measured(result: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The split that a run's result was measured on, and its figures."""
    split = next((name for name in ("test", "validation", "train") if result.get(name)), "test")
    return split, result.get(split) or {}


def _of_file(path: Path) -> Found:
    """A file on its own: a run's, one with a config.json beside it, or one that tells itself."""
    if not path.exists():
        raise UnknownName(
            f"there is no file {path}", "zoo list --weights shows what can be loaded by name"
        )
    if (path.parent / "run.json").exists() and path.name == "model.safetensors":
        return of_run(Run(path.parent), str(path))
    beside = path.parent / CONFIG
    if beside.exists():
        try:
            weights = parse(read_bytes(beside, LARGEST_ENTRY), Weights, str(beside))
        except OSError as error:
            raise WeightsError(f"{beside} cannot be read: {error.strerror}") from error
        if weights.file.rpartition("/")[2] == path.name:
            return of_weights(str(path), weights, path)
    # A file of the store has its digest for a name, whatever else is known of it.
    stored = path.parent == cache_dir("weights") and DIGEST.fullmatch(path.stem)
    return Found(
        reference=str(path), source=str(path), path=path, sha256=path.stem if stored else ""
    )
