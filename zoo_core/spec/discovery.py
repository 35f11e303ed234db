"""Which plugins are installed, and which of them the user wants; imports none of them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.machinery import PathFinder

from zoo_core import __version__
from zoo_core.io.errors import UnknownName, UsageError, did_you_mean, os_errors
from zoo_core.io.folders import user_folder
from zoo_core.spec.entries import PluginRecord

GROUP = "zoo"
MISSPELT = re.compile(r"(?im)^\[(zo+s?|ozo|zoo[-_.]?(?:core|plugins?|models?))\]")
BUILTIN = "builtin"
CORE = "zoo-core"

Read = Callable[[str], str | None]  # one of the metadata files of a distribution


def find_plugins() -> list[PluginRecord]:
    """All that is installed, the zoo's own first; what nobody wants to load is `disabled`."""
    own = PluginRecord(
        id=BUILTIN, value="zoo_core.builtin.plugin", distribution=CORE, version=__version__
    )
    found = [own, *declared_in()]
    chosen, excluded = _names_from("ZOO_PLUGINS"), _names_from("ZOO_DISABLE_PLUGINS")
    unknown = sorted(chosen - {record.id for record in found})
    if unknown:
        raise UsageError(
            f"ZOO_PLUGINS names {', '.join(unknown)}, which is not installed",
            f"installed: {', '.join(sorted({r.id for r in found}))}",
        )
    off = disabled_plugins() if not chosen else ()  # the environment says more than the file
    by_id: dict[str, list[PluginRecord]] = {}
    for record in found:
        by_id.setdefault(record.id, []).append(record)

    def judged(record: PluginRecord) -> PluginRecord:
        rivals = [other for other in by_id[record.id] if other is not record]
        if record.id in excluded:
            return replace(record, state="disabled", reason="ZOO_DISABLE_PLUGINS names it")
        if record is own:  # nothing else can push it aside
            return record
        if chosen and record.id not in chosen:
            return replace(record, state="disabled", reason="ZOO_PLUGINS does not name it")
        if record.id in off:
            reason = f"you disabled it; zoo plugins enable {record.id} loads it again"
            return replace(record, state="disabled", reason=reason)
        if rivals:
            names = ", ".join(f"{other.distribution} {other.version}".strip() for other in rivals)
            reason = f"the plugin id {record.id!r} is also used by {names}; uninstall one of them"
            return replace(record, state="conflict", reason=reason)
        return record

    return [judged(record) for record in found]


def _names_from(variable: str) -> set[str]:
    return {name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()}


def disabled_plugins() -> list[str]:
    """The ids that `disable_plugin` was given. An empty file stands for each."""
    try:
        return sorted(os.listdir(_switches()))  # noqa: PTH208 - Path is slower
    except OSError:
        return []


def disable_plugin(name: str) -> None:
    """Leave a plugin out, in every command and program of this user, until `enable_plugin`."""
    _check_installed(name)
    with os_errors(
        f"plugin {name!r} could not be disabled", hint=f"export ZOO_DISABLE_PLUGINS={name}"
    ):
        os.makedirs(_switches(), exist_ok=True)  # noqa: PTH103
        os.close(os.open(f"{_switches()}/{name}", os.O_WRONLY | os.O_CREAT, 0o644))


def enable_plugin(name: str) -> None:
    """Load a plugin again that `disable_plugin` left out."""
    if name not in disabled_plugins():
        _check_installed(name)
        return
    with os_errors(f"plugin {name!r} could not be enabled"):
        os.unlink(f"{_switches()}/{name}")  # noqa: PTH108


def _check_installed(name: str) -> None:
    if name == BUILTIN:
        raise UsageError("the plugin 'builtin' is the zoo itself and is always loaded")
    known = sorted({record.id for record in declared_in()})
    if name not in known or "/" in name:
        hint = did_you_mean(name, known, f"installed: {', '.join(known)}")
        raise UnknownName(f"no plugin {name!r} is installed", hint)


def _switches() -> str:
    return f"{user_folder('config', 'ZOO_CONFIG')}/disabled-plugins"


def declared_in(group: str = GROUP) -> Iterator[PluginRecord]:
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
            other = MISSPELT.search(text) if group == GROUP else None
            if other and f"Requires-Dist: {CORE}" in (read("METADATA") or ""):
                reason = f"its entry points are in the group [{other[1]}], not in [{group}]"
                dist = _name_and_version(name, read)[0]
                yield PluginRecord(
                    id=name, value="", distribution=dist, version="", state="failed", reason=reason
                )
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
    """The name in its file name, and a function that reads one of its metadata files.

    Importing importlib.metadata takes as long as all the rest of `zoo list`. So folders on the path
    are read directly; zip files and import hooks with distributions of their own are left to it.
    """
    finders = [finder for finder in sys.meta_path if finder is not PathFinder]
    others = any(hasattr(finder, "find_distributions") for finder in finders)
    if others or any(map(os.path.isfile, sys.path)):
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
