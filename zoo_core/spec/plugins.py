"""Loads, isolates and validates plugins; nothing else in the zoo loads one.

pluggy's own loader stops at the first bad plugin; this one takes each alone, all or nothing.
"""

from __future__ import annotations

import functools
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pluggy

from zoo_core.io.console import warn
from zoo_core.io.errors import PluginError, ZooError, did_you_mean
from zoo_core.io.targets import describe, import_target
from zoo_core.spec import hooks as hookspecs
from zoo_core.spec.discovery import find_plugins
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
from zoo_core.spec.guard import Guard, leave_out
from zoo_core.spec.notes import left_behind
from zoo_core.spec.recipe import NAME

MOST_ENTRIES = 10_000  # of one hook of one plugin: a generator without end must not hang the zoo
SLOW = 0.1  # seconds that a plugin may add to everybody's start

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
    def disabled(self) -> tuple[PluginRecord, ...]:
        return tuple(r for r in self.records if r.state == "disabled")

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
    """Load every installed plugin that the user does not exclude; once per process."""
    records = find_plugins()
    names = {record.id: in_words(record) for record in records if record.state == "ok"}
    for plugin in left_behind():
        if plugin in names:
            hint = f"zoo doctor finds out why; {leave_out(plugin)}"
            warn(f"an earlier command ended while plugin {names[plugin]} was loading; {hint}")
    plugins = load(records)
    if os.environ.get("ZOO_STRICT", "") not in ("", "0") and plugins.broken:
        first = plugins.broken[0]
        raise PluginError(
            f"plugin {in_words(first)} is {first.state}: {first.reason}",
            "ZOO_STRICT is set; without it the zoo goes on with the other plugins",
        )
    return plugins


def loading() -> bool:
    """Whether a plugin is being imported right now: it can ask for nothing that plugins have."""
    return bool(_busy)


def load(records: Iterable[PluginRecord], *, note: bool = True) -> Plugins:
    """Load those that are ok as far as one knows. note: write down which one, for `left_behind`."""
    loaded, objects = [], {}
    with _turn:
        if _busy:
            raise ZooError("a plugin cannot ask for models or datasets while it is being imported")
        try:
            _busy.append(True)
            with Guard(note=note) as guard:
                trial = _new_manager()
                for record in records:
                    if record.state == "ok":
                        record, plugin = _load(record, trial, guard)
                        if record.state == "ok":
                            objects[record.id] = plugin
                        else:
                            trial = _new_manager()  # the old one may hold half of the plugin
                    loaded.append(record)
        finally:
            _busy.clear()
    return Plugins(tuple(loaded), objects)


# Two threads at once would undo each other's work; a thread that comes back is in a plugin.
_turn, _busy = threading.RLock(), list[bool]()


def in_words(record: PluginRecord) -> str:
    """`'cnn' (zoo-cnn 0.1.0)`."""
    return f"{record.id!r} ({record.distribution} {record.version})".replace(" )", ")")


def _load(
    record: PluginRecord, trial: pluggy.PluginManager, guard: Guard
) -> tuple[PluginRecord, Any]:
    """Import and validate one plugin as a whole; a record that says why not, where it fails."""
    started = time.perf_counter()

    def work() -> tuple[Any, dict[str, Any]]:
        plugin = _import(record)
        return plugin, _validate(record, plugin, trial)

    def explain(error: BaseException) -> dict[str, str]:
        import traceback

        state = "incompatible" if isinstance(error, _Incompatible) else "failed"
        text = "".join(traceback.format_exception(error))
        return {"state": state, "reason": _reason(error), "traceback": text}

    name = in_words(record)
    done, error, changes = guard.run(record.id, name, work)
    plugin, facts = done or (None, {"state": "failed", "reason": "its error cannot be shown"})
    if error is not None:
        # Guarded too: the plugin's own code may make the text of its error.
        facts = guard.run(record.id, name, lambda: explain(error))[0] or facts
    elif changes:
        plugin, facts = None, {"state": "failed", "reason": f"loading it {' and '.join(changes)}"}
    if changes and error is not None:
        facts["reason"] += f"; loading it also {' and '.join(changes)}"
    return replace(record, seconds=time.perf_counter() - started, **facts), plugin


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
        hint = did_you_mean(unknown[1], hookspecs.HOOKS)
        return f"there is no hook {unknown[1]!r}" + (f"; {hint}" if hint else "")
    if wrong := re.search(r"for hook '(\w+)'.*Argument\(s\) (\{.*?\})", text):
        arguments = ", ".join(sorted(re.findall(r"'(\w+)'", wrong[2])))
        return f"its {wrong[1]} takes {arguments}, which that hook does not have"
    return text
