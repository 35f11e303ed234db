"""A repository of weights, on the Hub or on a disk: three files at a revision.

    config.json          one entry of a manifest, without sources
    model.safetensors    the weights
    README.md            the card

`open_repository` gives the one that a reference names.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from zoo_core.io.console import say, typed
from zoo_core.io.errors import (
    HubError,
    ManifestError,
    SourceUnavailable,
    UsageError,
    ZooError,
    os_errors,
)
from zoo_core.io.files import atomic_write, locked, open_regular, read_bytes, temporary_folder
from zoo_core.io.net import check_reachable
from zoo_core.io.targets import describe
from zoo_core.weights.manifest import COMMIT, LARGEST_ENTRY, REPOSITORY, Weights, parse

CONFIG, MODEL, CARD = "config.json", "model.safetensors", "README.md"
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
Files = Mapping[str, bytes | Path]  # by name in the repository: texts, and the path of the weights
REACHABLE_SECONDS = 2.0  # the client itself would try for 23
ANSWER_SECONDS = 10.0
BESIDE = {".gitattributes", ".gitignore", "LICENSE", CARD}  # in a repository without weights
OURS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.ENOTDIR)
MOUNTED = "is the disk that it was on mounted?"
PUBLISHED = "was it published with zoo publish?"
LOGIN = "hf auth login, or a token in HF_TOKEN"
SENTENCES: dict[str | int, tuple[str, str]] = {  # an error's class or status: a sentence, a hint
    "OfflineModeIsEnabled": ("{} is not asked, because the Hub's client is offline", ""),
    "GatedRepoError": ("{} is gated: you need access", f"ask its owner; then {LOGIN}"),
    "RevisionNotFoundError": ("{} has no such revision", "without @REVISION it is the newest one"),
    "RemoteEntryNotFoundError": ("{} does not have that file", PUBLISHED),
    "LocalTokenNotFoundError": ("{} needs a token", LOGIN),
    "RepositoryNotFoundError": (
        "there is no repository {}, or it is private",
        f"is it spelt correctly? A private one needs a token: {LOGIN}",
    ),
    "bad token": (
        "the hub does not accept your token for {}",
        f"{LOGIN}; public repositories need none: unset HF_TOKEN",
    ),
    403: ("{}: you do not have the permission (403)", "the token must have the right to write"),
    404: ("{}: the hub does not know it (404)", ""),
    409: ("{}: it is in conflict with what the hub has (409)", "try again"),
    412: ("{}: somebody else published to it meanwhile (412)", "look at it, then publish again"),
    429: ("{}: the hub got too many requests from here (429)", "wait a while, then try again"),
}


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
    hint = "write hf:ORGANISATION/NAME or file:FOLDER"
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

    def fetch(self, commit: str, file: str, folder: Path) -> Path:
        """Bring a file into an empty folder. The caller checks what it is."""
        with self._reading(file):
            source = open_regular(self._file(commit, file), follow=False)
        target = folder / Path(file).name
        with source, target.open("wb") as copy:
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
            with locked(main, lambda: None):
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


def offline() -> bool:
    """Whether this machine is told to use no network, in the words that the client knows."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in ("1", "ON", "YES", "TRUE")


def endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


class HuggingFace:
    """A repository of the Hugging Face Hub, with the methods of Folder, through the Hub's client.

    The client compares sizes only, keeps damaged files for ever, and raises exceptions of three
    libraries. Here it fetches past its own cache, and whatever goes wrong is one sentence.
    """

    def __init__(self, name: str, kind: str = "model") -> None:
        self.name, self.kind = name, kind  # "model" or "dataset"
        self.reference = f"hf:{name}"
        self._infos: dict[str, Any] = {}
        self._reached = self._publishing = False
        self._without = "what is on this machine already loads without it"

    def inside(self) -> list[Repository]:
        """The repositories of an organisation whose card says that zoo publish made them."""
        with self._talking() as hub:
            found = sorted(one.id for one in hub.list_models(author=self.name, filter="zoo"))
        return [HuggingFace(name) for name in found]

    def resolve(self, revision: str) -> str:
        if COMMIT.fullmatch(revision):
            return revision  # it always stands for itself: nobody is asked
        return str(self._info(revision).sha)

    def stored(self, commit: str, file: str) -> tuple[str, int]:
        there = {one.rfilename: one.lfs for one in self._info(commit).siblings or ()}
        if file not in there:
            raise HubError(f"{self.reference} has no {file}", PUBLISHED)
        if there[file] is None:
            what = f"{self.reference} does not keep {file} as a large file"
            raise HubError(f"{what}, so that there is no digest to check it by")
        return there[file].sha256, there[file].size

    def files(self, commit: str) -> dict[str, tuple[str, int]]:
        """All files: SHA-256, or Git's digest of 40 digits of small ones, and size."""
        there = self._info(commit).siblings or ()
        return {f.rfilename: (f.lfs.sha256 if f.lfs else f.blob_id, f.size) for f in there}

    def fetch(self, commit: str, file: str, folder: Path) -> Path:
        with self._talking() as hub:
            # force_download: past the client's cache, whose files are not checked.
            return Path(hub.hf_hub_download(
                self.name, file, repo_type=self.kind, revision=commit, local_dir=folder,
                force_download=True, etag_timeout=ANSWER_SECONDS,
            ))  # fmt: skip

    def confirm(self, commit: str, digests: Mapping[str, str]) -> None:
        """The Hub is Git: a commit cannot change."""

    def publish(self, files: Files, sha256: str, message: str, private: bool) -> str:
        self._publishing = True
        self._without = "file:FOLDER is a place to publish to that needs no hub"
        with self._talking() as hub:
            hub.create_repo(self.name, private=private or None, exist_ok=True)
        current = self._info("")
        if self._same(current, files, sha256):
            return str(current.sha)
        self._refuse_others(current, files)
        with self._talking() as hub:
            from huggingface_hub import CommitOperationAdd

            # With the parent named, two people who publish at once do not undo each other's work.
            added = [CommitOperationAdd(name, content) for name, content in files.items()]
            commit = hub.create_commit(
                self.name, added, commit_message=message, parent_commit=current.sha
            )
        self._infos.clear()
        return str(commit.oid)

    def _same(self, info: Any, files: Files, sha256: str) -> bool:
        there = info.siblings or ()
        known = {one.rfilename: one.lfs.sha256 if one.lfs else one.blob_id for one in there}
        for name, content in files.items():
            same = {sha256}
            if isinstance(content, bytes):  # Git's digest, unless the Hub keeps it as a large file
                git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
                same = {hashlib.sha256(content).hexdigest(), git}
            if known.get(name) not in same:
                return False
        return True

    def _refuse_others(self, info: Any, files: Files) -> None:
        """Refuse to overwrite what zoo publish did not put there."""
        there = {one.rfilename for one in info.siblings or ()}
        if not there - BESIDE:
            if CARD in there:
                say(f"{self.reference}: its {CARD} is replaced; its history keeps the old one")
            return
        if CONFIG in there:
            with tempfile.TemporaryDirectory() as folder, suppress(ManifestError):
                config = read_bytes(self.fetch(info.sha, CONFIG, Path(folder)), LARGEST_ENTRY)
                _refuse_other_model(self.reference, config, files)
                return
        what = f"{self.reference} holds something that zoo publish did not put there"
        raise HubError(what, "publish to a repository of another name")

    def _info(self, revision: str) -> Any:
        if revision not in self._infos:
            with self._talking() as hub:
                self._infos[revision] = hub.repo_info(
                    self.name, repo_type=self.kind, revision=revision or None, files_metadata=True,
                    timeout=ANSWER_SECONDS,
                )  # fmt: skip
        return self._infos[revision]

    @contextmanager
    def _talking(self) -> Iterator[Any]:
        """The client's API, for as long as the block takes. Its exceptions become sentences."""
        if offline():
            what = f"{self.reference} is not asked, because HF_HUB_OFFLINE is set"
            raise HubError(what, self._without)
        try:
            if not self._reached:
                check_reachable(endpoint(), REACHABLE_SECONDS)
                self._reached = True
            from huggingface_hub import HfApi

            with _plainly():
                yield HfApi(endpoint=endpoint())
        except SourceUnavailable as error:
            raise HubError(f"{self.reference}: {error}", self._without) from error
        except ZooError:
            raise
        except Exception as error:
            # Some OSErrors are about our own disk; those of the client's transport have no errno.
            if isinstance(error, OSError) and error.errno in OURS:
                raise
            raise HubError(*self._sentence(error)) from error

    def _sentence(self, error: Exception) -> tuple[str, str]:
        """What went wrong, and a hint."""
        from huggingface_hub import get_token

        cause = error.__cause__  # a failed download hides the answer that it got behind another one
        if not hasattr(error, "response") and isinstance(cause, Exception):
            error = cause
        status = getattr(getattr(error, "response", None), "status_code", 0)
        kinds = (kind.__name__ for kind in type(error).__mro__)
        known = next((kind for kind in kinds if kind in SENTENCES), status)
        if status == 401 and known in (401, "RepositoryNotFoundError"):
            if self._publishing:
                answer = "does not accept your token" if get_token() else "needs a token"
                what = f"{self.reference}: the hub {answer} for publishing"
                return what, f"{LOGIN}, one that may write"
            known = "bad token" if get_token() else "RepositoryNotFoundError"
        if known in SENTENCES:
            sentence, hint = SENTENCES[known]
            return sentence.format(self.reference), hint
        broken = f"failed ({status})"
        what = broken if status >= 500 else f"stopped answering ({describe(error)[:200]})"
        return f"{self.reference}: the hub {what}", "try again later"


Repository = Folder | HuggingFace


@contextmanager
def _plainly() -> Iterator[None]:
    """The client without Xet, without bars where nobody looks, and without words of its own.

    Xet needs a hub that speaks it, and would make several commits of one publication.
    """
    from huggingface_hub import constants

    utils: Any = importlib.import_module("huggingface_hub.utils")
    with ExitStack() as undo:
        undo.callback(setattr, constants, "HF_HUB_DISABLE_XET", constants.HF_HUB_DISABLE_XET)
        constants.HF_HUB_DISABLE_XET = True
        undo.callback(utils.logging.set_verbosity, utils.logging.get_verbosity())
        utils.logging.set_verbosity_error()  # what goes wrong is said once, by us
        if not sys.stderr.isatty() and not utils.are_progress_bars_disabled():
            undo.callback(utils.enable_progress_bars)
            utils.disable_progress_bars()
        yield
