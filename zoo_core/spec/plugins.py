"""Finds, loads, isolates and validates plugins; nothing else in the zoo loads one.

pluggy's own loader stops at the first bad plugin; this one takes each alone, all or nothing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.machinery import PathFinder
from itertools import islice
from typing import Any

import pluggy

from zoo_core import __version__
from zoo_core.io.errors import PluginError, UsageError, ZooError, did_you_mean
from zoo_core.io.targets import describe, import_target
from zoo_core.spec import hooks as hookspecs
from zoo_core.spec.entries import (
    AugmentationEntry,
    CommandEntry,
    DatasetEntry,
    EngineEntry,
    ModelEntry,
    PluginRecord,
    ReaderEntry,
    TrainerEntry,
    with_provider,
)
from zoo_core.spec.recipe import NAME

GROUP = "zoo"
MISSPELT = re.compile(r"(?im)^\[(zo+s?|ozo|zoo[-_.]?(?:core|plugins?|models?))\]")
BUILTIN = "builtin"
CORE = "zoo-core"
MOST_ENTRIES = 10_000  # of one hook of one plugin: a generator without end must not hang the zoo
SLOW = 0.1  # seconds that a plugin may add to everybody's start

Read = Callable[[str], str | None]  # one of the metadata files of a distribution

CONTRIBUTIONS: dict[str, type] = {
    "zoo_models": ModelEntry,
    "zoo_datasets": DatasetEntry,
    "zoo_readers": ReaderEntry,
    "zoo_trainers": TrainerEntry,
    "zoo_augmentations": AugmentationEntry,
    "zoo_manifests": str,
    "zoo_commands": CommandEntry,
    "zoo_engines": EngineEntry,
}


@dataclass(frozen=True)
class Plugins:
    """All plugins that are installed, and the objects of those that are ok."""

    records: tuple[PluginRecord, ...]
    objects: dict[str, Any]  # by plugin id: the modules that the entry points name

    @property
    def broken(self) -> tuple[PluginRecord, ...]:
        return tuple(r for r in self.records if r.state not in ("ok", "disabled"))

    @property
    def remarks(self) -> list[str]:
        """What a list says at its end, where plugins could not be loaded."""
        ids = [record.id for record in self.broken]
        what = "1 plugin" if len(ids) == 1 else f"{len(ids)} plugins"
        remark = f"{what} could not be loaded ({', '.join(ids)}): zoo plugins says why"
        return [remark] if ids else []

    def listeners(self) -> dict[str, pluggy.HookRelay]:
        """The hooks of each plugin that follows runs, apart: one that raises can be dropped."""
        relays = {}
        for record in self.records:
            if record.state == "ok" and set(record.hooks) - set(CONTRIBUTIONS):
                manager = _new_manager()
                manager.register(self.objects[record.id])
                relays[record.id] = manager.hook
        return relays


class _Incompatible(Exception):
    """The plugin asks for an API that this zoo does not have."""


@functools.cache
def load_plugins() -> Plugins:
    """Load every installed plugin that the environment does not exclude; once per process."""
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

    by_id: dict[str, list[PluginRecord]] = {}
    for record in found:
        by_id.setdefault(record.id, []).append(record)
    records, objects = [], {}
    trial = _new_manager()
    for record in found:
        rivals = [other for other in by_id[record.id] if other is not record]
        if record.id in excluded:
            record = replace(record, state="disabled", reason="ZOO_DISABLE_PLUGINS names it")
        elif chosen and record.id not in chosen and record.id != BUILTIN:
            record = replace(record, state="disabled", reason="ZOO_PLUGINS does not name it")
        elif rivals and record is not own:  # the built-in plugin cannot be pushed aside
            names = ", ".join(f"{other.distribution} {other.version}".strip() for other in rivals)
            reason = f"the plugin id {record.id!r} is also used by {names}; uninstall one of them"
            record = replace(record, state="conflict", reason=reason)
        elif record.state == "ok":
            record, plugin = _load(record, trial)
            if record.state == "ok":
                objects[record.id] = plugin
            else:
                trial = _new_manager()  # a plugin that fails may leave half of itself behind
        records.append(record)

    plugins = Plugins(tuple(records), objects)
    if os.environ.get("ZOO_STRICT", "") not in ("", "0") and plugins.broken:
        first = plugins.broken[0]
        raise PluginError(
            f"plugin {first.id!r} ({first.distribution}) is {first.state}: {first.reason}",
            "ZOO_STRICT is set; without it the zoo goes on with the other plugins",
        )
    return plugins


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


def _names_from(variable: str) -> set[str]:
    return {name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()}


def _load(record: PluginRecord, trial: pluggy.PluginManager) -> tuple[PluginRecord, Any]:
    """Import and validate one plugin as a whole; a record that says why not, where it fails."""
    started = time.perf_counter()
    try:
        # A plugin that prints must not spoil the one JSON document that --json promises.
        with contextlib.redirect_stdout(sys.stderr):
            plugin = _import(record)
            contributed = _validate(record, plugin, trial)
        return replace(record, seconds=time.perf_counter() - started, **contributed), plugin
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit and worse: no plugin may take the zoo down
        import traceback

        failed = replace(
            record,
            state="incompatible" if isinstance(error, _Incompatible) else "failed",
            reason=_reason(error),
            traceback="".join(traceback.format_exception(error)),
            seconds=time.perf_counter() - started,
        )
        return failed, None


def _import(record: PluginRecord) -> Any:
    if NAME.fullmatch(record.id) is None:
        raise ZooError(
            f"the entry-point name {record.id!r} must be lower-case letters, digits, _ and -"
        )
    try:
        plugin = import_target(record.value)
    except Exception as error:
        message = f"importing {record.value} raised {describe(error)}"
        if isinstance(error, ImportError) and error.name == "zoo":
            message += "; it may be made for a newer zoo-core"
        raise ZooError(message) from error

    wanted = getattr(plugin, "ZOO_API", hookspecs.API)
    if not isinstance(wanted, int):
        raise ZooError(f"ZOO_API must be a whole number, not {wanted!r}")
    if wanted > hookspecs.API:
        raise _Incompatible(
            f"it needs version {wanted} of the zoo's plugin API, and this zoo-core has version "
            f"{hookspecs.API}; upgrade with: pip install -U zoo-core"
        )
    return plugin


def _validate(record: PluginRecord, plugin: Any, trial: pluggy.PluginManager) -> dict[str, Any]:
    """What the plugin contributes. Meanwhile the trial manager holds this plugin alone."""
    trial.register(plugin, name=record.id)
    trial.check_pending()
    callers = trial.get_hookcallers(plugin) or []
    hooks = tuple(sorted(caller.name for caller in callers if caller.has_spec()))
    for name in CONTRIBUTIONS:
        if callable(getattr(plugin, name, None)) and name not in hooks:
            raise ZooError(f"{name} is not marked with @zoo.hookimpl, so it would never be called")

    contributed = {
        name.removeprefix("zoo_"): with_provider(_contributed(caller, kind), record.provider)
        for name, kind in CONTRIBUTIONS.items()
        if name in hooks and (caller := getattr(trial.hook, name))
    }
    trial.unregister(plugin)
    return {"hooks": hooks, "contributed": contributed}


def _contributed(caller: Callable[[], list[Any]], kind: type) -> list[Any]:
    """What one hook of one plugin returned, checked item by item."""
    name = caller.name  # type: ignore[attr-defined]
    try:
        results = caller()
        if not results:  # pluggy leaves out a result that is None
            raise ZooError(f"{name} returned None instead of a list")
        (result,) = results
        if isinstance(result, str) or not isinstance(result, Iterable):
            raise ZooError(f"{name} returned {_brief(result)} instead of a list")
        items = list(islice(result, MOST_ENTRIES + 1))
    except ZooError:
        raise
    except Exception as error:
        raise ZooError(f"{name} raised {describe(error)}") from error
    if len(items) > MOST_ENTRIES:
        raise ZooError(f"{name} returned more than {MOST_ENTRIES} entries")
    names = set()
    for item in items:
        if not isinstance(item, kind):
            raise ZooError(f"{name} returned {_brief(item)} instead of a {kind.__name__}")
        key = getattr(item, "name", item)
        if key in names:
            raise ZooError(f"{name} returned {key!r} twice")
        names.add(key)
    return items


def _new_manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager("zoo")
    manager.add_hookspecs(hookspecs)
    return manager


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _reason(error: BaseException) -> str:
    """One sentence; pluggy's names our internals, so it is said in the author's words."""
    if isinstance(error, ZooError | _Incompatible):
        return str(error)
    if not isinstance(error, pluggy.PluginValidationError):
        return f"loading it raised {describe(error)}"
    text = " ".join(str(error).split())
    if unknown := re.search(r"unknown hook '(\w+)'", text):
        known = [name for name in dir(hookspecs) if name.startswith("zoo_")]
        hint = did_you_mean(unknown[1], known)
        return f"there is no hook {unknown[1]!r}" + (f"; {hint}" if hint else "")
    if wrong := re.search(r"for hook '(\w+)'.*Argument\(s\) (\{.*?\})", text):
        arguments = ", ".join(sorted(re.findall(r"'(\w+)'", wrong[2])))
        return f"its {wrong[1]} takes {arguments}, which that hook does not have"
    return text
