"""A repository of weights, on the Hub or on a disk: three files at a revision.

    config.json          one entry of a manifest, without sources
    model.safetensors    the weights
    README.md            the card

`open_repository` gives the one that a reference names.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from zoo_core.io.console import say, typed, warn
from zoo_core.io.errors import HubError, ManifestError, UsageError, os_errors
from zoo_core.io.files import atomic_write, locked, open_regular, read_bytes, temporary_folder
from zoo_core.io.net import WrongSize
from zoo_core.spec.recipe import DIGEST
from zoo_core.weights.hub import ANSWER_SECONDS, PUBLISHED, Client
from zoo_core.weights.manifest import COMMIT, LARGEST_ENTRY, REPOSITORY, Weights, parse

CONFIG, MODEL, CARD = "config.json", "model.safetensors", "README.md"
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
Files = Mapping[str, bytes | Path]  # by name in the repository: texts, and the path of the weights
BESIDE = {".gitattributes", ".gitignore", "LICENSE", CARD}  # in a repository without weights
MOUNTED = "is the disk that it was on mounted?"


def is_repository(reference: str) -> bool:
    return reference.startswith(("hf:", "file:"))


def open_repository(reference: str) -> tuple[Repository, str]:
    """The repository and the revision, or "", that a reference such as `hf:org/name@v1` names."""
    place, at, revision = reference.rpartition("@")
    # The path of a folder may have an @ in it.
    named = not reference.startswith("file:") or COMMIT.fullmatch(revision) or revision == "main"
    if not (at and named):
        place, revision = reference, ""
    if revision and (REVISION.fullmatch(revision) is None or ".." in revision):
        raise UsageError(f"{reference!r} has no valid revision after the @")
    scheme, _, rest = place.partition(":")
    if scheme == "file" and rest and "\0" not in rest:
        return Folder(Path(rest).expanduser().resolve()), revision
    if scheme == "hf" and REPOSITORY.fullmatch(rest) and ".." not in rest:
        return HuggingFace(rest), revision
    hint = "write hf:ORGANISATION/NAME, file:FOLDER, or package:FOLDER to publish to a plugin"
    raise UsageError(f"{reference!r} is not a repository", hint)


def repositories(place: str) -> list[Repository]:
    """Those of a folder or of an organisation, `hf:ORG`; a repository stands for itself."""
    scheme, _, organisation = place.partition(":")
    if scheme == "hf" and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}", organisation):
        return HuggingFace(organisation).inside()
    repository, revision = open_repository(place)
    if revision:
        raise UsageError(f"{place!r} is one revision, not a place to look into", "leave out the @")
    return repository.inside() if isinstance(repository, Folder) else [repository]


class Folder:
    """A folder as a hub, for a team that shares a disk.

        FOLDER/main                  the current revision, 40 digits
        FOLDER/<revision>/...        the three files

    A revision is a digest of its files. It appears as a whole, never changes, and `main` moves to
    it in one step: a reader sees the old one or the new one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reference = f"file:{path}"

    def inside(self) -> list[Repository]:
        """The repositories in it, itself or up to two folders further down."""
        if not self.path.is_dir():
            raise HubError(f"there is no folder {self.path}", MOUNTED)
        with os_errors(f"{self.path} cannot be read", HubError):
            found = [
                path for depth in ("", "*/", "*/*/") for path in self.path.glob(f"{depth}main")
            ]
            # Beside a `main` of ours there are revisions; other files may have that name too.
            beside = {path: any(path.parent.glob("?" * 40)) for path in found}
        return [Folder(path.parent) for path in sorted(found) if beside[path]]

    def resolve(self, revision: str) -> str:
        """The 40 digits that a branch, a tag or "" stands for now."""
        if COMMIT.fullmatch(revision):
            if not (self.path / revision).is_dir():
                raise HubError(f"{self.reference} has no revision {revision}")
            return revision
        try:
            commit = read_bytes(self.path / "main", 100, follow=False).decode("ascii").strip()
        except FileNotFoundError:
            hint = typed("zoo publish RUN --to", self.reference) + " puts some there"
            what = "are no weights in" if self.path.is_dir() else "is no folder"
            raise HubError(f"there {what} {self.path}", hint) from None
        except (OSError, ValueError) as error:
            raise HubError(f"{self.path / 'main'} cannot be read: {error}") from error
        if COMMIT.fullmatch(commit) is None:
            raise HubError(f"{self.path / 'main'} does not name a revision")
        return commit

    def stored(self, commit: str, file: str) -> tuple[str, int]:
        """The digest of a weight file, "" where none is recorded, and its size."""
        with self._reading(file):
            return "", self._file(commit, file).stat().st_size

    def fetch(self, commit: str, file: str, folder: Path, most: int) -> Path:
        """Bring a file of at most so many bytes into an empty folder. The caller checks it."""
        with self._reading(file):
            source = open_regular(self._file(commit, file), follow=False)
        target = folder / Path(file).name
        with source, target.open("wb") as copy:
            if (found := os.fstat(source.fileno()).st_size) > most:
                what = f"{file} of {self.reference}@{commit} has {found:,} bytes"
                raise HubError(f"{what} instead of at most {most:,}", "it is not the expected file")
            shutil.copyfileobj(source, copy, 1 << 20)
        return target

    def confirm(self, commit: str, digests: Mapping[str, str]) -> None:
        """Refuse a revision that does not hold files of these digests any more."""
        with self._reading(CARD):
            card = read_bytes(self._file(commit, CARD), LARGEST_ENTRY, follow=False)
        if _revision_of({CARD: hashlib.sha256(card).hexdigest(), **digests}) != commit:
            what = f"{self.reference} was changed after it was published"
            hint = "publish it again; a revision is never edited"
            raise HubError(f"{what}: its files are not those of revision {commit}", hint)

    def publish(self, files: Files, sha256: str, message: str, private: bool) -> str:
        """Put files, the weights with this digest, in place as one commit, or find it there."""
        texts = {name: text for name, text in files.items() if isinstance(text, bytes)}
        digests = {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}
        commit = _revision_of(dict.fromkeys(files, sha256) | digests)
        main = self.path / "main"
        try:
            with locked(main):
                if main.exists() and (before := self.resolve("")) != commit:
                    with suppress(ManifestError):
                        there = read_bytes(self._file(before, CONFIG), LARGEST_ENTRY)
                        _refuse_other_model(self.reference, there, files)
                if not (self.path / commit).is_dir():
                    self._add(commit, files)
                if not main.exists() or self.resolve("") != commit:
                    with atomic_write(main) as temporary:
                        temporary.write_text(f"{commit}\n", "ascii")
        except OSError as error:
            raise HubError(f"{self.path} cannot be published to: {error.strerror}") from error
        return commit

    def _add(self, commit: str, files: Files) -> None:
        with temporary_folder(self.path / "main") as folder:
            for name, content in files.items():
                with atomic_write(folder / commit / name) as temporary:
                    if isinstance(content, bytes):
                        temporary.write_bytes(content)
                    else:
                        shutil.copyfile(content, temporary)
            (folder / commit).rename(self.path / commit)

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
                raise HubError(f"there is no folder {self.path}", MOUNTED) from None
            raise HubError(f"{self.reference} has no {file} at this revision") from None
        except OSError as error:
            what = f"{file} of {self.reference} cannot be read: {error.strerror}"
            raise HubError(what) from error


def _refuse_other_model(reference: str, there: bytes, files: Files) -> None:
    """Refuse to put a model in the place of another one; newer weights of it are welcome."""
    content = files[CONFIG]
    assert isinstance(content, bytes)
    old, new = (parse(config, Weights, CONFIG) for config in (there, content))
    if old.model != new.model:
        other = f"{reference}-{new.model}"
        if reference.startswith("file:"):
            other = f"{reference}/{new.name.replace('.', '-')}"
        what = f"{reference} holds {old.name}, and {new.name} is of another model"
        raise HubError(what, f"publish it to a place of its own: --to {other}")


def _revision_of(digests: Mapping[str, str]) -> str:
    """40 digits that stand for files with these digests, whatever their order."""
    lines = (f"{digests[name]} {name}\n" for name in sorted(digests))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:40]


# ---------------------------------------------------------------- the Hub


class Listing(NamedTuple):
    """What the hub says of one revision: each file's digest, SHA-256 or Git's, and its size."""

    commit: str
    files: dict[str, tuple[str, int]]


class HuggingFace:
    """A repository of the Hugging Face Hub, with the methods of Folder, through the Hub's client.

    The client compares sizes only, keeps damaged files for ever, and raises exceptions of three
    libraries. Here it fetches past its own cache, and whatever goes wrong is one sentence.
    """

    def __init__(self, name: str, kind: str = "model") -> None:
        self.name, self.kind = name, kind  # "model" or "dataset"
        self.reference = f"hf:{name}"
        self._listings: dict[str, Listing] = {}
        self._hub = Client(self.reference)

    def inside(self) -> list[Repository]:
        """The repositories of an organisation whose card says that zoo publish made them."""
        with self._hub.asked() as hub:
            found = sorted(one.id for one in hub.list_models(author=self.name, filter="zoo"))
            if not all(REPOSITORY.fullmatch(name) and ".." not in name for name in found):
                raise ValueError("a repository has an invalid name")
        return [HuggingFace(name) for name in found]

    def resolve(self, revision: str) -> str:
        if COMMIT.fullmatch(revision):
            return revision  # it always stands for itself: nobody is asked
        return self._listing(revision).commit

    def stored(self, commit: str, file: str) -> tuple[str, int]:
        there = self._listing(commit).files
        if file not in there:
            raise HubError(f"{self.reference} has no {file}", PUBLISHED)
        if DIGEST.fullmatch(there[file][0]) is None:
            what = f"{self.reference} does not keep {file} as a large file"
            raise HubError(f"{what}, so that there is no digest to check it by")
        return there[file]

    def files(self, commit: str) -> dict[str, tuple[str, int]]:
        """All files: SHA-256, or Git's digest of 40 digits of small ones, and size."""
        return self._listing(commit).files

    def fetch(self, commit: str, file: str, folder: Path, most: int) -> Path:
        try:
            return self._fetch(commit, file, folder, most)
        except HubError as error:
            if not isinstance(error.__cause__, WrongSize):
                raise
            warn(f"{error}; fetching it once more")
            return self._fetch(commit, file, folder, most)

    def _fetch(self, commit: str, file: str, folder: Path, most: int) -> Path:
        with self._hub.asked(file, most) as hub:
            try:
                # force_download: past the client's cache, whose files are not checked.
                return Path(hub.hf_hub_download(
                    self.name, file, repo_type=self.kind, revision=commit, local_dir=folder,
                    force_download=True, etag_timeout=ANSWER_SECONDS,
                ))  # fmt: skip
            except OSError as error:
                if type(error) is OSError and error.errno is None:  # the client's comparison
                    raise WrongSize(f"{file} has another size than the hub says") from error
                raise

    def confirm(self, commit: str, digests: Mapping[str, str]) -> None:
        """The Hub is Git: a commit cannot change."""

    def publish(self, files: Files, sha256: str, message: str, private: bool) -> str:
        self._hub.publishing = True
        with self._hub.asked() as hub:
            hub.create_repo(self.name, private=private or None, exist_ok=True)
        current = self._listing("")
        if self._same(current.files, files, sha256):
            return current.commit
        self._refuse_others(current, files)
        with self._hub.asked() as hub:
            from huggingface_hub import CommitOperationAdd

            # With the parent named, two people who publish at once do not undo each other's work.
            added = [CommitOperationAdd(name, content) for name, content in files.items()]
            commit = hub.create_commit(
                self.name, added, commit_message=message, parent_commit=current.commit
            ).oid
            if not COMMIT.fullmatch(commit):
                raise ValueError("the commit has no digest of 40 digits")
        self._listings.clear()
        return str(commit)

    def _same(self, there: Mapping[str, tuple[str, int]], files: Files, sha256: str) -> bool:
        for name, content in files.items():
            same = {sha256}
            if isinstance(content, bytes):  # Git's digest, unless the Hub keeps it as a large file
                git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
                same = {hashlib.sha256(content).hexdigest(), git}
            if there.get(name, ("", 0))[0] not in same:
                return False
        return True

    def _refuse_others(self, current: Listing, files: Files) -> None:
        """Refuse to overwrite what zoo publish did not put there."""
        there = current.files
        if not there.keys() - BESIDE:
            if CARD in there:
                say(f"{self.reference}: its {CARD} is replaced; its history keeps the old one")
            return
        if CONFIG in there:
            with temporary_folder() as folder, suppress(ManifestError):
                path = self.fetch(current.commit, CONFIG, folder, LARGEST_ENTRY)
                config = read_bytes(path, LARGEST_ENTRY)
                _refuse_other_model(self.reference, config, files)
                return
        what = f"{self.reference} holds something that zoo publish did not put there"
        raise HubError(what, "publish to a repository of another name")

    def _listing(self, revision: str) -> Listing:
        if revision not in self._listings:
            with self._hub.asked() as hub:
                info = hub.repo_info(
                    self.name, repo_type=self.kind, revision=revision or None, files_metadata=True,
                    timeout=ANSWER_SECONDS,
                )  # fmt: skip
                there = info.siblings or ()
                # A dataset may come without digests of its small files.
                files = {
                    f.rfilename: (f.lfs.sha256, f.lfs.size) if f.lfs else (f.blob_id or "", f.size)
                    for f in there
                }
                if not COMMIT.fullmatch(info.sha):
                    raise ValueError("the revision has no digest of 40 digits")
                for name, (digest, length) in files.items():
                    path = Path(name)
                    if path.anchor or ".." in path.parts or "\0" in name:
                        raise ValueError(f"the file {name!r} leads out of its folder")
                    if not re.fullmatch("[0-9a-f]*", digest) or length < 0:
                        raise ValueError(f"the file {name!r} has no digest or no size")
                self._listings[revision] = Listing(info.sha, files)
        return self._listings[revision]


Repository = Folder | HuggingFace
