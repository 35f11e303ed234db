"""From a run to published weights: one commit, pulled again and checked, then the list.

Weights can also travel in a plugin's own package; users of the wheel have them, without any
network, and `plan_shipped` plans how they go from there to a hub.

    zoo_mixer/weights.json                       the list that `zoo_manifests` names
    zoo_mixer/weights/mixer.cifar10.safetensors
    zoo_mixer/weights/mixer.cifar10.json         how they were trained, for the card
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from zoo_core.io.console import say, warn
from zoo_core.io.documents import write_document
from zoo_core.io.errors import HubError, ManifestError, UsageError, WeightsError, os_errors
from zoo_core.io.files import atomic_write, temporary_folder, user_manifest
from zoo_core.io.tensors import FLOATS, to_bytes
from zoo_core.publish.card import card, training_of
from zoo_core.runs.run import Run
from zoo_core.spec.recipe import NAME
from zoo_core.spec.settings import ALWAYS, FIELDS, as_typed
from zoo_core.use.evaluate import measure
from zoo_core.use.load import answers, load_model
from zoo_core.weights import manifest
from zoo_core.weights.manifest import USERS, Weights, changing, is_packaged, packaged_file
from zoo_core.weights.records import states_of
from zoo_core.weights.references import obtain_anew, of_run, of_weights
from zoo_core.weights.repository import CARD, CONFIG, MODEL, Files, Repository, open_repository
from zoo_core.weights.statements import rederived
from zoo_core.weights.verify import Verified, check

FULL = "full.safetensors"  # of a run: the weights with everything inside
MANIFEST = "weights.json"  # of a package
TOLERANCE = 0.001  # of accuracy that a smaller dtype may cost


@dataclass(frozen=True)
class Publication:
    """All that is to be published and, once it is, its revision."""

    weights: Weights
    verified: Verified
    card: str
    repository: Repository
    revision: str = ""
    new: bool = False  # the repository did not hold the same bytes already
    replaced: str = ""  # what the name meant in your manifest before

    @property
    def config(self) -> bytes:
        entry = structs.replace(self.weights, sources=())
        return msgspec.json.format(msgspec.json.encode(entry), indent=2) + b"\n"


def plan(run: Run, to: str, *, tag: str = "", license: str = "", full: bool = False) -> Publication:
    """Check a run and describe its publication. full: with the frozen backbone inside."""
    repository, revision = open_repository(to)
    if revision:
        raise UsageError(f"a publication makes its own revision; leave out @{revision}")
    weights, verified = _entry_of(run, tag, license, full)
    weights = _free_name(weights, asked=bool(tag))
    text = card(weights, training_of(verified.located.run), repository.reference)
    return Publication(weights, verified, text, repository)


def _entry_of(run: Run, tag: str, license: str, full: bool = False) -> tuple[Weights, Verified]:
    """What a list would say about the weights of a run, once these are checked."""
    verified = check(of_run(run), exact=True)
    entry, config, framework = verified.model
    if full:  # the same model in a file that needs no other one; it is kept in the run
        config, tensors = framework.whole(entry, config, verified.tensors)
        metadata = json.loads(verified.header.metadata["zoo"]) | {"config": config}
        path = verified.located.path.with_name(FULL)
        with os_errors(f"{path} could not be written", WeightsError), atomic_write(path) as new:
            new.write_bytes(to_bytes(tensors, json.dumps(metadata, sort_keys=True)))
        verified = check(replace(verified.located, path=path, config=config, sha256="", bytes=None))
    located, document = verified.located, verified.located.run
    dtypes = {place.dtype for place in verified.header.places.values()} & set(FLOATS)
    if len(dtypes) > 1:
        raise WeightsError(f"{located.path} mixes floats of several dtypes")
    model, dataset = document["model"], document["dataset"]["name"]
    tag = tag or re.sub(r"[^a-z0-9]+", "_", Path(dataset).name.lower()).strip("_") or "weights"
    if NAME.fullmatch(tag) is None:
        raise UsageError(f"{tag!r} cannot be a tag", "lower-case letters, digits, _ and -")
    weights = Weights(
        name=f"{model['name']}.{tag}",
        model=model["name"],
        plugin=model["plugin"],
        distribution=model["distribution"],
        # A path of this disk, weights to start from say, is not published.
        config={
            name: entry.options[name] if _is_path(value) else value
            for name, value in located.config.items()
        },
        dataset=tag if os.sep in dataset else dataset,
        classes=located.classes,
        targets=dict(located.targets),
        temperature=located.temperature,
        preprocess=dict(located.preprocess),
        file=MODEL,
        sha256=verified.sha256,
        bytes=verified.bytes,
        dtype=dtypes.pop() if dtypes else "float32",
        parameters=document["parameters"]["total"],
        metrics=dict(located.metrics),
        recipe=_recipe(document["recipe"]),
        license=license,
        sources=(),
    )
    encoded = msgspec.json.encode(weights)
    return manifest.parse(encoded, Weights, f"the entry of {run.name}"), verified


def _recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What differs from a plain Recipe(), in the words of --set, without paths of this disk."""
    kept: dict[str, Any] = {}
    for name, value in recipe.items():
        if isinstance(value, Mapping):
            for option, item in value.items():
                kept[f"{name}.{option}"] = Path(item).name if _is_path(item) else item
        elif name in ALWAYS or as_typed(value) != as_typed(FIELDS.get(name)):
            kept[name] = "trained weights" if name == "init" else value
    return kept


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and Path(value).is_absolute()


def _free_name(weights: Weights, *, asked: bool) -> Weights:
    """The entry under a name that means no other weights, before anything is sent.

    asked: a person chose the name; otherwise a taken one gets the first digits of the digest.
    """
    listed, problems = manifest.all_weights()
    if USERS in problems:
        raise problems[USERS]
    others = [(who, one) for who, one in listed if who != USERS]
    takers = [who for who, one in others if _namesakes(weights, [one])]
    if not takers:
        return weights
    what = f"{takers[0]} lists other weights called {weights.name}"
    if asked:
        raise UsageError(what, "choose another tag with --tag")
    name = f"{weights.name}-{weights.sha256[:8]}"
    say(f"{what}: the new weights get the name {name}. --tag chooses another name.")
    return structs.replace(weights, name=name)


def _namesakes(weights: Weights, entries: Sequence[Weights]) -> list[Weights]:
    """The entries of other files under the same name."""
    same = [e for e in entries if (e.name, e.plugin) == (weights.name, weights.plugin)]
    return [one for one in same if one.sha256 != weights.sha256]


def publish(plan: Publication, *, message: str = "", private: bool = False) -> Publication:
    """Publish, pull what was published into an empty folder, check it, and list it."""
    expected = answers(load_model(plan.verified))
    weights, repository, located = plan.weights, plan.repository, plan.verified.located
    before, message = "", message or f"{weights.name}, {weights.sha256[:12]}"
    with suppress(HubError):
        before = repository.resolve("")
    files: Files = {CONFIG: plan.config, MODEL: located.path, CARD: plan.card.encode()}
    revision = repository.publish(files, weights.sha256, message, private)
    pinned = f"{repository.reference}@{revision}"
    with temporary_folder() as folder:
        pulled = obtain_anew(repository, revision, folder)
        if pulled.sha256 != weights.sha256 or answers(load_model(pulled)) != expected:
            what = f"{pinned} does not give what {located.source} gives"
            raise WeightsError(f"{what}; your manifest does not list it")
    with changing(user_manifest()) as entries:
        known = entries.get(weights.name)
        old = known.sources if known else ()
        packaged = filter(is_packaged, old if known and known.sha256 == weights.sha256 else ())
        weights = structs.replace(weights, sources=(*packaged, pinned))
        entries[weights.name] = weights
    replaced = [source for source in old if not is_packaged(source) and source != pinned]
    return replace(
        plan, weights=weights, revision=revision, new=revision != before,
        replaced=replaced[0] if replaced else "",
    )  # fmt: skip


# ---------------------------------------------------------------- in packages


def ship(
    run: Run, package: Path, *, tag: str = "", license: str = "", dtype: str = "float32"
) -> Weights:
    """Put the weights of a run into the folder of a package, and list them there."""
    if not (package / "__init__.py").is_file():
        hint = "name the folder that holds plugin.py, package:zoo-mixer/zoo_mixer for example"
        raise UsageError(f"{package} is not a Python package: it has no __init__.py", hint)
    weights, verified = _entry_of(run, tag, license)
    file = f"weights/{weights.name}.safetensors"
    path, same = package / file, dtype == weights.dtype
    content = verified.located.path.read_bytes() if same else converted(verified, dtype)
    with os_errors(f"{path} could not be written", WeightsError):
        with atomic_write(path) as temporary:
            temporary.write_bytes(content)
            there = replace(verified.located, path=temporary, sha256="", bytes=None, dtype=dtype)
            copy = check(there)
            figures = _figures_of_copy(copy, verified)
        states = {"states": states_of(run)}  # where another training parts from this one
        write_document(path.with_suffix(".json"), training_of(verified.located.run) | states)
    weights = structs.replace(
        weights, file=file, sha256=copy.sha256, bytes=copy.bytes, dtype=dtype,
        metrics=weights.metrics | figures, sources=(f"package:{file}",),
    )  # fmt: skip
    with suppress(OSError, ManifestError):
        for other in _namesakes(weights, manifest.read(user_manifest())):
            these, those = manifest.labels([weights, other])
            what = f"{USERS} lists other weights called {weights.name}"
            warn(f"{what}: write {these} for the new ones, {those} for the ones in {USERS}")
    with changing(package / MANIFEST) as listed:
        listed[weights.name] = weights
    return weights


def converted(verified: Verified, dtype: str, about: str = "") -> bytes:
    """The file with its floats in another dtype. about: what it says of itself, if not the same."""
    import numpy as np

    tensors = {
        name: array.astype(dtype) if dtype and array.dtype.kind == "f" else array
        for name, array in verified.tensors.items()
    }
    large = [name for name, array in tensors.items() if not np.isfinite(array).all()]
    if large:
        named = f"{large[0]} of {verified.located.source}"
        raise WeightsError(f"{named} has numbers too large for {dtype}")
    return to_bytes(tensors, about or verified.header.metadata.get("zoo", ""))


def _figures_of_copy(copy: Verified, verified: Verified) -> dict[str, float]:
    """What has to be said anew of a copy in another dtype; refused if it is not as good."""
    located, model = verified.located, load_model(copy)
    if copy.sha256 == verified.sha256:
        if answers(model) != answers(load_model(verified)):
            raise WeightsError(f"{copy.located.path} does not give what {located.source} gives")
        return {}
    measured = measure(model, located.dataset, located.data_options, located.task_options)
    named = {f"test_{name}": value for name, value in measured.items()}
    figures = {name: value for name, value in named.items() if name in located.metrics}
    before, now = (m.get("test_accuracy", 0.0) for m in (located.metrics, figures))
    if abs(before - now) > TOLERANCE:
        what = f"{100 * now:.2f} % instead of {100 * before:.2f} %"
        raise WeightsError(f"in {copy.located.dtype} the accuracy is {what}", "try float32")
    return figures


def shipped(plugins: Sequence[str] = ()) -> list[Weights]:
    """The weights that installed plugins ship, all or those of some plugins or packages."""
    listed = [weights for _, weights in manifest.all_weights()[0] if packaged_file(weights)]
    return [w for w in listed if not plugins or {w.plugin, w.distribution} & set(plugins)]


def plan_shipped(weights: Weights, organisation: str) -> Publication:
    """The publication of shipped weights: the same bytes in a repository of their name."""
    path = packaged_file(weights)
    assert path is not None
    if not re.fullmatch(r"hf:[^/]+|file:.+", organisation):
        what = f"{organisation!r} is not a place for several repositories"
        raise UsageError(what, "write hf:ORGANISATION or file:FOLDER")
    repository, _ = open_repository(f"{organisation}/{weights.name.replace('.', '-')}")
    weights = _free_name(structs.replace(weights, file=MODEL), asked=True)
    told = path.with_suffix(".json")
    try:
        training = json.loads(told.read_text("utf-8")) | {"rederived": rederived(weights)}
        text = card(weights, training, repository.reference)
    except (OSError, ValueError, LookupError) as error:
        what = f"{told} does not say how {weights.name} was trained: {error}"
        raise WeightsError(what, "zoo publish RUN --to package:FOLDER writes it") from error
    return Publication(weights, check(of_weights(weights, path)), text, repository)
