"""Notes on disk that name the plugin that a process is loading: what is left of one that died."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from zoo_core.io.folders import user_folder

try:
    import fcntl
except ImportError:  # Windows: there are no notes
    fcntl = None  # type: ignore[assignment]

PREFIX = ".loading-"
HIGH = 200  # the lowest descriptor to use: a plugin that closes a few of them does not come so far


class Note:
    """A file in the cache, gone after the loading. A lock on it says that its process lives.

    It stays open: naming the next plugin costs two system calls.
    """

    def __init__(self) -> None:
        self._file, self._known, self._made = -1, (0, 0), False
        with suppress(OSError):  # a cache that cannot be written: there is no note
            # As strings: `zoo --help` does without pathlib.
            self._folder = os.path.abspath(_folder())  # noqa: PTH100
            self._path = f"{self._folder}/{PREFIX}{os.getpid()}-{time.time_ns()}"
            self._open()

    def _open(self) -> None:
        while fcntl:
            try:
                low = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:
                os.makedirs(self._folder, exist_ok=True)  # noqa: PTH103
                self._made = True
                continue
            self._file = duplicate(low)
            os.close(low)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            if os.fstat(self._file).st_nlink:  # else somebody took it for one that was left
                self._known = identity(self._file)
                return
            os.close(self._file)

    def name(self, plugin: str) -> None:
        with suppress(OSError):
            if self._file >= 0 and identity(self._file) != self._known:
                self._open()  # a plugin closed it
            if self._file >= 0:
                os.lseek(self._file, 0, os.SEEK_SET)
                os.write(self._file, f"{plugin}\n".encode(errors="replace"))

    def remove(self) -> None:
        if self._file >= 0:
            with suppress(OSError):
                os.unlink(self._path)  # noqa: PTH108
                if self._made:
                    os.rmdir(self._folder)  # noqa: PTH106 - if it is as empty as it was made
            if identity(self._file) == self._known:
                os.close(self._file)


def left_behind() -> list[str]:
    """The plugins that were being loaded when a process ended; each note is told once."""
    found = set()
    with suppress(OSError):
        for name in os.listdir(_folder()) if fcntl else ():  # noqa: PTH208
            if name.startswith(PREFIX):
                with suppress(OSError):
                    found.add(_taken(f"{_folder()}/{name}"))
    return sorted(found - {""})


def _taken(path: str) -> str:
    """What a note names, which is gone then. BlockingIOError: its process lives."""
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        text = os.read(file, 1000).decode(errors="replace")
        os.unlink(path)  # noqa: PTH108
    finally:
        os.close(file)
    return text.partition("\n")[0]


def _folder() -> str:
    return user_folder("cache", "ZOO_CACHE")


def duplicate(number: int) -> int:
    """The same open file under a number of the zoo's own, which children do not get."""
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, HIGH) if fcntl else os.dup(number)


def identity(number: int) -> tuple[int, int]:
    """Which file a descriptor is; (-1, -1) if it is closed."""
    try:
        facts = os.fstat(number)
    except OSError:
        return -1, -1
    return facts.st_dev, facts.st_ino
