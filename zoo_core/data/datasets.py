"""The one way to a dataset: find its entry, take it from the cache or a source, check every byte.

Nothing gets past the digests: those that the entry pins, or those recorded at the first fetch. The
cache has one safetensors file for each choice of options; docs/datasets.md describes it.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.corrections import corrected
from zoo_core.data.dataset import (
    CheckedArrays,
    Dataset,
    Split,
    check_arrays,
    check_digests,
    new_dataset,
    squared,
)
from zoo_core.data.image_folder import SPLITS
from zoo_core.data.images import FITS
from zoo_core.data.objects import InProgram, in_program
from zoo_core.data.originals import Arrays, Kept, Originals, Source
from zoo_core.data.stores import open_originals
from zoo_core.io import tensors
from zoo_core.io.console import say, typed
from zoo_core.io.documents import document_digest
from zoo_core.io.errors import (
    AmbiguousName,
    DataError,
    UnknownName,
    UsageError,
    ZooError,
    check_names,
    os_errors,
)
from zoo_core.io.files import atomic_write, cache_dir, file_digest, locked, temporary_folder
from zoo_core.io.net import THIS_MACHINE
from zoo_core.io.targets import describe, resolve
from zoo_core.spec.discovery import BUILTIN
from zoo_core.spec.entries import DatasetEntry, ReaderEntry
from zoo_core.spec.recipe import freeze
from zoo_core.spec.registry import as_reference, elsewhere, is_path, origin, plugin_of, registry

FORMAT = 1  # of the cache file's record
SUFFIX, KEPT = ".safetensors", ".original"
OWN = (BUILTIN, "classics")  # plugins whose datasets have cache files without the plugin's id
IN_PROGRAM = "memory:"  # the reference of an object; nobody else can open it

Report = Callable[[str], None]


@dataclass(frozen=True)
class DatasetChoice:
    """What somebody asked for: an entry of the registry, and all of its options."""

    label: str
    entry: DatasetEntry
    options: Mapping[str, Any]
    given: InProgram | None = None  # an object of this program
    corrections: str = ""  # a file of them; what is in the caches does not depend on it

    @property
    def reference(self) -> str:
        """What opens it again, from any folder."""
        if self.given:
            return IN_PROGRAM + self.given.words
        return str(self.options.get("path") or self.label)

    @property
    def name(self) -> str:
        """What run.json and reports call it."""
        if ":" in self.label and not is_path(self.label):  # hf:org/name@revision
            return Path(self.label.partition("@")[0]).name
        return Path(self.label).name if is_path(self.label) else self.label

    @property
    def declared(self) -> bool:
        """Whether the entry's sizes and digests apply: they are those of the default options."""
        return dict(self.options) == self.entry.options

    @property
    def file(self) -> Path:
        """Where it is cached: `name`, `plugin--name` of others, `@` and a digest with options."""
        if self.entry.originals:  # the file that they come from, whatever the options: `Kept`
            return cache_dir("data") / f"{_stem(self.entry)}{KEPT}"
        chosen = "" if self.declared else "@" + document_digest(self.options)[:12]
        return cache_dir("data") / f"{_stem(self.entry)}{chosen}{SUFFIX}"

    def check(
        self, arrays: Arrays, where: str, recorded: Mapping[str, str] | None = None
    ) -> CheckedArrays:
        """The arrays as they are kept; where: the beginning of the sentence for what is wrong."""
        try:
            return check_arrays(self.entry, arrays, recorded or {}, declared=self.declared)
        except DataError as error:
            raise DataError(f"{where}{error}", error.hint) from error


def open_dataset(
    reference: Any,
    options: Mapping[str, Any] | None = None,
    /,  # so that no option of a dataset can be taken for one of these
    *,
    source: Path | None = None,
    fetch: bool = True,
    fit: str = "",
    report: Report = say,
    **more: Any,
) -> Dataset:
    """The images of a dataset, verified.

    reference: a name of `zoo data list`, `plugin/name`, whatever `zoo list --readers` can read, or
    an object: (images, labels), a mapping of arrays, a pandas DataFrame, a torch Dataset. options,
    more: those of the dataset, see `zoo data info NAME`; and `corrections`, a file of images to
    leave out and labels to change. source: files that the user has, read
    unless the cache has the dataset. fetch: whether the network may be used. fit: how images that
    are not square become so: crop, pad or stretch. report: called with lines for people.
    """
    given = {**(options or {}), **more}
    choice = find_dataset(reference, given)
    if fit and choice.entry.originals:
        choice = find_dataset(reference, {**given, "fit": fit})
    made = given_by(choice, source, fetch, report)
    if isinstance(made, Originals):
        data = open_originals(choice.name, choice.entry, choice.options, made, report)
        data = replace(data, reference=made.reference or choice.reference)
        digest_of = made.digest
    else:
        found = given_arrays(choice, made, source, fetch, report)
        data, digest_of = _dataset(choice, found, fit), found.digest
    return corrected(data, choice.corrections, digest_of) if choice.corrections else data


def given_arrays(
    choice: DatasetChoice, made: Arrays | Sequence[Source], source: Path | None = None,
    fetch: bool = True, report: Report = say,
) -> CheckedArrays:  # fmt: skip
    """What a target made as checked arrays, from the cache or a source where it names those."""
    if isinstance(made, Mapping):
        return choice.check(made, f"{choice.label}: ")
    found = _load_cached(choice, made[0].key, report)
    if found is None:
        return _fetched(choice, made, source and Path(source), fetch, report)
    if source is not None:
        report(f"{choice.label} is in the cache already, {source} is not needed: {choice.file}")
    return found


def named_or(dataset: Any, otherwise: str) -> Any:
    """The dataset that somebody gave, whatever object it is; otherwise this one."""
    return otherwise if isinstance(dataset, str) and not dataset else dataset


def lasting(reference: Any) -> str:
    """A dataset's reference that means the same in other folders and processes."""
    if not isinstance(reference, str | Path):
        what = f"{type(reference).__name__} is an object of this program, which others cannot open"
        raise UsageError(what, "save the images to a file or folder, and give its path")
    reference = as_reference(reference)
    return str(Path(reference).expanduser().absolute()) if is_path(reference) else reference


def find_dataset(reference: Any, options: Mapping[str, Any] | None = None) -> DatasetChoice:
    """The entry that a reference or an object means, with the options checked and completed."""
    catalog, given = registry().datasets, dict(freeze(options or {}))
    if corrections := str(given.pop("corrections", "") or ""):
        corrections = str(Path(corrections).expanduser().absolute())
    entry: DatasetEntry
    if not isinstance(reference, str | Path):
        found = in_program(reference)
        entry = registry().readers.get(f"builtin/{found.reader}")
        check_names(f"dataset {found.name!r}", given, entry.options)
        return DatasetChoice(found.name, entry, {**entry.options, **given}, found, corrections)
    label = reference = as_reference(reference)
    if reference.startswith(IN_PROGRAM):
        what = f"{reference.removeprefix(IN_PROGRAM)} was an object of the program that trained"
        raise UsageError(what, "in Python, give it again: zoo.resume(RUN, dataset=...)")
    if reader := reader_of(reference):
        entry, given["path"] = reader, reference
    elif reference in registry().readers:  # the path is an option
        entry = registry().readers.get(reference)
    else:
        try:
            entry = catalog.get(reference)
        except UnknownName as error:
            if Path(reference).exists():
                kind = "folder" if Path(reference).is_dir() else "file"
                raise UnknownName(str(error), f"for the {kind} write ./{reference}") from None
            hint = elsewhere("reader", reference[: reference.find(":") + 1]) or error.hint
            raise UnknownName(str(error), hint) from None
        label = catalog.label(entry)
    if is_path(given.get("path") or ""):
        given["path"] = str(Path(given["path"]).expanduser().resolve())
    check_names(f"dataset {label!r}", given, entry.options)
    return DatasetChoice(label, entry, {**entry.options, **given}, corrections=corrections)


def read_originals(path: Path, options: Mapping[str, Any]) -> Originals:
    """What the reader of a path gives: for readers that bring files to this machine first."""
    made = _made(find_dataset(path, options))
    if not isinstance(made, Originals):
        raise DataError(f"{path} holds arrays, not images")
    return made


def reader_of(reference: str) -> ReaderEntry | None:
    """What can read a path, or a reference with a prefix; None: it is the name of a dataset."""
    readers = registry().readers
    path = Path(reference).expanduser()
    if not is_path(reference):
        found = [entry for entry in readers if reference.startswith(entry.prefixes)]
    elif path.is_dir():
        folders = [one for one in path.iterdir() if one.is_dir()]
        splits = [one for one in folders if one.name.lower() in SPLITS]
        names = {one.name.lower() for near in (path, *splits) for one in near.iterdir()}
        # Beside class folders, pets.tar is what somebody has unpacked there.
        kinds = {Path(name).suffix for name in names} if len(splits) == len(folders) else set()
        found = [entry for entry in readers if not (names | kinds).isdisjoint(entry.folders)]
        found = found or [readers.get("builtin/image_folder")]
    else:
        found = [entry for entry in readers if reference.lower().endswith(entry.suffixes)]
        if not path.is_file() and not found:
            return readers.get("builtin/image_folder")  # which says that there is no folder
        if not path.is_file():
            raise DataError(f"there is no file {reference}")
        if not found:
            known = sorted({suffix for entry in readers for suffix in entry.suffixes})
            hint = " ".join(["name a folder, or a file that ends in", *known])
            hint = elsewhere("reader", path.suffix.lower()) or hint
            raise DataError(f"{reference} is a file that no reader knows", hint)
    if len(found) > 1:
        what = f"{reference} can be read by {' and by '.join(map(origin, found))}"
        raise AmbiguousName(what, "ZOO_DISABLE_PLUGINS=NAME leaves one out")
    return found[0] if found else None


class StaleCache(DataError):
    """A sound cache file of something that has changed since."""


def cached_files(entry: DatasetEntry) -> list[Path]:
    """The cache files of a dataset, with whatever options."""
    stem = _stem(entry)
    files = cache_dir("data").glob(f"{stem}*{KEPT if entry.originals else SUFFIX}")
    return sorted(path for path in files if path.stem.split("@")[0] == stem)


def cached(reference: str = "") -> list[tuple[DatasetChoice, Path]]:
    """The cache files of one dataset, or of all; a dataset with options has one for each choice."""
    catalog = registry().datasets
    asked = find_dataset(reference) if reference else None
    found = []
    for entry in [asked.entry] if asked else catalog:
        for path in cached_files(entry):
            try:
                options = freeze(read_cache(path, arrays=False)[0]["options"])
            except (DataError, KeyError, TypeError, ValueError):
                options = {}  # damaged; verify says so
            if asked and is_path(reference) and options.get("path") != asked.options["path"]:
                continue
            label = str(options.get("path") or catalog.label(entry))
            found.append((DatasetChoice(label, entry, options or entry.config), path))
    return found


def read_cache(path: Path, *, arrays: bool = True) -> tuple[Any, dict[str, np.ndarray]]:
    """What is recorded, and the arrays. Read into memory once; a mapped file would count twice."""
    if path.suffix == KEPT:
        return {}, {}
    try:
        with path.open("rb") as file:
            header = tensors.read_header(file)
            record = json.loads(header.metadata["zoo"])
            return record, tensors.read_arrays(file, header) if arrays else {}
    except (ValueError, KeyError, RecursionError) as error:
        raise DataError(f"{path} is truncated or damaged: {error}") from error


def verify_file(choice: DatasetChoice, path: Path) -> None:
    """Read a file of the cache again, every byte; raises DataError where something is wrong."""
    if path.suffix == KEPT and isinstance(kept := _made(choice), Kept):
        check_digests({str(path): file_digest(path)}, {str(path): kept.sha256})
    else:
        verify_cached(choice, path)


def verify_cached(choice: DatasetChoice, path: Path, key: str | None = None) -> CheckedArrays:
    """Read a cache file and hash every array again; raises DataError where something is wrong."""
    record, kept = read_cache(path)
    arrays: dict[str, Any] = dict(kept)
    try:
        arrays["classes"], digests = record["classes"] or None, record["digests"]
        columns = record.get("targets", {})
        arrays["numbers"] = dict(zip_longest(columns.get("names", ()), columns.get("units", ())))
        stale = record["format"] != FORMAT or (key is not None and record["key"] != key)
    except (KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: its record is incomplete") from error
    if stale:
        raise StaleCache(f"{path} is out of date")
    return choice.check(arrays, f"{path}: ", digests)


def _load_cached(
    choice: DatasetChoice, key: str, report: Report, *, clean: bool = False
) -> CheckedArrays | None:
    """The cached dataset or None; clean: delete it if it is damaged, with the lock held."""
    try:
        return verify_cached(choice, choice.file, key)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except StaleCache:
        report(f"{choice.label} has changed since it was cached")
    except DataError as error:
        report(f"{error}; a new copy is needed")
        if clean:
            choice.file.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{choice.file} cannot be read: {error.strerror}") from error
    return None


def _stem(entry: DatasetEntry) -> str:
    plugin = plugin_of(entry)
    return entry.name if plugin in OWN else f"{plugin}--{entry.name}"


def given_by(
    choice: DatasetChoice, source: Path | None = None, fetch: bool = True, report: Report = say
) -> Originals | Arrays | Sequence[Source]:
    """What the entry's target returns; the file of originals that it names is fetched and read."""
    made, path, label = _made(choice), choice.file, choice.label
    if not isinstance(made, Kept):
        return made
    waiting = lambda: report(f"{label} is being fetched by another process; waiting")  # noqa: E731
    with os_errors(f"{path} could not be kept", DataError), locked(path, waiting):
        try:
            verify_file(choice, path)
        except (DataError, FileNotFoundError) as problem:
            if isinstance(problem, DataError):
                report(f"{problem}; a new copy is needed")
            if not (source or fetch):
                hint = typed("zoo data fetch", label)
                raise DataError(f"dataset {label!r} is not in the cache", hint) from None
            report(f"{label}: {source or made.source}")
            try:
                with temporary_folder(path) as folder:
                    file = Path(source or made.fetch(folder))
                    if not file.is_file():
                        raise DataError(f"{file} is not a file")
                    check_digests({str(file): file_digest(file)}, {str(file): made.sha256})
                    with atomic_write(path) as temporary:
                        shutil.copyfile(file, temporary)
            except DataError as error:
                hint = "connect to a network, or name the file if you have it: "
                hint += f"zoo data fetch {label} --from FILE"
                raise DataError(f"{label} could not be fetched: {error}", hint) from error
    return made.read(path)


def _made(choice: DatasetChoice) -> Originals | Kept | Arrays | Sequence[Source]:
    """What the entry's target returns: originals, arrays, or where to get them from."""
    what = f"dataset {choice.label!r}"
    own = {name: choice.options[name] for name in choice.entry.config}
    target = choice.given.make if choice.given else resolve(choice.entry.target, what)
    try:
        made: Originals | Kept | Arrays | Sequence[Source] = target(**own)
    except ZooError:
        raise
    except Exception as error:
        raise DataError(f"{what} raised {describe(error)}") from error
    sources = made if isinstance(made, list | tuple) else ()
    given = bool(sources) and all(isinstance(source, Source) for source in sources)
    if given or isinstance(made, Originals | Kept | Mapping):
        return made
    raise DataError(f"{what} gave neither zoo.Originals, nor arrays, nor a list of zoo.Source")


def _fetched(
    choice: DatasetChoice,
    sources: Sequence[Source],
    user_path: Path | None,
    network: bool,
    report: Report,
) -> CheckedArrays:
    """Take the dataset from the first source that has it, and keep it."""
    label, path, key = choice.label, choice.file, sources[0].key
    usable = ("path",) if user_path else ("network", "nothing") if network else ("nothing",)
    sources = [source for source in sources if source.needs in usable]
    if not sources and user_path:
        raise UsageError(f"dataset {label!r} cannot be read from files that you name")
    if not sources and not network:
        raise DataError(f"dataset {label!r} is not in the cache", typed("zoo data fetch", label))
    room = "make room or choose another folder with ZOO_CACHE"
    with (
        os_errors(f"{path} could not be written", DataError, room),
        locked(path, lambda: report(f"{label} is being fetched by another process; waiting")),
    ):
        found = _load_cached(choice, key, lambda line: None, clean=True)
        if found is not None:
            return found  # by the process that we waited for
        found, source = _first(choice, sources, user_path, report)
        record = {
            "format": FORMAT,
            "dataset": choice.entry.name,
            "plugin": plugin_of(choice.entry),
            "options": dict(choice.options),
            "key": key,
            "classes": found.targets.classes,
            "targets": found.targets.to_dict(),
            "digests": found.digests,
            "source": str(user_path or source.name),
            "fetched": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        tensors.write_tensors(path, found.arrays, json.dumps(record, sort_keys=True))
        return found


def _first(
    choice: DatasetChoice, sources: Sequence[Source], user_path: Path | None, report: Report
) -> tuple[CheckedArrays, Source]:
    tried = ""
    for source in sources:
        report(f"{choice.label}: {user_path or source.name}")
        where = "" if source.needs == "network" else f"{user_path or choice.label}: "
        try:
            with temporary_folder(choice.file) as folder:
                return choice.check(source.fetch(user_path or folder), where), source
        except Exception as error:
            if isinstance(error, OSError) and error.errno in THIS_MACHINE:
                raise
            reason = str(error) if isinstance(error, ZooError) else describe(error)
            if source.needs != "network":  # what the user named: nothing else can stand in for it
                raise error if isinstance(error, ZooError) else DataError(where + reason) from error
            report(f"{choice.label}: {source.name}: {reason}; skipped")
            tried += f"\n  {source.name}: {reason}"
    hint = "connect to a network, install what is missing, or name files that you have"
    hint += f": zoo data fetch {choice.label} --from PATH"
    raise DataError(f"{choice.label} could not be fetched. Tried:{tried}", hint)


def _dataset(choice: DatasetChoice, found: CheckedArrays, fit: str) -> Dataset:
    arrays, digests = squared(found.arrays, fit or FITS[0]), found.digests
    if arrays is not found.arrays:
        digests = {**digests, "fit": fit}
    splits = {
        part: Split(arrays[f"{part}_images"], arrays.get(f"{part}_labels"))
        for part in ("train", "test")
        if f"{part}_images" in arrays
    }
    digest = document_digest([digests, {name: a.shape for name, a in arrays.items()}])
    data = new_dataset(choice.name, choice.entry, found.targets, splits, digest, found.digests)
    return replace(data, reference=choice.reference)
