"""The Hugging Face Hub's own client, watched: the one way in which the zoo talks to a hub.

The client has no limit to what it reads or how long it waits, and raises exceptions of three
libraries. Here every question ends, in an answer or in a HubError of one sentence, and the token
goes to the hub alone.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from zoo_core.io import net
from zoo_core.io.errors import HubError, SourceUnavailable, ZooError
from zoo_core.io.targets import describe

REACHABLE_SECONDS = 2.0  # the client itself would try for 23
ANSWER_SECONDS = 10.0
LARGEST_ANSWER = 64 << 20  # bytes of what is no file; a list of 100,000 files has half of that
OURS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.ENOTDIR)
PUBLISHED = "was it published with zoo publish?"
LOGIN = "hf auth login, or a token in HF_TOKEN"
SENTENCES: dict[str | int, tuple[str, str]] = {  # an error's class or status: a sentence, a hint
    "OfflineModeIsEnabled": ("cannot ask the hub for {}: its client is offline", ""),
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
    403: ("{}: the hub refuses access to it (403)", f"ask its owner; then {LOGIN}"),
    404: ("{}: the hub does not know it (404)", ""),
    409: ("{}: it is in conflict with what the hub has (409)", "try again"),
    412: ("{}: somebody else published to it meanwhile (412)", "look at it, then publish again"),
    429: ("{}: the hub got too many requests from here (429)", "wait a while, then try again"),
}


def offline() -> bool:
    """Whether this machine is told to use no network, in the words that the client knows."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in ("1", "ON", "YES", "TRUE")


def endpoint() -> str:
    """The address of the hub; a HubError where it cannot be one."""
    given = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    try:
        parts = urlsplit(given)
        ok = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        ok = ok and not (parts.query or parts.fragment or re.search(r"[\s\0]", given))
    except ValueError:  # a port of 99999, half an IPv6 address
        ok = False
    if not ok:
        what = f"HF_ENDPOINT is {given[:200]!r}, which is not the address of a hub"
        raise HubError(what, "write https://HOST, or unset it for https://huggingface.co")
    return given.rstrip("/")


class Client:
    """What asks the hub about one repository; `reference` is its name in sentences."""

    def __init__(self, reference: str) -> None:
        self.reference = reference
        self.publishing = self._reached = False

    @property
    def without(self) -> str:
        if self.publishing:
            return "file:FOLDER is a place to publish to that needs no hub"
        return "what is on this machine already loads without it"

    @contextmanager
    def asked(self, file: str = "", most: int = 0) -> Iterator[Any]:
        """The client's API, for as long as the block takes. Its exceptions become sentences.

        file: what is asked for; no answer may have more than `most` bytes, or LARGEST_ANSWER.
        """
        if offline():
            what = f"cannot ask the hub for {self.reference}: HF_HUB_OFFLINE is set"
            raise HubError(what, self.without)
        address = endpoint()
        try:
            if not self._reached:
                net.check_reachable(address, REACHABLE_SECONDS)
                self._reached = True
            from huggingface_hub import HfApi

            with _plainly(), _guarded(address, file or "its answer", most or LARGEST_ANSWER):
                yield HfApi(endpoint=address)
        except SourceUnavailable as error:
            raise HubError(f"{self.reference}: {error}", error.hint or self.without) from error
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
        if isinstance(error, ValueError) and isinstance(cause, Exception):
            error = cause
        status = getattr(getattr(error, "response", None), "status_code", 0)
        kinds = [kind.__name__ for kind in type(error).__mro__]
        known = next((kind for kind in kinds if kind in SENTENCES), status)
        if status == 401 and known in (401, "RepositoryNotFoundError"):
            if self.publishing:
                answer = "does not accept your token" if get_token() else "needs a token"
                what = f"{self.reference}: the hub {answer} for publishing"
                return what, f"{LOGIN}; the token must be one that may write"
            known = "bad token" if get_token() else "RepositoryNotFoundError"
        if known == 403 and self.publishing:
            return (
                f"{self.reference}: you may not write to it (403)",
                f"{LOGIN}; the token must be one that may write",
            )
        if known in SENTENCES:
            sentence, hint = SENTENCES[known]
            return sentence.format(self.reference), hint
        # What the hub itself says is not repeated: it may be anything.
        if status:
            what = f"failed ({status})" if status >= 500 else f"refused the request ({status})"
        elif "TransportError" in kinds or isinstance(error, ConnectionError | TimeoutError):
            what = f"stopped answering ({type(error).__name__})"
        else:
            reason = "".join(filter(str.isprintable, describe(error)))[:200]
            what = f"gave an answer that cannot be used ({reason})"
        return f"{self.reference}: the hub {what}", "try again later"


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


@dataclass(frozen=True)
class Guard:
    """The limits of one question."""

    address: str
    what: str  # is asked for, in words
    most: int  # bytes of an answer
    pace: net.Pace


class Guards(threading.local):
    now: Guard | None = None  # of what this thread asks the hub


_guards = Guards()


@contextmanager
def _guarded(address: str, what: str, most: int) -> Iterator[None]:
    """Watch what the client, in this thread, sends to whom and gets."""
    from huggingface_hub import get_session

    hooks = get_session().event_hooks
    for event, hook in {"request": _sending, "response": _answering}.items():
        if hook not in hooks[event]:
            hooks[event].append(hook)
    _guards.now = Guard(address, what, most, net.Pace("the hub"))
    try:
        yield
    finally:
        _guards.now = None


def _sending(request: Any) -> None:
    if guard := _guards.now:
        if _origin(str(request.url)) != _origin(guard.address):
            request.headers.pop("authorization", None)  # the token is for the hub alone
        limits = request.extensions["timeout"]  # None: the client would wait for ever
        limits |= {kind: limits.get(kind) or net.STALL_SECONDS for kind in ("read", "write")}


def _answering(response: Any) -> None:
    if not (guard := _guards.now):
        return
    # The client would sleep for as long as the hub says; without these, for a few seconds.
    for name in ("retry-after", "ratelimit"):
        response.headers.pop(name, None)
    if sent := response.request.method in ("POST", "PUT"):
        guard.pace.restart()  # what was sent took its time
    guard.pace.reached(guard.pace.total)
    whole = response.status_code == 200 and not sent
    if whole and response.headers.get("content-type", "").startswith("text/html"):
        raise SourceUnavailable(f"{guard.what} is a web page", net.LOGIN_PAGE)
    # In blocks as they come, not as large as the client asks for: a drip would never fill one.
    blocks = partial(net.received, name=guard.what, most=guard.most, pace=guard.pace, whole=whole)
    plain = response.iter_bytes
    response.iter_bytes = lambda chunk_size=None: blocks(plain())


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
