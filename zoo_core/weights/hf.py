"""A repository of the Hugging Face Hub, through the Hub's own client.

The client compares sizes only, keeps damaged files for ever, and answers with exceptions of three
libraries. Here it fetches into a folder that the caller gives, past its own cache, and whatever
goes wrong is one sentence.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from zoo_core.io.console import say
from zoo_core.io.errors import HubError, ManifestError, SourceUnavailable, ZooError
from zoo_core.io.files import read_bytes
from zoo_core.io.net import check_reachable
from zoo_core.io.targets import describe
from zoo_core.weights.manifest import COMMIT, LARGEST_ENTRY, Weights, parse
from zoo_core.weights.repository import CARD, CONFIG, Stored

REACHABLE_SECONDS = 2.0  # the client itself would try for 23
ANSWER_SECONDS = 10.0
BESIDE = {".gitattributes", ".gitignore", "LICENSE", CARD}  # in a repository without weights
OURS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.ENOTDIR)


def offline() -> bool:
    """Whether this machine is told to use no network; the same words as the client's."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in ("1", "ON", "YES", "TRUE")


def endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


class HuggingFace:
    def __init__(self, name: str) -> None:
        self.name = name
        self.reference = f"hf:{name}"
        self._infos: dict[str, Any] = {}
        self._publishing = False

    def resolve(self, revision: str) -> str:
        if COMMIT.fullmatch(revision):
            return revision  # it always stands for itself: nobody is asked
        return str(self._info(revision).sha)

    def stored(self, commit: str, file: str) -> Stored:
        for sibling in self._info(commit).siblings or ():
            if sibling.rfilename == file:
                if sibling.lfs is None:
                    raise HubError(
                        f"{self.reference} does not keep {file} as a large file, so that there is "
                        "no digest to check it by"
                    )
                return Stored(sibling.lfs.sha256, sibling.lfs.size)
        raise HubError(f"{self.reference} has no {file}", "was it published with zoo publish?")

    def fetch(self, commit: str, file: str, folder: Path) -> Path:
        with self._talking() as hub:
            # force_download: past the client's cache, whose files are not checked.
            path = hub.hf_hub_download(
                self.name, file, revision=commit, local_dir=folder, force_download=True,
                etag_timeout=ANSWER_SECONDS,
            )  # fmt: skip
            return Path(path)

    def confirm(self, commit: str, digests: Mapping[str, str]) -> None:
        """The Hub is Git: a commit cannot change."""

    def publish(self, files: Mapping[str, Path], message: str, private: bool) -> str:
        self._publishing = True
        with self._talking() as hub:
            hub.create_repo(self.name, private=private or None, exist_ok=True)
        current = self._info("")
        if self._same(current, files):
            return str(current.sha)
        self._refuse_others(current)
        with self._talking() as hub:
            from huggingface_hub import CommitOperationAdd

            added = [CommitOperationAdd(name, str(path)) for name, path in files.items()]
            # With the parent named, two people who publish at once do not undo each other's work.
            commit = hub.create_commit(
                self.name, added, commit_message=message, parent_commit=current.sha
            )
        self._infos.clear()
        return str(commit.oid)

    def _refuse_others(self, info: Any) -> None:
        """What somebody made in another way is not ours to write over."""
        there = {one.rfilename for one in info.siblings or ()}
        if there - BESIDE and not (CONFIG in there and self._is_ours(info.sha)):
            raise HubError(
                f"{self.reference} holds something that zoo publish did not put there",
                "publish to a repository of another name",
            )
        if not there - BESIDE and CARD in there:
            say(f"{self.reference}: its {CARD} is replaced; the history there keeps the old one")

    def _is_ours(self, commit: str) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            config = read_bytes(self.fetch(commit, CONFIG, Path(folder)), LARGEST_ENTRY)
        try:
            parse(config, Weights, CONFIG)
        except ManifestError:
            return False
        return True

    def _same(self, info: Any, files: Mapping[str, Path]) -> bool:
        """Whether the repository holds these bytes already."""
        known = {one.rfilename: one for one in info.siblings or ()}
        for name, path in files.items():
            data = path.read_bytes()
            if name not in known:
                return False
            if known[name].lfs is not None:
                if known[name].lfs.sha256 != hashlib.sha256(data).hexdigest():
                    return False
            elif known[name].blob_id != hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest():
                return False
        return True

    def _info(self, revision: str) -> Any:
        if revision not in self._infos:
            with self._talking() as hub:
                self._infos[revision] = hub.model_info(
                    self.name, revision=revision or None, files_metadata=True,
                    timeout=ANSWER_SECONDS,
                )  # fmt: skip
        return self._infos[revision]

    # ------------------------------------------------------------ talking

    @property
    def _without(self) -> str:
        """What can be done without a hub."""
        if self._publishing:
            return "file:FOLDER is a place to publish to that needs no hub"
        return "what is on this machine already loads without it"

    @cached_property
    def _reachable(self) -> bool:
        try:
            check_reachable(endpoint(), REACHABLE_SECONDS)
        except SourceUnavailable as error:
            raise HubError(f"{self.reference}: {error}", self._without) from error
        return True

    @contextmanager
    def _talking(self) -> Iterator[Any]:
        """The client's API, for as long as the block takes. Its exceptions become sentences."""
        if offline():
            raise HubError(
                f"{self.reference} is not asked, because HF_HUB_OFFLINE is set", self._without
            )
        assert self._reachable
        from huggingface_hub import HfApi

        try:
            with _plainly():
                yield HfApi(endpoint=endpoint())
        except ZooError:
            raise
        except Exception as error:
            # Its transport's exceptions are no OSErrors, and some OSErrors are about our own disk.
            if isinstance(error, OSError) and error.errno in OURS:
                raise
            raise HubError(*self._sentence(error)) from error

    def _sentence(self, error: Exception) -> tuple[str, str]:
        from huggingface_hub import errors, get_token

        cause = error.__cause__  # a failed download hides the answer that it got behind another one
        if not hasattr(error, "response") and isinstance(cause, Exception):
            error = cause
        name, status = self.reference, getattr(getattr(error, "response", None), "status_code", 0)
        login = "hf auth login, or a token in HF_TOKEN"
        if isinstance(error, errors.OfflineModeIsEnabled):
            return f"{name} is not asked, because the Hub's client is offline", ""
        if isinstance(error, errors.GatedRepoError):
            return f"{name} is gated: its owner has to let you in", f"ask there; then {login}"
        if isinstance(error, errors.RevisionNotFoundError):
            return f"{name} has no such revision", "without @REVISION it is the newest one"
        if isinstance(error, errors.RemoteEntryNotFoundError):
            return f"{name} does not have that file", "was it published with zoo publish?"
        if isinstance(error, errors.LocalTokenNotFoundError):
            return f"{name} needs a token", login
        if status == 401 and self._publishing:
            answer = "does not accept your token" if get_token() else "wants a token"
            return f"{name}: the hub {answer} for publishing", f"{login}, one that may write"
        if status == 401 and get_token():
            return (
                f"the hub does not accept your token for {name}",
                f"{login}; public repositories need none: unset HF_TOKEN",
            )
        if isinstance(error, errors.RepositoryNotFoundError) or status == 401:
            return (
                f"there is no repository {name}, or it is not for everybody",
                f"is it spelt correctly? A private one needs a token: {login}",
            )
        known = {
            403: ("you may not do this with it", "the token must have the right to write"),
            404: ("the hub does not know it", ""),
            409: ("it is in conflict with what the hub has", "try again"),
            412: ("somebody else published to it meanwhile", "look at it, then publish again"),
            429: ("the hub has had too many requests from here", "wait a while, then try again"),
        }
        if status in known:
            what, hint = known[status]
            return f"{name}: {what} ({status})", hint
        if status >= 500:
            return f"{name}: the hub is out of order ({status})", "try again later"
        return f"{name}: the hub stopped answering ({describe(error)[:200]})", "try again later"


@contextmanager
def _plainly() -> Iterator[None]:
    """The client without Xet, without bars where nobody looks, and without words of its own.

    Xet needs a hub that speaks it, and would make several commits of one publication.
    """
    from huggingface_hub import constants

    bars: Any = importlib.import_module("huggingface_hub.utils")

    before, shown = constants.HF_HUB_DISABLE_XET, not bars.are_progress_bars_disabled()
    level = bars.logging.get_verbosity()
    constants.HF_HUB_DISABLE_XET = True
    bars.logging.set_verbosity_error()  # what goes wrong is said once, by us
    if not sys.stderr.isatty():
        bars.disable_progress_bars()
    try:
        yield
    finally:
        constants.HF_HUB_DISABLE_XET = before
        bars.logging.set_verbosity(level)
        if shown:
            bars.enable_progress_bars()
