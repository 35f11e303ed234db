"""Names to entries: what `zoo list` shows and what every other command looks up."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from zoo_core.io.console import matches
from zoo_core.io.errors import AmbiguousName, UnknownName, UsageError, did_you_mean
from zoo_core.io.targets import install_hint, resolve
from zoo_core.spec.entries import (
    AugmentationEntry,
    CommandEntry,
    DatasetEntry,
    EngineEntry,
    Entry,
    ListedEntry,
    ModelEntry,
    ReaderEntry,
    TrainerEntry,
)
from zoo_core.spec.plugins import Plugins, load_plugins, loading

E = TypeVar("E", bound=Entry)
ELSEWHERE = {  # names that people know, and the package of ours that has each
    "augmentation": dict.fromkeys(("jitter", "trivial", "rand"), "zoo-augment"),
    "command": {
        "blend": "zoo-blend",
        "explain": "zoo-explain",
        "export": "zoo-export",
        **dict.fromkeys(("data check", "check_data", "check_labels"), "zoo-check"),
        **dict.fromkeys(("features", "compute_features"), "zoo-frozen"),
        "gallery": "zoo-web",
        "generate": "zoo-generate",
        "plugin": "zoo-author",
        **dict.fromkeys(("tune", "sweep", "search", "tune_and_train", "open_search"), "zoo-tune"),
        "pick": "zoo-pick",
        **dict.fromkeys(("gallery", "serve", "report_html", "compare_html"), "zoo-web"),
    },
    "dataset": dict.fromkeys(("cifar10", "mnist", "fashion_mnist"), "zoo-classics"),
    "trainer": {"frozen": "zoo-frozen"},
    "reader": {".parquet": "zoo-parquet", ".tar": "zoo-webdataset", "hf:": "zoo-hf-datasets"},
}


class Catalog(Generic[E]):
    """All entries of one sort, by name."""

    def __init__(self, sort: str, entries: Iterable[E], plugins: Plugins) -> None:
        self.sort = sort  # "model", "dataset" and so on, for messages
        self._plugins = plugins
        self._by_name: dict[str, list[E]] = {}
        for entry in entries:
            self._by_name.setdefault(entry.name, []).append(entry)

    def __iter__(self) -> Iterator[E]:
        for name in sorted(self._by_name):
            yield from sorted(self._by_name[name], key=plugin_of)

    def __len__(self) -> int:
        return sum(len(entries) for entries in self._by_name.values())

    def __contains__(self, reference: str) -> bool:
        return bool(self._matches(reference))

    def get(self, reference: str) -> E:
        """The entry called `name` or `plugin/name`."""
        matches = self._matches(reference)
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise AmbiguousName(
                f"{self.sort} {reference!r} is provided by {' and by '.join(map(origin, matches))}",
                f"choose one: {' or '.join(map(qualified_name, matches))}",
            )
        raise UnknownName(f"there is no {self.sort} {reference!r}", self._hint(reference))

    def label(self, entry: E) -> str:
        """The shortest name that finds this entry again."""
        return entry.name if len(self._by_name[entry.name]) == 1 else qualified_name(entry)

    def labels(self) -> list[str]:
        return [self.label(entry) for entry in self]

    def _matches(self, reference: str) -> list[E]:
        plugin, slash, name = reference.rpartition("/")
        found = self._by_name.get(name, [])
        return [e for e in found if plugin_of(e) == plugin] if slash else found

    def _hint(self, reference: str) -> str:
        if hint := elsewhere(self.sort, reference):
            return hint
        names = map(qualified_name, self) if "/" in reference else self._by_name
        near = did_you_mean(reference.lower(), names, most=3)
        hints = [near] if near else []
        for what, records in {
            "could not be loaded": self._plugins.broken,
            # ZOO_PLUGINS leaves out whatever it does not name: that would be a long list.
            "is disabled": () if os.environ.get("ZOO_PLUGINS") else self._plugins.disabled,
        }.items():
            if ids := ", ".join(dict.fromkeys(record.id for record in records)):
                hints.append(f"a plugin that {what} may provide it ({ids}): zoo plugins")
        if not hints:
            where = "zoo list" if self.sort == "model" else f"zoo list --{self.sort}s"
            hints.append(f"{where if self.sort != 'command' else 'zoo --help'} shows what there is")
            hints += [f"pip install zoo-{reference} may bring it"] * (self.sort == "engine")
        return "; ".join(hints)


class Registry:
    """A catalog of each sort of entry, from the plugins that are ok."""

    def __init__(self, plugins: Plugins) -> None:
        def catalog(sort: str) -> Catalog[Any]:
            ok = [record for record in plugins.records if record.state == "ok"]
            entries = (entry for record in ok for entry in record.entries(f"{sort}s"))
            return Catalog(sort, entries, plugins)

        self.models: Catalog[ModelEntry] = catalog("model")
        self.datasets: Catalog[DatasetEntry] = catalog("dataset")
        self.readers: Catalog[ReaderEntry] = catalog("reader")
        self.trainers: Catalog[TrainerEntry] = catalog("trainer")
        self.augmentations: Catalog[AugmentationEntry] = catalog("augmentation")
        self.commands: Catalog[CommandEntry] = catalog("command")
        self.engines: Catalog[EngineEntry] = catalog("engine")


def open_engine(name: str, workers: int = 1, address: str = "") -> Any:
    """Where many pieces of work run."""
    entry = registry().engines.get(name)
    return resolve(entry.target, f"engine {entry.name!r}")(workers, address)


def command_function(name: str) -> Any:
    """What a plugin's command is from Python: `zoo.NAME`. AttributeError if there is none."""
    problem = f"module 'zoo' has no attribute {name!r}"
    if loading():
        raise AttributeError(problem, name=name)
    having = [entry for entry in registry().commands if entry.function(name)]
    if len(having) > 1:
        problem = f"zoo.{name} is provided by {' and by '.join(map(origin, having))}"
    if len(having) != 1:
        hint = elsewhere("command", name)
        raise AttributeError(f"{problem}; {hint}" if hint else problem, name=name)
    return resolve(having[0].function(name), f"zoo.{name} of {origin(having[0])}")


def brought(name: str, needed_for: str) -> Any:
    """The function zoo.NAME of a package, for the zoo itself; an error says which package."""
    try:
        return command_function(name)
    except AttributeError as error:
        hint = elsewhere("command", name)
        raise UsageError(f"{needed_for} needs a package that is not installed", hint) from error


def elsewhere(sort: str, name: str) -> str:
    """The hint for a name that a package of ours has; or ""."""
    package = ELSEWHERE.get(sort, {}).get(name)
    return f"{package} has it: {how_to_get(package)}" if package else ""


def how_to_get(distribution: str) -> str:
    """What a person does to have the plugin of a package: enable it, or install it."""
    off = {record.distribution: record.reason for record in load_plugins().disabled}
    return off.get(distribution) or install_hint(distribution)


@functools.cache
def registry() -> Registry:
    """The registry of this process."""
    return Registry(load_plugins())


def as_reference(given: Any) -> str:
    """A string as it is; a Path always means a path, so that `Path("cnn")` is not a model."""
    text = str(given)
    if isinstance(given, str) or text.startswith("~") or os.path.isabs(text):  # noqa: PTH117
        return text
    return f"./{text}"


def is_path(reference: str) -> bool:
    """Whether a reference is a path: a bare name never, `a/b` unless `a` is a plugin."""
    absolute = os.path.isabs(reference)  # noqa: PTH117 - `zoo --help` does without pathlib
    if absolute or reference.startswith((".", "~")) or "\\" in reference:
        return True
    first, slash, _ = reference.partition("/")
    if ":" in first[2:]:  # hf:org/name; what comes after one letter is a drive
        return False
    return bool(slash) and first not in {record.id for record in load_plugins().records}


def find_models(
    catalog: Catalog[ModelEntry],
    text: str = "",
    *,
    kind: str = "",
    tag: str = "",
    dataset: str = "",
    plugin: str = "",
) -> list[ModelEntry]:
    """The models that match all that is given; text as in matches_text."""
    return [
        entry
        for entry in catalog
        if (not kind or kind in entry.kinds)
        and (not tag or tag in entry.tags)
        and (not dataset or entry.dataset == dataset)
        and (not plugin or plugin_of(entry) == plugin)
        and matches_text(entry, text)
    ]


def matches_text(entry: ListedEntry, text: str) -> bool:
    """Whether a glob fits the name, or a plain word occurs in the name, the tags or the summary."""
    words = (entry.summary, *getattr(entry, "tags", ()))
    return matches(text.lower(), (entry.name, qualified_name(entry)), (entry.name, *words))


def plugin_of(entry: Entry) -> str:
    return entry.provider.plugin if entry.provider else ""


def qualified_name(entry: Entry) -> str:
    """The name with the plugin in front."""
    return f"{plugin_of(entry)}/{entry.name}"


def origin(entry: Entry) -> str:
    """The provider in words: `plugin 'cnn' (zoo-cnn 0.1.0)`."""
    if entry.provider is None:
        return "no plugin"
    provider = entry.provider
    return f"plugin {provider.plugin!r} ({provider.distribution} {provider.version})"
