"""From what a person types to weights on this machine.

A reference is a model (`cnn`), weights of it (`cnn.cifar10`), a run, a .safetensors file, or a
repository (`hf:org/name@revision`, `file:FOLDER`). `locate` says where the weights are or would be;
`obtain` brings them here if they are not, and checks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from zoo_core.io.console import typed
from zoo_core.io.errors import UnknownName, WeightsError, did_you_mean, os_errors
from zoo_core.io.files import cache_dir, read_bytes
from zoo_core.io.targets import describe
from zoo_core.runs.run import Run
from zoo_core.runs.summary import final_scores, number
from zoo_core.spec.recipe import DIGEST
from zoo_core.spec.registry import is_path, registry
from zoo_core.weights import manifest, store
from zoo_core.weights.listing import published
from zoo_core.weights.manifest import Weights, all_weights, packaged_file
from zoo_core.weights.repository import CONFIG, Repository, is_repository, open_repository
from zoo_core.weights.verify import Located, Verified, check, told

SAME = {one.name for one in fields(Located)} & {*Weights.__struct_fields__} - {"model"}
SHOWS = "zoo list --weights shows what can be loaded"


def locate(reference: str, runs: Path | None = None) -> Located:
    """Where the weights are that a person means, or would be; nothing is fetched."""
    weights = published(reference)
    if weights is None:
        return _of_file_or_run(reference, runs)
    return of_weights(weights, packaged_file(weights) or store.stored_file(weights), reference)


def obtain(reference: str, runs: Path | None = None, *, tensors_only: bool = False) -> Verified:
    """The weights that a person means, brought here if they are not yet, and checked once."""
    repository = open_repository(reference) if is_repository(reference) else None
    weights = store.look_up(*repository) if repository else published(reference)
    if weights is None:
        return check(_of_file_or_run(reference, runs), tensors_only=tensors_only)
    path, verified = store.obtain(
        weights, lambda at: check(of_weights(weights, at, reference), tensors_only=tensors_only)
    )
    if repository:
        store.note(*repository, weights)
    return replace(verified, located=replace(verified.located, path=path))


def obtain_anew(repository: Repository, commit: str, folder: Path) -> Verified:
    """What a repository holds, fetched into an empty folder: no copy on this machine stands in."""
    weights, path = store.ask(repository, commit), folder / "fetched.safetensors"
    with store.keeping(path):
        return store.fetch_from(
            repository, commit, weights, path, lambda at: check(of_weights(weights, at))
        )


def of_weights(weights: Weights, path: Path, reference: str = "") -> Located:
    """An entry and a file of it."""
    return Located(
        reference=reference or weights.name,
        source=weights.sources[0] if weights.sources else str(path),
        path=path,
        model=f"{weights.plugin}/{weights.model}",
        data_options=_section("data.", weights.recipe),
        task_options=_section("task.", weights.recipe),
        **{name: getattr(weights, name) for name in SAME},
    )


def _section(prefix: str, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a dataset or a task, out of the flat recipe of a manifest."""
    return {k.removeprefix(prefix): v for k, v in recipe.items() if k.startswith(prefix)}


def _of_file_or_run(reference: str, runs: Path | None) -> Located:
    if reference.endswith(".safetensors"):
        return _of_file(Path(reference).expanduser())
    try:
        return of_run(Run.find_trained(reference, runs), reference)
    except UnknownName as error:
        if is_path(reference):
            written = "a repository is written hf:ORGANISATION/NAME, a folder file:FOLDER"
            raise UnknownName(str(error), f"{error.hint}; {written}") from error
        known = [*registry().models.labels(), *(weights.name for _, weights in all_weights()[0])]
        hint = did_you_mean(reference, known, f"{SHOWS}, and zoo runs your own runs", most=2)
        raise UnknownName(f"there is no model and no run {reference!r}", hint) from error


def of_run(run: Run, reference: str = "") -> Located:
    """The weights of a run; run.json knows their digest."""
    document = run.read()
    try:
        result = document["result"]
        if not result or not run.model_file.exists():
            what = f"{run.path} has no trained weights yet"
            raise WeightsError(what, typed("zoo train --resume", run.path))
        model, data = document["model"], document["dataset"]
        split, figures = final_scores(result, ())
        return Located(
            reference=reference or str(run.path),
            source=str(run.path),
            path=run.model_file,
            distribution=model["distribution"],
            data_options=document["recipe"].get("data", {}),
            task_options=document["recipe"].get("task", {}),
            metrics={
                f"{split}_{n}": v
                for n, v in figures.items()
                if n != "images" and number(v) is not None
            },
            sha256=str(result["model"]["sha256"]),
            bytes=int(result["model"]["bytes"]),
            temperature=result.get("temperature") or 1.0,
            run=document,
            **told(
                model=f"{model['plugin']}/{model['name']}",
                config={**model["config"], **result.get("config", {})},
                dataset=data["reference"],
                classes=data["classes"],
                targets=data.get("targets", {}),
                preprocess=document["preprocess"],
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WeightsError(f"{run.settings_file} is damaged: {describe(error)}") from error


def check_packaged(target: str) -> None:
    """Check the weights that a package ships: "package:weights.json", as a hook names the list."""
    package, _, name = target.partition(":")
    for weights in manifest.read(manifest.package_folder(package) / name, package):
        if path := packaged_file(weights):
            check(of_weights(weights, path))
        elif all(map(manifest.is_packaged, weights.sources)):
            raise WeightsError(f"{weights.file} of {weights.name} is not in the package")


def entry_beside(path: Path) -> Weights | None:
    """What a config.json beside a file says of it, as in a copy of a repository."""
    beside = path.parent / CONFIG
    if not beside.exists():
        return None
    with os_errors(f"{beside} cannot be read", WeightsError):
        data = read_bytes(beside, manifest.LARGEST_ENTRY)
    weights = manifest.parse(data, Weights, str(beside))
    return weights if weights.file.rpartition("/")[2] == path.name else None


def _of_file(path: Path) -> Located:
    """A file on its own: a run's, one with a config.json beside it, or one that tells itself."""
    if not path.exists():
        raise UnknownName(f"there is no file {path}", f"{SHOWS} by name")
    if (path.parent / "run.json").exists() and path.name == "model.safetensors":
        return of_run(Run(path.parent), str(path))
    if weights := entry_beside(path):
        return of_weights(weights, path, str(path))
    # A file of the store has its digest for a name, whatever else is known of it.
    stored = path.parent == cache_dir("weights") and DIGEST.fullmatch(path.stem)
    return Located(
        reference=str(path), source=str(path), path=path, sha256=path.stem if stored else ""
    )
