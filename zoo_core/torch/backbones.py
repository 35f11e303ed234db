"""The weights of a frozen backbone: found by where they come from, then known by their digest.

A trained model names its backbone as `sha256:DIGEST` in the option `backbone_weights`. Whoever has
tensors with that digest, wherever they are from, has the same backbone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.features import digest_of_tensors
from zoo_core.io.errors import OptionError, WeightsError, ZooError
from zoo_core.io.files import cache_dir, cache_root
from zoo_core.io.targets import resolve
from zoo_core.io.tensors import write
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.recipe import DIGEST
from zoo_core.spec.registry import qualified_name
from zoo_core.weights.verify import check_tensors, open_weights

OPTION = "backbone_weights"
BY_DIGEST = "sha256:"
MOST = 2  # backbones that a process keeps at hand: a search asks for the same one again and again

Spec = Mapping[str, tuple[tuple[int, ...], str]]
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class BackboneWeights:
    tensors: Mapping[str, np.ndarray]  # by the names that they have in the backbone
    digest: str

    @property
    def reference(self) -> str:
        return BY_DIGEST + self.digest


_at_hand: dict[str, BackboneWeights] = {}


def digest_in(config: Mapping[str, Any]) -> str:
    """The digest of the backbone that a trained model names; "" where its file is whole."""
    asked = str(config.get(OPTION, ""))
    if not asked.startswith(BY_DIGEST):
        return ""
    digest = asked.removeprefix(BY_DIGEST)
    if not DIGEST.fullmatch(digest):  # it may be somebody else's text, and names a file here
        raise WeightsError(f"{OPTION} {asked!r} is no digest")
    return digest


def backbone_weights(
    entry: ModelEntry, config: Mapping[str, Any], spec: Spec, say: Say
) -> BackboneWeights:
    """The weights that the option `backbone_weights` asks for: a digest, a file, or "" for those
    that the model's `backbone` capability knows. spec: what the backbone needs."""
    digest = digest_in(config)
    # A digest means the same everywhere; everything else depends on what is where.
    place = digest or json.dumps(
        [str(cache_root()), qualified_name(entry), config], sort_keys=True, default=str
    )
    if place not in _at_hand:
        found = _by_digest(entry, config, spec, say, digest) if digest else None
        while len(_at_hand) >= MOST:
            del _at_hand[next(iter(_at_hand))]
        _at_hand[place] = found or _given(entry, config, spec, say)
    return _at_hand[place]


def _given(entry: ModelEntry, config: Mapping[str, Any], spec: Spec, say: Say) -> BackboneWeights:
    """What the model's own plugin gives: it knows where its weights are published."""
    give = resolve(entry.capabilities["backbone"], f"model {entry.name!r}")
    asked = str(config[OPTION])
    found = _fitting(give(config, say), spec, asked or f"the published weights of {entry.name}")
    if asked:  # the file may move; the copy is what the trained model will ask for
        kept = _kept(found.digest)
        if not kept.exists():
            write(kept, found.tensors)
    return found


def _by_digest(
    entry: ModelEntry, config: Mapping[str, Any], spec: Spec, say: Say, digest: str
) -> BackboneWeights:
    kept = _kept(digest)
    if kept.exists():
        try:
            found = _fitting(check_tensors(open_weights(kept), None), spec, str(kept))
            if found.digest == digest:
                return found
            say(f"Warning: {kept} is damaged; looking elsewhere")
        except ZooError as error:
            say(f"Warning: {error}; looking elsewhere")
    found = _given(entry, {**config, OPTION: ""}, spec, say)
    if found.digest != digest:
        raise WeightsError(
            f"this model needs a backbone with the digest {digest[:12]}..., and the published "
            f"weights of {entry.name} have {found.digest[:12]}...",
            f"it was trained on a file: put its copy, {digest}.safetensors, into {kept.parent}, or "
            "have the model published with --full",
        )
    return found


def _fitting(tensors: Mapping[str, np.ndarray], spec: Spec, source: str) -> BackboneWeights:
    """Those of the tensors that the backbone has; a classifier's last layer is none of them."""
    for name, (shape, _) in spec.items():
        if name not in tensors:
            raise OptionError(f"{source} does not fit this backbone: {name} is missing")
        array = tensors[name]
        if tuple(array.shape) != tuple(shape):
            raise OptionError(
                f"{source} does not fit this backbone: {name} has the shape {list(array.shape)}, "
                f"and {list(shape)} is needed",
                "options such as image_size must be those that it was trained with",
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise WeightsError(f"{source}: {name} holds numbers that are not finite")
    kept = {name: np.asarray(tensors[name], dtype) for name, (_, dtype) in spec.items()}
    return BackboneWeights(kept, digest_of_tensors(kept))


def _kept(digest: str) -> Path:
    return cache_dir("weights") / "backbones" / f"{digest}.safetensors"
