"""From what a person types to weights on this machine.

A reference is a model (`cnn`), weights of it (`cnn.cifar10`), a run, a .safetensors file, or a
repository (`hf:org/name@revision`, `file:FOLDER`). `locate` says where the weights are or would be;
`obtain` brings them here if they are not, and checks them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from zoo_core.io.errors import AmbiguousName, UnknownName, WeightsError, did_you_mean, os_errors
from zoo_core.io.files import cache_dir, read_bytes
from zoo_core.io.targets import describe
from zoo_core.runs.run import Run
from zoo_core.runs.summary import final_scores, number
from zoo_core.spec.recipe import DIGEST
from zoo_core.spec.registry import is_path, plugin_of, registry
from zoo_core.weights import manifest, store
from zoo_core.weights.manifest import Listed, Weights, all_weights, packaged_file
from zoo_core.weights.repository import CONFIG, Repository, is_repository, open_repository
from zoo_core.weights.verify import Located, Verified, check, told

NOT_LISTED = re.compile(r"latest|.+\.safetensors|.+-\d{8}T\d{6}Z(-\d+)?")  # a run or a file
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


def published(reference: str) -> Weights | None:
    """The entry of published weights, by name or by repository; None for a run or a file."""
    if is_repository(reference):
        return store.look_up(*open_repository(reference))
    if NOT_LISTED.fullmatch(reference) or is_path(reference):
        return None
    bare = reference.rpartition("/")[2]
    known = bare.partition(".")[0] in registry().models
    if known or any(bare in (weights.name, weights.model) for _, weights in all_weights()[0]):
        return look_up_name(reference)
    return None


def look_up_name(name: str) -> Weights:
    """The entry that a name means: `model` or `model.tag`, with or without `plugin/`."""
    listed, problems = all_weights()
    try:
        if "." in name:
            return _entry_called(name, listed)
        entry = registry().models.get(name)
    except UnknownName as error:
        by_model = [w for _, w in listed if w.model == name.rpartition("/")[2]]
        if by_model:  # known, but its plugin is not installed
            return by_model[0]
        for problem in problems.values():
            raise UnknownName(str(error), f"{error.hint}; {problem}") from error
        raise
    # A model's bare name means the weights of its own dataset, or the only ones there are.
    ours = [o for o in listed if (o[1].model, o[1].plugin) == (entry.name, plugin_of(entry))]
    names = list(dict.fromkeys(weights.name for _, weights in ours))
    own = f"{entry.name}.{entry.dataset}"
    if own in names or len(names) == 1:
        return _entry_called(own if own in names else names[0], ours)
    if names:
        choices = " or ".join(names)
        raise AmbiguousName(f"model {entry.name!r} has several weights", f"choose {choices}")
    hint = f"zoo train {name} makes some, zoo.create({name!r}) builds it untrained; "
    hint += "zoo list --weights shows what is trained already"
    raise WeightsError(f"there are no trained weights of model {name!r}", hint)


def _entry_called(name: str, listed: Sequence[Listed]) -> Weights:
    plugin, _, bare = name.rpartition("/")
    named = [one for one in listed if one[1].name == bare and plugin in ("", one[1].plugin)]
    if len({weights.sha256 for _, weights in named}) == 1:
        return named[0][1]
    if not named:
        known = [weights.name for _, weights in listed]
        hint = did_you_mean(bare, known, "zoo list --weights shows what there is", most=3)
        raise UnknownName(f"there are no weights {name!r}", hint)
    places = " and by ".join(
        f"{who} ({weights.plugin}/{bare}, sha256 {weights.sha256[:12]})" for who, weights in named
    )
    plugins = dict.fromkeys(weights.plugin for _, weights in named)
    choices = [f"write {' or '.join(f'{p}/{bare}' for p in plugins)}"] * (len(plugins) > 1)
    if any(who == manifest.USERS for who, _ in named):
        choices.append(f"zoo remove --forget {bare} takes the name out of your manifest")
    raise AmbiguousName(f"weights {name!r} are listed by {places}", "; ".join(choices))


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
            raise WeightsError(what, f"zoo train --resume {run.path}")
        model, data = document["model"], document["dataset"]
        split, figures = final_scores(result, ())
        return Located(
            reference=reference or str(run.path),
            source=str(run.path),
            path=run.model_file,
            distribution=model["distribution"],
            data_options=document["recipe"].get("data", {}),
            task_options=document["recipe"].get("task", {}),
            metrics={f"{split}_{n}": v for n, v in figures.items() if number(v) is not None},
            sha256=str(result["model"]["sha256"]),
            bytes=int(result["model"]["bytes"]),
            run=document,
            **told(
                model=f"{model['plugin']}/{model['name']}",
                config=model["config"],
                dataset=data["reference"],
                classes=data["classes"],
                preprocess=document["preprocess"],
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WeightsError(f"{run.settings_file} is damaged: {describe(error)}") from error


def _of_file(path: Path) -> Located:
    """A file on its own: a run's, one with a config.json beside it, or one that tells itself."""
    if not path.exists():
        raise UnknownName(f"there is no file {path}", f"{SHOWS} by name")
    if (path.parent / "run.json").exists() and path.name == "model.safetensors":
        return of_run(Run(path.parent), str(path))
    beside = path.parent / CONFIG
    if beside.exists():
        with os_errors(f"{beside} cannot be read", WeightsError):
            data = read_bytes(beside, manifest.LARGEST_ENTRY)
        weights = manifest.parse(data, Weights, str(beside))
        if weights.file.rpartition("/")[2] == path.name:
            return of_weights(weights, path, str(path))
    # A file of the store has its digest for a name, whatever else is known of it.
    stored = path.parent == cache_dir("weights") and DIGEST.fullmatch(path.stem)
    return Located(
        reference=str(path), source=str(path), path=path, sha256=path.stem if stored else ""
    )
