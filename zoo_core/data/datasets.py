"""The one way to a dataset: find its entry, take it from the cache or a source, check every byte.

Nothing gets past the digests: those that the entry pins, or those recorded at the first fetch.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.cache import cache_file, cached_files, read_cache, read_header, write_cache
from zoo_core.data.dataset import CheckedArrays, Dataset, Split, check_arrays
from zoo_core.data.sources import Arrays, Source
from zoo_core.io.errors import (
    DataError,
    OptionError,
    UnknownName,
    UsageError,
    ZooError,
    did_you_mean,
)
from zoo_core.io.files import locked, temporary_folder
from zoo_core.io.net import THIS_MACHINE
from zoo_core.io.targets import describe, resolve
from zoo_core.spec.entries import DatasetEntry
from zoo_core.spec.plugins import load_plugins
from zoo_core.spec.recipe import freeze
from zoo_core.spec.registry import registry

FORMAT = 1  # of the cache file's record

Report = Callable[[str], None]


@dataclass(frozen=True)
class DatasetRequest:
    """What somebody asked for: an entry of the registry, and all of its options."""

    label: str
    entry: DatasetEntry
    options: Mapping[str, Any]

    @property
    def declared(self) -> bool:
        """Whether the entry's sizes and digests apply: they are those of the default options."""
        return dict(self.options) == dict(self.entry.config)

    @property
    def file(self) -> Path:
        return cache_file(self.entry, self.options)


def open_dataset(
    reference: str,
    *,
    source: Path | None = None,
    fetch: bool = True,
    report: Report = lambda line: None,
    **options: Any,
) -> Dataset:
    """The pictures of a dataset in memory, verified.

    reference: a name of `zoo data list`, `plugin/name`, or a path to a folder of pictures.
    source: files that the user has, read unless the cache has the dataset. fetch: whether the
    network may be used. report: called with a line on whatever a person may want to know. options:
    what `zoo data info NAME` shows.
    """
    request = find_dataset(reference, options)
    made = _made(request)
    if isinstance(made, Mapping):
        return _dataset(request, _check(request, made, f"{request.label}: "))
    path = request.file
    key = made[0].key
    found = load_cached(request, key, report)
    if found is None:
        found = _fetched(request, made, key, source and Path(source), fetch, report)
    elif source is not None:
        report(f"{request.label} is in the cache already, {source} is not needed: {path}")
    return _dataset(request, found)


def find_dataset(reference: str, options: Mapping[str, Any] | None = None) -> DatasetRequest:
    """The entry that a reference means, with the options checked and completed."""
    catalog = registry().datasets
    given = dict(freeze(options or {}))
    if is_path(reference):
        entry = catalog.get("builtin/image_folder")
        given["path"] = reference
        label = reference
    else:
        try:
            entry = catalog.get(reference)
        except UnknownName as error:
            if Path(reference).is_dir():
                raise UnknownName(str(error), f"for the folder write ./{reference}") from None
            raise
        label = catalog.label(entry)
    if isinstance(given.get("path"), str):
        given["path"] = str(Path(given["path"]).expanduser().resolve())
    for option in given:
        if option not in entry.config:
            known = f"it has: {', '.join(entry.config)}" if entry.config else "it has no options"
            hint = did_you_mean(option, entry.config, known)
            raise OptionError(f"dataset {label!r} has no option {option!r}", hint)
    return DatasetRequest(label, entry, {**entry.config, **given})


def is_path(reference: str) -> bool:
    """A bare name is never a path; `a/b` is one unless `a` is a plugin."""
    if reference in (".", "..", "~") or "\\" in reference or Path(reference).is_absolute():
        return True
    first, slash, _ = reference.partition("/")
    return bool(slash) and first not in {r.id for r in load_plugins().records}


# ---------------------------------------------------------------- cache and sources


class StaleCache(DataError):
    """A sound cache file of something that has changed since."""


def load_cached(
    request: DatasetRequest, key: str, report: Report, *, clean: bool = False
) -> CheckedArrays | None:
    """The cached dataset; None where there is none, or it is out of date or damaged.

    clean: delete it if it is damaged; only for the process that holds the lock.
    """
    try:
        return verify_cached(request, key=key)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except StaleCache:
        report(f"{request.label} has changed since it was cached")
    except DataError as error:
        report(f"{error}; a new copy is needed")
        if clean:
            request.file.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{request.file} cannot be read: {error.strerror}") from error
    return None


def verify_cached(
    request: DatasetRequest, path: Path | None = None, *, key: str | None = None
) -> CheckedArrays:
    """Read a cache file and hash every array again; raises DataError where something is wrong."""
    path = path or request.file
    record, arrays = read_cache(path)
    try:
        classes, digests = record["classes"], record["digests"]
        stale = record["format"] != FORMAT or (key is not None and record["key"] != key)
    except (KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: its record is incomplete") from error
    if stale:
        raise StaleCache(f"{path} is out of date")
    return _check(request, {**arrays, "classes": classes}, f"{path}: ", digests)


def cached(reference: str = "") -> list[tuple[DatasetRequest, Path]]:
    """The cache files of one dataset, or of all; a dataset with options has one for each choice."""
    catalog = registry().datasets
    asked = find_dataset(reference) if reference else None
    found = []
    for entry in [asked.entry] if asked else catalog:
        for path in cached_files(entry):
            try:
                options = freeze(read_header(path)["options"])
            except (DataError, KeyError, TypeError, ValueError):
                options = {}  # damaged; verify says so
            if asked and is_path(reference) and options.get("path") != asked.options["path"]:
                continue
            label = str(options.get("path") or catalog.label(entry))
            found.append((DatasetRequest(label, entry, options or entry.config), path))
    return found


def _made(request: DatasetRequest) -> Arrays | list[Source]:
    """What the entry's target returns: arrays, or sources to get them from."""
    label = request.label
    target = resolve(request.entry.target, f"dataset {label!r}")
    try:
        made = target(**request.options)
    except ZooError:
        raise
    except Exception as error:
        raise DataError(f"dataset {label!r} raised {describe(error)}") from error
    if isinstance(made, Mapping):
        return made
    if isinstance(made, Sequence) and made and all(isinstance(item, Source) for item in made):
        return list(made)
    raise DataError(f"dataset {label!r} gave neither arrays nor a list of zoo.Source")


def _fetched(
    request: DatasetRequest,
    sources: list[Source],
    key: str,
    user_path: Path | None,
    network: bool,
    report: Report,
) -> CheckedArrays:
    """Take the dataset from the first source that has it, and keep it."""
    label, path = request.label, request.file
    if user_path is not None:
        sources = [source for source in sources if source.needs == "path"]
        if not sources:
            raise UsageError(f"dataset {label!r} cannot be read from files that you name")
    else:
        usable = ("network", "nothing") if network else ("nothing",)
        sources = [source for source in sources if source.needs in usable]
        if not sources and not network:
            raise DataError(f"dataset {label!r} is not in the cache", f"zoo data fetch {label}")
    try:
        with locked(path, lambda: report(f"{label} is being fetched by another process; waiting")):
            found = load_cached(request, key, lambda line: None, clean=True)
            if found is not None:
                return found  # by the process that we waited for
            found, source = _first(request, sources, user_path, report)
            record = {
                "format": FORMAT,
                "dataset": request.entry.name,
                "plugin": request.entry.provider.plugin if request.entry.provider else "",
                "options": dict(request.options),
                "key": key,
                "classes": found.classes,
                "digests": found.digests,
                "source": source.name if user_path is None else str(user_path),
                "fetched": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            }
            write_cache(path, record, found.arrays)
            return found
    except OSError as error:
        raise DataError(
            f"{path} could not be written: {error.strerror or error}",
            "make room or choose another folder with ZOO_CACHE",
        ) from error


def _first(
    request: DatasetRequest, sources: list[Source], user_path: Path | None, report: Report
) -> tuple[CheckedArrays, Source]:
    tried: list[tuple[Source, str]] = []
    for source in sources:
        report(f"{request.label}: {user_path or source.name}")
        where = "" if source.needs == "network" else f"{user_path or request.label}: "
        try:
            with temporary_folder(request.file) as folder:
                return _check(request, source.fetch(user_path or folder), where), source
        except Exception as error:
            if isinstance(error, OSError) and error.errno in THIS_MACHINE:
                raise
            if source.needs != "network":  # what the user named: nothing else can stand in for it
                if isinstance(error, ZooError):
                    raise
                raise DataError(where + describe(error)) from error
            reason = str(error) if isinstance(error, ZooError) else describe(error)
            report(f"{request.label}: {source.name}: {reason}; skipped")
            tried.append((source, reason))
    raise DataError(
        f"{request.label} could not be fetched. Tried:"
        + "".join(f"\n  {source.name}: {reason}" for source, reason in tried),
        "connect to a network, install what is missing, or name files that you have: "
        f"zoo data fetch {request.label} --from PATH",
    )


# ---------------------------------------------------------------- the result


def _check(
    request: DatasetRequest, arrays: Arrays, where: str, recorded: Mapping[str, str] | None = None
) -> CheckedArrays:
    try:
        return check_arrays(request.entry, arrays, recorded or {}, declared=request.declared)
    except DataError as error:
        raise DataError(f"{where}{error}", error.hint) from error


def _dataset(request: DatasetRequest, found: CheckedArrays) -> Dataset:
    arrays, channels = found.arrays, found.arrays["train_images"].shape[3]

    def split(part: str) -> Split | None:
        images, labels = arrays.get(f"{part}_images"), arrays.get(f"{part}_labels")
        if images is None:
            return None
        return Split(images, None if labels is None else labels.astype(np.int64))

    def per_channel(values: tuple[float, ...]) -> tuple[float, ...]:
        return values if len(values) == channels else (sum(values) / len(values),) * channels

    shapes = {name: arrays[name].shape for name in sorted(arrays)}
    identity = json.dumps([found.digests, shapes], sort_keys=True).encode()
    train = split("train")
    assert train is not None
    return Dataset(
        name=Path(request.options["path"]).name if is_path(request.label) else request.label,
        train=train,
        test=split("test"),
        classes=found.classes,
        mean=per_channel(request.entry.mean),
        std=per_channel(request.entry.std),
        digest=hashlib.sha256(identity).hexdigest(),
    )
