"""Size and sha256 of files, the first two things that are checked of any weights.

An unchanged file is not read again: its digest is remembered with its inode, size and times, in a
small file below the cache. `zoo verify` always reads.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from pathlib import Path

from zoo_core.errors import WeightsError
from zoo_core.paths import cache_dir

SETTLED = 2_000_000_000  # nanoseconds after which a change would show in a file's times


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


def digest_of(file: io.BufferedReader, rehash: bool = False) -> str:
    """The sha256 of an open file: read, or remembered while nothing about the file has changed."""
    before = os.fstat(file.fileno())
    if not rehash and (known := _remembered(before)):
        return known
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    if _state(os.fstat(file.fileno())) != _state(before):
        raise OSError(0, "it changes while it is being read")
    if _remembered(before) != digest:
        _remember(before, digest)
    return digest


def _state(status: os.stat_result) -> tuple[int, ...]:
    # ctime as well: a program can set the mtime back after a change, and not this one.
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _note(status: os.stat_result) -> Path:
    return cache_dir("weights") / "checked" / f"{status.st_dev:x}-{status.st_ino:x}"


def _remembered(status: os.stat_result) -> str:
    try:
        digest, *state = _note(status).read_text("ascii").split()
        return digest if tuple(map(int, state)) == _state(status) and len(digest) == 64 else ""
    except (OSError, ValueError):
        return ""


def _remember(status: os.stat_result, digest: str) -> None:
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < SETTLED:
        return  # the clock of files is coarse: a change right now could leave the same times
    path = _note(status)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(" ".join(map(str, (digest, *_state(status)))), "ascii")
    except OSError:
        pass  # then it is read again the next time
