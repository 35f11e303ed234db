"""A repository of weights, on a hub or on a disk: three files at a revision.

    config.json          one entry of a manifest, without sources
    model.safetensors    the weights
    README.md            the card

`open_repository` gives the one that a reference names. The two kinds are in hf.py and folder.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from zoo_core.errors import UsageError
from zoo_core.manifest import COMMIT, REPOSITORY

CONFIG, MODEL, CARD = "config.json", "model.safetensors", "README.md"
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")


@dataclass(frozen=True)
class Stored:
    """What a repository says about the weight file at a revision."""

    sha256: str  # "" where it keeps none of its own
    bytes: int


class Repository(Protocol):
    reference: str  # hf:org/name, file:/folder

    def resolve(self, revision: str) -> str:
        """The 40 digits that a branch, a tag or "" stands for now."""

    def stored(self, commit: str, file: str) -> Stored: ...

    def fetch(self, commit: str, file: str, folder: Path) -> Path:
        """Bring a file into an empty folder. What it is has to be checked by the caller."""

    def confirm(self, commit: str, digests: Mapping[str, str]) -> None:
        """Refuse a revision that does not hold files of these digests any more."""

    def publish(self, files: Mapping[str, Path], message: str, private: bool) -> str:
        """Put files in place as one commit and return it; the last one if it has the same bytes."""


def is_repository(reference: str) -> bool:
    return reference.startswith(("hf:", "file:"))


def split_reference(reference: str) -> tuple[str, str]:
    """`hf:org/name@v1` is (`hf:org/name`, `v1`); the revision is "" where there is none."""
    place, at, revision = reference.rpartition("@")
    if not at:
        return reference, ""
    # The path of a folder may have an @ in it.
    if reference.startswith("file:") and not (COMMIT.fullmatch(revision) or revision == "main"):
        return reference, ""
    return place, revision


def open_repository(reference: str) -> tuple[Repository, str]:
    """The repository and the revision that a reference names."""
    place, revision = split_reference(reference)
    scheme, _, rest = place.partition(":")
    if revision and (REVISION.fullmatch(revision) is None or ".." in revision):
        raise UsageError(f"{reference!r} has no valid revision after the @")
    if scheme == "file":
        from zoo_core.hub.folder import Folder

        if not rest or "\0" in rest:
            raise UsageError(f"{reference!r} names no folder", "write file:FOLDER")
        return Folder(Path(rest).expanduser().resolve()), revision
    from zoo_core.hub.hf import HuggingFace

    if REPOSITORY.fullmatch(rest) is None or ".." in rest:
        raise UsageError(f"{reference!r} is no repository", "write hf:ORGANISATION/NAME")
    return HuggingFace(rest), revision
