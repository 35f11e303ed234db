"""Where the zoo keeps things on this machine."""

from __future__ import annotations

import os
from pathlib import Path

CACHES = {
    "data": "datasets, decoded and verified",
    "weights": "trained weights",
    "features": "features of frozen backbones",
}


def cache_root() -> Path:
    """The folder of all caches: ZOO_CACHE, or the user's cache folder of this platform."""
    if chosen := os.environ.get("ZOO_CACHE"):
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("zoo", appauthor=False))


def cache_dir(kind: str) -> Path:
    """The folder of one cache. It may not exist yet; everything in it is safe to delete."""
    assert kind in CACHES
    return cache_root() / kind


def user_manifest() -> Path:
    """The list of the weights that this user published: ZOO_MANIFEST, or in the user's data."""
    if chosen := os.environ.get("ZOO_MANIFEST"):
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("zoo", appauthor=False)) / "weights_manifest.json"
