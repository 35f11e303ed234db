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
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path

from zoo_core.spec.entries import PluginRecord

Read = Callable[[str], str | None]


def declared_in(group: str) -> Iterator[PluginRecord]:
    """A record for each entry point of the group, in the order of the path; nothing is imported.

    Of two copies of one distribution the first on the path counts, as it does for imports.
    """
    seen = set()
    for name, read in _distributions():
        try:
            text = read("entry_points.txt") or ""
        except (OSError, ValueError) as error:
            # Not ours to judge, unless it is: a file that cannot be read may hold our group.
            reason = f"its entry_points.txt cannot be read: {error}"
            yield PluginRecord(
                id=name, value="", distribution=name, version="", state="failed", reason=reason
            )
            continue
        if f"[{group}]" not in text:
            continue
        distribution, version = _name_and_version(name, read)
        key = re.sub(r"[-_.]+", "-", distribution).lower()
        if key not in seen:
            seen.add(key)
            for point, value in _points(text, group):
                yield PluginRecord(
                    id=point, value=value, distribution=distribution, version=version
                )


def _distributions() -> Iterator[tuple[str, Read]]:
    """The name in its file name, and a function that reads one of its metadata files."""
    finders = [finder for finder in sys.meta_path if finder is not PathFinder]
    others = any(hasattr(finder, "find_distributions") for finder in finders)
    if others or any(entry and Path(entry).is_file() for entry in sys.path):
        import importlib.metadata

        for found in importlib.metadata.distributions():
            yield found.name or "(unknown)", found.read_text
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


def _read(folder: str, file: str) -> str:
    try:
        with open(f"{folder}/{file}", encoding="utf-8") as stream:  # noqa: PTH123 - Path is slower
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _name_and_version(fallback: str, read: Read) -> tuple[str, str]:
    try:
        headers = (read("METADATA") or read("PKG-INFO") or "").partition("\n\n")[0]
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
