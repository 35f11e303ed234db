"""Leftovers: what processes that were killed left in caches, in runs, among temporary files.

`leftover` is the one function that knows what they are. Nothing that a living process uses
is left over: such a process holds the lock of its run, or of the file itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zoo_core.io.errors import ZooError
from zoo_core.io.files import cache_root, user_manifest
from zoo_core.io.locks import is_dead, lock_file, remove_dead

LOCK = ".lock"  # in the folder of a run or a search

# The names that io/files.py, io/blocks.py and LOCK give to what lasts as long as its process; in
# parentheses what that process works on.
BRIEF = {
    re.compile(r"\.(.+)\.[a-z0-9_]{8}\.tmp"): "never finished",
    re.compile(r"(?:\.(.+))?\.lock"): "a lock",
    re.compile(r"\.(.+)\.\d+\.claim"): "a lock",
}
COMPLETE = "checkpoints of a complete run"
EMPTY = "a run that never began"
BEGUN = re.compile(r".+-\d{8}T\d{6}Z(-\d+)?")  # the name that new_run gives to a folder


@dataclass(frozen=True)
class Leftover:
    """A file or folder that no process needs any more."""

    path: Path
    what: str = EMPTY
    bytes: int = 0

    def remove(self) -> bool:
        """Delete it, unless a process has begun to use it meanwhile; whether it is gone."""
        if self.what in (COMPLETE, EMPTY):
            run = self.path if self.what == EMPTY else self.path.parent
            with suppress(OSError, ZooError), lock_file(run / LOCK, _busy):
                if _of_run(self.path) == self.what:
                    shutil.rmtree(self.path)
        else:
            remove_dead(self.path)
        return not os.path.lexists(self.path)


def leftover(path: Path) -> str:
    """What a file or folder is left over of; "": a process uses it, or it is something else."""
    if brief := brief_name(path):
        return BRIEF[brief.re] if is_dead(path) else ""
    what = _of_run(path)
    lock = (path if what == EMPTY else path.parent) / LOCK
    return "" if what and lock.exists() and not is_dead(lock) else what


def _of_run(path: Path) -> str:
    """What is left over of a run, if nobody works on it."""
    if path.name == "checkpoints":
        with suppress(OSError, ValueError, AttributeError, RecursionError):
            document = json.loads((path.parent / "run.json").read_bytes())
            return COMPLETE if document.get("status") == "complete" else ""
    elif BEGUN.fullmatch(path.name) and path.is_dir():
        return EMPTY if all(map(brief_name, path.iterdir())) else ""
    return ""


def brief_name(path: Path) -> re.Match[str] | None:
    """Whether it has a name of what lasts as long as its process."""
    return next((m for form in BRIEF if (m := form.fullmatch(path.name))), None)


def _busy() -> None:
    raise ZooError("another process has it")


def find_leftovers(folder: Path) -> Iterator[Leftover]:
    """All below a folder, which may be that of one run, of all runs or of a cache."""
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(place, name)
            with suppress(OSError):  # what a living process changes meanwhile
                if what := leftover(path):
                    yield Leftover(path, what, measure(path)[1])
                    if name in folders:
                        folders.remove(name)


def all_leftovers(runs: Path) -> list[Leftover]:
    """Those of this machine: in the caches, in a folder of runs, beside the user's manifest, and in
    the system's folder for temporary files."""
    found = [*find_leftovers(cache_root()), *find_leftovers(runs)]
    manifest, temporary = user_manifest(), Path(tempfile.gettempdir())
    beside = [*manifest.parent.glob(f".{manifest.stem}.*"), *temporary.glob(".zoo.*.tmp")]
    found += [Leftover(p, what, measure(p)[1]) for p in beside if (what := leftover(p))]
    return list({one.path: one for one in found}.values())


def clear_folder(folder: Path) -> None:
    """Delete a cache, but for what a living process works on."""
    if not folder.is_dir():
        return
    brief = {path: match for path in folder.iterdir() if (match := brief_name(path))}
    used = [match[1] for path, match in brief.items() if not remove_dead(path)]
    for path in folder.iterdir():
        if path in brief or any(path.name.startswith(name) for name in used if name):
            continue
        if path.is_dir() and not path.is_symlink():
            clear_folder(path)
        else:
            path.unlink(missing_ok=True)
    with suppress(OSError):  # something is left in it
        folder.rmdir()


def measure(path: Path) -> tuple[int, int]:
    """Number of files at a path or below it, and their bytes. Links are not followed."""
    inside = (Path(place, name) for place, _, names in os.walk(path) for name in names)
    sizes = []
    for file in inside if path.is_dir() and not path.is_symlink() else (path,):
        with suppress(FileNotFoundError):
            sizes.append(file.lstat().st_size)
    return len(sizes), sum(sizes)
