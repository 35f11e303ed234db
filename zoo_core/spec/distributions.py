"""Which installed distributions declare entry points of a group, found quickly.

`importlib.metadata` answers the same question, but importing it costs as much as all the rest of
`zoo list` (it brings the e-mail and zip packages). Folders on the path, which is nearly always all
there is, are read directly; anything else, zip files and import hooks that know distributions of
their own, is left to importlib.metadata.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import importlib.metadata


@dataclass(frozen=True)
class Declared:
    """The entry points of one distribution in one group, or what is wrong with them."""

    distribution: str
    version: str
    points: tuple[tuple[str, str], ...]  # (name, value), as written
    problem: str = ""


def declared_in(group: str) -> Iterator[Declared]:
    """Every distribution with entry points in the group, in the order of the path.

    Of two copies of one distribution the first on the path counts, as it does for imports.
    """
    seen = set()
    for name, read in _distributions():
        try:
            text = read("entry_points.txt")
        except (OSError, ValueError) as error:
            # Not ours to judge, unless it is: a file that cannot be read may hold our group.
            yield Declared(name, "", (), f"its entry_points.txt cannot be read: {error}")
            continue
        if f"[{group}]" not in text:
            continue
        distribution, version = _name_and_version(name, read)
        key = re.sub(r"[-_.]+", "-", distribution).lower()
        if key not in seen:
            seen.add(key)
            yield Declared(distribution, version, tuple(_points(text, group)))


Read = Callable[[str], str]


def _distributions() -> Iterator[tuple[str, Read]]:
    """The name in its file name, and a function that reads one of its metadata files."""
    others = [
        finder
        for finder in sys.meta_path
        if finder is not PathFinder and hasattr(finder, "find_distributions")
    ]
    if others or any(entry and Path(entry).is_file() for entry in sys.path):
        import importlib.metadata

        for found in importlib.metadata.distributions():
            yield found.name or "(unknown)", partial(_read_found, found)
        return
    for entry in dict.fromkeys(sys.path):
        try:
            names = sorted(os.listdir(entry or "."))  # noqa: PTH208 - Path is slower
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                folder = f"{entry or '.'}/{name}"
                yield name.partition("-")[0], partial(_read, folder)


def _read_found(found: importlib.metadata.Distribution, file: str) -> str:
    return found.read_text(file) or ""


def _read(folder: str, file: str) -> str:
    try:
        with open(f"{folder}/{file}", encoding="utf-8") as stream:  # noqa: PTH123 - Path is slower
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _name_and_version(fallback: str, read: Read) -> tuple[str, str]:
    try:
        headers = (read("METADATA") or read("PKG-INFO")).partition("\n\n")[0]
    except (OSError, ValueError):
        headers = ""
    name = re.search(r"^Name: *(\S+)", headers, re.MULTILINE)
    version = re.search(r"^Version: *(\S+)", headers, re.MULTILINE)
    return name[1] if name else fallback, version[1] if version else ""


def _points(text: str, group: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif section == group and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name.strip(), value.partition("[")[0].strip()  # the rest are extras
