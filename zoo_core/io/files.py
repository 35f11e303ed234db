"""Files: where the zoo keeps them, read safely, hashed, written as a whole or not at all."""

from __future__ import annotations

import errno
import glob
import hashlib
import io
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import IO

from zoo_core.io.folders import user_folder
from zoo_core.io.locks import held, lock_file, remove_dead


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; what is written there takes its place in one step.

    If the block raises, `path` stays as it was. Only a killed process leaves a file behind, .*.tmp.
    """
    path.parent.mkdir(parents=True, exist_ok=True)

    def make() -> Path:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        temporary.touch()
        return temporary

    with held(make) as temporary:
        try:
            yield temporary
            with temporary.open("rb+") as file:  # Windows flushes no file that is open to read
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    if os.name == "posix":  # the new name itself is safe only when its folder is
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def open_regular(path: Path, *, follow: bool = True) -> io.BufferedReader:
    """Open a file to read it; OSError for a folder, a pipe, a device, or a link if not `follow`."""
    # Without waiting: nobody may ever write to the other end of a pipe.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow:
        if path.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path))
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        file = open(os.open(path, flags), "rb")  # noqa: PTH123, SIM115 - a descriptor
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def read_bytes(path: Path, most: int, *, follow: bool = True) -> bytes:
    """The content of a file, at most one byte more than `most`: enough to see that it is longer."""
    with open_regular(path, follow=follow) as file:
        # Not `most`, for which the memory would be taken whatever the file holds.
        return file.read(min(os.fstat(file.fileno()).st_size, most) + 1)


def digest_of(file: IO[bytes], algorithm: str = "sha256") -> str:
    """The digest of an open file, at its beginning again then; OSError if it changes meanwhile."""
    before = os.fstat(file.fileno())
    file.seek(0)
    digest = hashlib.file_digest(file, algorithm).hexdigest()  # type: ignore[arg-type]
    file.seek(0)
    after = os.fstat(file.fileno())
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise OSError(0, "it changes while it is being read")
    return digest


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """The digest of a file."""
    with path.open("rb") as file:
        return digest_of(file, algorithm)


def lock_of(path: Path) -> Path:
    """The file that stands for the lock of another one."""
    return path.with_name(f".{path.stem}.lock")


@contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Keep other processes from making the same file; calls `waiting` once if one does already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_file(lock_of(path), waiting):
        _tidy(path)
        yield


@contextmanager
def temporary_folder(path: Path | None = None) -> Iterator[Path]:
    """An empty folder, gone afterwards: beside a file, on the same disk, or the system's place."""
    place = path or Path(tempfile.gettempdir()) / "zoo"
    _tidy(place)
    names = {"prefix": f".{place.stem}.", "suffix": ".tmp", "dir": str(place.parent)}
    with held(lambda: Path(tempfile.mkdtemp(**names))) as folder:
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _tidy(path: Path) -> None:
    """Remove what killed processes left beside a file; runs/leftovers.py knows the rest."""
    for stale in path.parent.glob(f".{glob.escape(path.stem)}.*.tmp"):
        remove_dead(stale)


CACHES = {
    "data": "datasets, decoded and verified",
    "packs": "images of your own, decoded",
    "weights": "trained weights",
    "features": "features of frozen backbones",
}
PLUGINS = "plugins"  # the folder of the caches of plugins
PLUGIN = re.compile(r"[\w-]+")  # an id that can be a folder everywhere


def cache_root() -> Path:
    """The folder of all caches: ZOO_CACHE, or the user's cache folder of this platform."""
    return Path(user_folder("cache", "ZOO_CACHE")).absolute()


def cache_dir(kind: str) -> Path:
    """The folder of one cache: the zoo's data, weights or features, or a plugin's, by its id.

    It may not exist yet; everything in it is safe to delete. `zoo cache` shows and clears it.
    """
    if kind in CACHES:
        return cache_root() / kind
    if not PLUGIN.fullmatch(kind):
        raise ValueError(f"a cache has the id of its plugin, not {kind!r}")
    return cache_root() / PLUGINS / kind


def caches() -> dict[str, str]:
    """All caches that `zoo cache` knows, and what each holds."""
    found = sorted(path.name for path in (cache_root() / PLUGINS).glob("*") if path.is_dir())
    own = filter(PLUGIN.fullmatch, found)
    return CACHES | {plugin: f"files of the plugin {plugin}" for plugin in own}


def user_manifest() -> Path:
    """The list of the weights that this user published: ZOO_MANIFEST, or in the user's data."""
    if chosen := os.environ.get("ZOO_MANIFEST"):
        return Path(chosen).expanduser().absolute()
    return Path(user_folder("data")) / "weights_manifest.json"


def free_name(path: Path) -> Path:
    """Where to write what nobody gave a name: samples.png, or samples-2.png where that exists."""
    numbered = (path.with_name(f"{path.stem}-{n}{path.suffix}") for n in count(2))
    return next(p for p in chain([path], numbered) if not os.path.lexists(p))
