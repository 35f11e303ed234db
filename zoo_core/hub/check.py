"""Checks weights as far as it can be done on a machine that may not be able to use them."""

from __future__ import annotations

from typing import Any

from zoo_core.errors import MissingDependency
from zoo_core.hub.load import Found, model_of, open_found, spec_of
from zoo_core.hub.verify import Spec, check_tensors
from zoo_core.models import trainer_of
from zoo_core.registry import registry


def check_found(found: Found, *, rehash: bool = False) -> dict[str, Any]:
    """Everything that a load checks; against the model only where that is installed."""
    found, file = open_found(found, rehash=rehash)
    spec = _spec(found) if found.model in registry().models else None
    check_tensors(file, spec, found.dtype)
    return {
        "path": str(found.path),
        "bytes": file.bytes,
        "sha256": file.sha256,
        "compared": bool(found.sha256),  # with a digest that was known before
        "fits": None if spec is None else found.model,
    }


def _spec(found: Found) -> Spec | None:
    entry, config = model_of(found)
    try:
        return spec_of(trainer_of(entry), entry, config)
    except MissingDependency:
        return None  # the plugin is here, and its framework is not
