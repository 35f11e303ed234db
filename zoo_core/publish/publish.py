"""From a run to published weights: one commit, pulled again and checked, then the manifest."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from zoo_core.io.errors import HubError, UsageError, WeightsError
from zoo_core.io.files import atomic_write, user_manifest
from zoo_core.io.tensors import to_bytes
from zoo_core.publish.card import card, training_of
from zoo_core.runs.run import Run
from zoo_core.spec.framework import framework_of
from zoo_core.spec.recipe import NAME
from zoo_core.spec.settings import ALWAYS, FIELDS, as_typed
from zoo_core.use.load import answers, load_found
from zoo_core.weights.manifest import Weights, all_weights, changing, parse, read
from zoo_core.weights.references import find, of_run
from zoo_core.weights.repository import (
    CARD,
    CONFIG,
    MODEL,
    Repository,
    is_repository,
    open_repository,
)
from zoo_core.weights.verify import Checked, Found, check, model_of

FULL = "full.safetensors"  # of a run: the weights with everything inside


@dataclass(frozen=True)
class Publication:
    """Everything that would be published, before anything is."""

    weights: Weights
    found: Found
    card: str
    reference: str  # of the repository

    @property
    def config(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self.weights), indent=2) + b"\n"


@dataclass(frozen=True)
class Published:
    weights: Weights
    revision: str
    new: bool  # False where the repository held the same bytes already
    replaced: str = ""  # what the name meant in your manifest before


def plan(run: Run, to: str, *, tag: str = "", license: str = "", full: bool = False) -> Publication:
    """Check a run and describe what its publication would be; `full` as below."""
    if not is_repository(to):
        raise UsageError(
            f"{to!r} is no place to publish to",
            "write hf:ORGANISATION/NAME, file:FOLDER or package:FOLDER",
        )
    repository, revision = open_repository(to)
    if revision:
        raise UsageError(f"a publication makes its own revision; leave out @{revision}")
    weights, found = entry_of(run, tag=tag, license=license, full=full)
    refuse_taken_name(weights)
    text = card(weights, training_of(run.read()), repository.reference)
    return Publication(weights, found, text, repository.reference)


def entry_of(
    run: Run, *, tag: str = "", license: str = "", full: bool = False
) -> tuple[Weights, Found]:
    """What a manifest would say about the weights of a run, once these are checked.

    full: with the backbone inside, where the run's own file only names it.
    """
    document = run.read()
    checked = check(of_run(run))
    if full:
        checked = check(_whole(run, checked))
    found, file = checked.found, checked.file
    if len(file.dtypes) != 1:
        raise WeightsError(f"{file.path} mixes floats of several dtypes")
    model, dataset = document["model"], document["dataset"]["name"]
    tag = tag or re.sub(r"[^a-z0-9]+", "_", Path(dataset).name.lower()).strip("_") or "weights"
    if NAME.fullmatch(tag) is None:
        raise UsageError(f"{tag!r} is no tag", "lower-case letters, digits, _ and -")
    weights = Weights(
        name=f"{model['name']}.{tag}",
        model=model["name"],
        plugin=model["plugin"],
        distribution=model["distribution"],
        config=_without_paths(found),
        dataset=tag if os.sep in dataset else dataset,  # not where the pictures are on this disk
        classes=found.classes,
        preprocess=dict(found.preprocess),
        file=MODEL,
        sha256=file.sha256,
        bytes=file.bytes,
        dtype=file.dtypes.pop(),
        parameters=document["parameters"]["total"],
        metrics=dict(found.metrics),
        recipe=_recipe(document["recipe"]),
        license=license,
        sources=(),
    )
    return parse(msgspec.json.encode(weights), Weights, f"the entry of {run.name}"), found


def _whole(run: Run, checked: Checked) -> Found:
    """The same model in a file that needs no other one; it is kept in the run."""
    found = checked.found
    entry, config = model_of(found)
    config, tensors = framework_of(entry).whole(entry, config, checked.tensors)
    told = json.loads(checked.file.header.metadata["zoo"]) | {"config": config}
    data = to_bytes(tensors, json.dumps(told, sort_keys=True))
    with atomic_write(run.path / FULL) as temporary:
        temporary.write_bytes(data)
    return replace(
        found, path=run.path / FULL, config=config, bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip


def _without_paths(found: Found) -> dict[str, Any]:
    """The options of the model; a path of this disk, weights to start from say, is none of them."""
    defaults = model_of(found)[0].options
    return {
        name: defaults[name] if isinstance(value, str) and Path(value).is_absolute() else value
        for name, value in found.config.items()
    }


def _recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What differs from a plain Recipe(), in the words of --set, without paths of this disk."""
    kept: dict[str, Any] = {}
    for name, value in recipe.items():
        if isinstance(value, Mapping):
            kept |= {f"{name}.{option}": _plain(item) for option, item in value.items()}
        elif name in ALWAYS or as_typed(value) != as_typed(FIELDS.get(name)):
            kept[name] = "trained weights" if name == "init" else value
    return kept


def _plain(value: Any) -> Any:
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def publish(plan: Publication, *, message: str = "", private: bool = False) -> Published:
    """Publish, pull what was published into an empty cache, check it, and list it."""
    expected = answers(load_found(plan.found))
    repository, _ = open_repository(plan.reference)
    with tempfile.TemporaryDirectory() as folder:
        config, readme = Path(folder) / CONFIG, Path(folder) / CARD
        config.write_bytes(plan.config)
        readme.write_text(plan.card, "utf-8")
        files = {CONFIG: config, MODEL: plan.found.path, CARD: readme}
        before = _newest(repository)
        revision = repository.publish(
            files, message or f"{plan.weights.name}, {plan.weights.sha256[:12]}", private
        )
    pinned = f"{repository.reference}@{revision}"
    with _empty_cache():
        found = find(pinned)
        if found.sha256 != plan.weights.sha256 or answers(load_found(found)) != expected:
            raise WeightsError(
                f"{pinned} does not give what {plan.found.source} gives; it is not listed"
            )
    weights = msgspec.structs.replace(plan.weights, sources=(pinned,))
    with changing(user_manifest()) as entries:
        known = entries.get(weights.name)
        entries[weights.name] = weights
    replaced = known.sources[0] if known and known.sources and known != weights else ""
    return Published(weights, revision, revision != before, replaced)


def refuse_taken_name(weights: Weights) -> None:
    """Before anything is sent: what could not be listed afterwards."""
    if user_manifest().exists():
        read(user_manifest())
    for one in all_weights()[0]:
        same = one.weights.name == weights.name and one.weights.plugin == weights.plugin
        if same and one.manifest != "your manifest" and one.weights.sha256 != weights.sha256:
            raise UsageError(
                f"{one.manifest} lists other weights called {weights.name}",
                "choose another tag with --tag",
            )


def _newest(repository: Repository) -> str:
    try:
        return repository.resolve("")
    except HubError:
        return ""


@contextmanager
def _empty_cache() -> Iterator[None]:
    """A cache that has nothing, so that nothing in it can stand in for what was published."""
    before = os.environ.get("ZOO_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ZOO_CACHE"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["ZOO_CACHE"]
            else:
                os.environ["ZOO_CACHE"] = before
