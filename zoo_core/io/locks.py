"""What a living process holds, and what a dead one left: told apart by locks of the system.

Such a lock (flock) ends with its process, however that ends. A lock file is removed while it is
held: whoever gets hold of a removed one sees that it has no name any more, and tries again.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

MOMENT = 0.2  # seconds: most locks are held for less
DAY = 86_400  # seconds; where there are no such locks, what is older belongs to nobody


@contextmanager
def lock_file(path: Path, waiting: Callable[[], None] | None) -> Iterator[None]:
    """Hold a lock; another process that has it is waited for, or `waiting` raises an error."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=MOMENT)  # only who waits longer is told
    except Timeout:
        if waiting:
            waiting()
        lock.acquire()
    try:
        yield
    finally:
        if fcntl and isinstance(lock, FileLock):  # other kinds remove their files themselves
            with suppress(OSError):
                path.unlink()
        lock.release()


@contextmanager
def held(make: Callable[[], Path]) -> Iterator[Path]:
    """A file or folder that `make` makes, in use by this process until the block ends."""
    path, file = make(), None
    while fcntl and file is None:
        file = _hold(path)
        if file is None:  # somebody took it for one that was left
            path = make()
    try:
        yield path
    finally:
        if file is not None:
            os.close(file)


def _hold(path: Path) -> int | None:
    with suppress(FileNotFoundError):
        file = os.open(path, os.O_RDONLY)
        with suppress(OSError):  # a disk without such locks
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        except FileNotFoundError:
            os.close(file)
    return None


def is_dead(path: Path) -> bool:
    """Whether nobody holds this file or folder any more."""
    with _taken(path) as dead:
        return dead


def remove_dead(path: Path) -> bool:
    """Delete a file or folder that nobody holds any more; whether nobody does."""
    with _taken(path) as dead:
        if dead:
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return dead


@contextmanager
def _taken(path: Path) -> Iterator[bool]:
    """Whether nobody holds it; if so, nobody else takes it within the block."""
    if not fcntl:
        yield _is_old(path)
        return
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        dead = True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            dead = False
        except OSError:
            dead = _is_old(path)
        yield dead
    finally:
        os.close(file)


def _is_old(path: Path) -> bool:
    with suppress(OSError):
        return time.time() - path.lstat().st_mtime > DAY
    return False
