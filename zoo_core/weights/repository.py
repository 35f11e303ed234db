"""A repository of weights, on a hub or on a disk: three files at a revision.

    config.json          one entry of a manifest, without sources
    model.safetensors    the weights
    README.md            the card

`open_repository` gives the one that a reference names. The two kinds are in hf.py and folder.py.

A folder as a hub: a team without the Hub shares weights on a disk.

    FOLDER/main                  the current revision, 40 digits
    FOLDER/<revision>/...        the same three files as in a repository of the Hub

A revision is a digest of its files. It appears as a whole, is never changed, and `main` moves to it
in one step: whoever reads meanwhile sees the old one or the new one.
"""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from zoo_core.io.errors import HubError, UsageError
from zoo_core.io.files import (
    atomic_write,
    digest_of,
    file_digest,
    locked,
    open_regular,
    read_bytes,
    temporary_folder,
)
from zoo_core.weights.manifest import COMMIT, REPOSITORY

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
        if not rest or "\0" in rest:
            raise UsageError(f"{reference!r} names no folder", "write file:FOLDER")
        return Folder(Path(rest).expanduser().resolve()), revision
    from zoo_core.weights.hf import HuggingFace

    if REPOSITORY.fullmatch(rest) is None or ".." in rest:
        raise UsageError(f"{reference!r} is no repository", "write hf:ORGANISATION/NAME")
    return HuggingFace(rest), revision


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.reference = f"file:{path}"

    def resolve(self, revision: str) -> str:
        if COMMIT.fullmatch(revision):
            if not (self.path / revision).is_dir():
                raise HubError(f"{self.reference} has no revision {revision}")
            return revision
        try:
            commit = read_bytes(self.path / "main", 100, follow=False).decode("ascii").strip()
        except FileNotFoundError:
            raise HubError(
                f"there are no weights in {self.path}", "zoo publish RUN --to file:FOLDER puts some"
            ) from None
        except (OSError, ValueError) as error:
            raise HubError(f"{self.path / 'main'} cannot be read: {error}") from error
        if COMMIT.fullmatch(commit) is None:
            raise HubError(f"{self.path / 'main'} names no revision")
        return commit

    def stored(self, commit: str, file: str) -> Stored:
        with self._reading(file):
            return Stored("", self._file(commit, file).stat().st_size)

    def fetch(self, commit: str, file: str, folder: Path) -> Path:
        with self._reading(file):
            source = open_regular(self._file(commit, file), follow=False)
        target = folder / Path(file).name
        with source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
        return target

    def confirm(self, commit: str, digests: Mapping[str, str]) -> None:
        with self._reading(CARD), open_regular(self._file(commit, CARD), follow=False) as card:
            read = digest_of(card)
        if revision_of({CARD: read, **digests}) != commit:
            raise HubError(
                f"{self.reference} was changed after it was published: its files are not those of "
                f"revision {commit[:12]}",
                "publish it again; a revision is never edited",
            )

    def publish(self, files: Mapping[str, Path], message: str, private: bool) -> str:
        commit = revision_of({name: file_digest(path) for name, path in files.items()})
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with locked(self.path / "main", lambda: None):
                if not (self.path / commit).is_dir():
                    self._add(commit, files)
                if not (self.path / "main").exists() or self.resolve("") != commit:
                    with atomic_write(self.path / "main") as temporary:
                        temporary.write_text(f"{commit}\n", "ascii")
        except OSError as error:
            raise HubError(f"{self.path} cannot be published to: {error.strerror}") from error
        return commit

    def _add(self, commit: str, files: Mapping[str, Path]) -> None:
        with temporary_folder(self.path / "main") as folder:
            complete = folder / commit
            for name, path in files.items():
                with atomic_write(complete / name) as temporary:
                    shutil.copyfile(path, temporary)
            complete.rename(self.path / commit)

    def _file(self, commit: str, file: str) -> Path:
        path = self.path
        for part in (commit, *file.split("/")):
            path = path / part
            if path.is_symlink():  # it could lead out of the folder
                raise OSError(errno.ELOOP, f"{path} is a symbolic link", str(path))
        return path

    @contextmanager
    def _reading(self, file: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            if not self.path.is_dir():
                raise HubError(
                    f"there is no folder {self.path}", "is the disk that it was on mounted?"
                ) from None
            raise HubError(f"{self.reference} has no {file} at this revision") from None
        except OSError as error:
            raise HubError(
                f"{file} of {self.reference} cannot be read: {error.strerror}"
            ) from error


def revision_of(digests: Mapping[str, str]) -> str:
    """40 digits that stand for files with these digests, whatever their order."""
    lines = (f"{digests[name]} {name}\n" for name in sorted(digests))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:40]
