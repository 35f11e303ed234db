"""What plugins contribute, as frozen dataclasses that check themselves when they are made.

An entry names its code as a string, which is imported when somebody uses the entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from zoo_core.io.console import UNPRINTABLE
from zoo_core.io.targets import Displayed
from zoo_core.spec.recipe import (
    DIGEST,
    FLAG,
    NAME,
    OPTIONS,
    TARGET,
    TEXT,
    TEXTS,
    Checked,
    FrozenDict,
    Recipe,
    Rule,
    count,
    number,
    or_none,
    whole,
)

# What the data decides of a model is bounded for all; an entry may say less in `ranges`.
LIMITS = {"num_classes": (1, 65_536), "in_channels": (1, 64), "image_size": (1, 4096)}
MOST_ITEMS = 100  # of an option that is a list
KIND = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
# What the zoo itself can train for; the labels of the images decide which of them it is.
TASKS = ("classification", "multilabel", "regression")
TARGETED = Rule(
    lambda v: isinstance(v, str) and TARGET.fullmatch(v) is not None,
    "a string like 'package.module:Class'",
)


def is_inside(value: Any, like: Any, low: int, high: int) -> bool:
    """Whether an option, of the sort that its default has, keeps to its range in every number."""
    if isinstance(like, tuple) and isinstance(value, list | tuple):
        sorts = ((v, like if isinstance(v, list | tuple) else 0) for v in value)
        return len(value) <= MOST_ITEMS and all(is_inside(v, of, low, high) for v, of in sorts)
    return not isinstance(like, tuple) and whole(value) and low <= value <= high


WORDS = Rule(
    lambda v: isinstance(v, str) and 0 < len(v.strip()) <= 500 and not UNPRINTABLE.search(v),
    "a few words that say what it is, at most 500 letters without control characters",
)


@dataclass(frozen=True, kw_only=True)
class Provider:
    """The plugin that an entry came from: `pip show` knows the distribution."""

    plugin: str
    distribution: str
    version: str


@dataclass(frozen=True, kw_only=True)
class Entry(Checked):
    """What everything that a plugin contributes has in common."""

    name: str
    target: str  # "package.module:name", imported when somebody uses the entry
    provider: Provider | None = None  # filled in by the plugin manager

    rules: ClassVar[Mapping[str, Rule]] = {
        "name": Rule(
            lambda v: isinstance(v, str) and NAME.fullmatch(v) is not None,
            "lower-case letters, digits, and single _ or - between them",
        ),
        "target": TARGETED,
    }


@dataclass(frozen=True, kw_only=True)
class ListedEntry(Entry):
    """An entry that `zoo list` shows."""

    summary: str  # a few words

    rules: ClassVar[Mapping[str, Rule]] = {**Entry.rules, "summary": WORDS}


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelEntry(ListedEntry, Displayed):
    """One architecture. Its target is called with all of `options` as keywords."""

    kinds: tuple[str, ...] = ("classification",)
    num_classes: int | None = 10  # None: the target takes no such option
    in_channels: int = 3
    image_size: int = 32
    config: Mapping[str, Any] = field(default_factory=FrozenDict)  # further options, with defaults
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=FrozenDict)  # of some of them
    # The least and the most that an option of whole numbers, or each number of a list, may be.
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=FrozenDict)
    width: str = ""  # the option of config that makes all layers wider or narrower, for by_width
    parameters: int | None = None  # trainable, for the options above; None: depends on options
    total_parameters: int | None = None  # with the frozen ones; as `parameters` unless declared
    dataset: str = "cifar10"
    trainer: str = "torch"
    task: str = "classification"  # the labels decide the built-in one; or a Task's string target
    capabilities: Mapping[str, str] = field(default_factory=FrozenDict)  # name -> string target
    recipes: Mapping[str, Recipe] = field(default_factory=lambda: {"default": Recipe()})
    tags: tuple[str, ...] = ()
    reference: str = ""  # a paper or a page
    framework: str = "torch"

    rules: ClassVar[Mapping[str, Rule]] = {
        **ListedEntry.rules,
        "kinds": Rule(
            lambda v: v and TEXTS.holds(v) and all(map(KIND.fullmatch, v)),
            'words that say what the model is for, as ("classification",)',
        ),
        **dict.fromkeys(("dataset", "trainer", "task", "reference", "framework", "width"), TEXT),
        **dict.fromkeys(("in_channels", "image_size"), count()),
        **dict.fromkeys(("num_classes", "parameters", "total_parameters"), or_none(count())),
        **dict.fromkeys(("config", "choices", "ranges", "capabilities", "recipes"), OPTIONS),
        "tags": TEXTS,
    }

    _html = "zoo_core.report.notebook:entry_html"

    def __repr__(self) -> str:
        count = "" if self.parameters is None else f", {self.parameters:,} parameters"
        return f"ModelEntry({self.name}: {self.summary}{count}, for {self.dataset})"

    def _check(self) -> None:
        if self.total_parameters is None:
            object.__setattr__(self, "total_parameters", self.parameters)
        self._require(
            (self.parameters or 0) <= (self.total_parameters or 0),
            f"total_parameters {self.total_parameters} is less than parameters {self.parameters}",
        )
        shared = sorted({"num_classes", "in_channels", "image_size"} & set(self.config))
        self._require(not shared, f"{', '.join(shared)} is a field of the entry, not of config")
        for name, values in self.choices.items():
            self._require(name in self.config, f"choices names {name!r}, which config does not")
            self._require(
                isinstance(values, tuple) and self.config[name] in values,
                f"choices of {name!r} must be a tuple with its default {self.config[name]!r}",
            )
        for name, ends in self.ranges.items():
            self._require(name in self.options, f"ranges names {name!r}, which is not an option")
            two = isinstance(ends, tuple) and len(ends) == 2 and all(map(whole, ends))
            default = self.options[name]
            self._require(
                two and ends[0] <= ends[1] and is_inside(default, default, *ends),
                f"the range of {name!r} must be two whole numbers, the least and the most, and its "
                f"default {default!r} between them, not {ends!r}",
            )
        known = not self.width or self.width in self.config
        self._require(known, f"width names {self.width!r}, which config does not")
        targets = {f"capability {name!r}": target for name, target in self.capabilities.items()}
        if self.own_task:
            targets["task"] = self.task
        for where, target in targets.items():
            self._require(
                TARGETED.holds(target), f"{where} must be {TARGETED.words}, not {target!r}"
            )
        self._require(
            all(isinstance(recipe, Recipe) for recipe in self.recipes.values()),
            "recipes must map names to Recipe objects",
        )
        self._require("default" in self.recipes, "recipes must have one called 'default'")

    @property
    def own_task(self) -> bool:
        """Whether the entry brings its task, and the labels do not decide it."""
        return self.task not in TASKS

    @property
    def limits(self) -> dict[str, tuple[int, int]]:
        """The ranges of its options, with those of what the data decides."""
        return {**{name: LIMITS[name] for name in LIMITS if name in self.options}, **self.ranges}

    @property
    def options(self) -> dict[str, Any]:
        """All keyword arguments of the target, with their defaults."""
        shapes: dict[str, Any] = {"in_channels": self.in_channels, "image_size": self.image_size}
        if self.num_classes is not None:
            shapes = {"num_classes": self.num_classes, **shapes}
        return {**shapes, **self.config}


# Options of all datasets whose images the zoo decodes, besides their own; docs/datasets.md.
DECODED = FrozenDict(
    image_size=None, channels=None, fit="crop", test_fraction=0.2, seed=0, store="auto",
    strict=False,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DatasetEntry(ListedEntry):
    """One set of images, with labels or without. What its target gives: docs/datasets.md."""

    classes: tuple[str, ...] | None = None  # None: the data decides, or there are none
    numbers: Mapping[str, str] = field(default_factory=FrozenDict)  # labels: name -> unit, or ""
    in_channels: int | None = None  # None: the data decides, as for image_size
    image_size: int | None = None
    train_size: int | None = None
    test_size: int | None = None
    mean: tuple[float, ...] = (0.5,)  # one for each channel, or one for all, of pixels in [0, 1]
    std: tuple[float, ...] = (0.5,)
    digests: Mapping[str, str] = field(default_factory=FrozenDict)  # array name -> sha256
    config: Mapping[str, Any] = field(default_factory=FrozenDict)  # options, with defaults
    originals: bool = False  # the target gives zoo.Originals, which are stored as a model needs
    license: str = ""
    reference: str = ""
    tags: tuple[str, ...] = ()

    rules: ClassVar[Mapping[str, Rule]] = {
        **ListedEntry.rules,
        **dict.fromkeys(("license", "reference"), TEXT),
        "originals": FLAG,
        "classes": or_none(
            Rule(
                lambda v: TEXTS.holds(v) and len(set(v)) == len(v) > 0, "a tuple of distinct names"
            )
        ),
        **dict.fromkeys(("in_channels", "image_size", "train_size", "test_size"), or_none(count())),
        **dict.fromkeys(("digests", "config", "numbers"), OPTIONS),
        "tags": TEXTS,
    }

    def _check(self) -> None:
        for name, rule in (("mean", number(0, 1)), ("std", number(0, 1, above=True))):
            values = getattr(self, name)
            self._require(
                isinstance(values, tuple) and len(values) in {1, self.in_channels or len(values)},
                f"{name} must be a tuple with one number for each channel, not {values!r}",
            )
            for value in values:
                self._require(rule.holds(value), f"{name} must be {rule.words}, not {value!r}")
        for name, digest in self.digests.items():
            self._require(
                isinstance(digest, str) and DIGEST.fullmatch(digest),
                f"the digest of {name!r} must be 64 hexadecimal digits",
            )

    @property
    def options(self) -> dict[str, Any]:
        """All options of the dataset, with their defaults."""
        return {**(DECODED if self.originals else {}), **self.config}


@dataclass(frozen=True, kw_only=True)
class ReaderEntry(DatasetEntry):
    """A kind of dataset that people bring: what `--dataset ./photos.csv` means.

    Its target is called with the reference as `path` and with the options of config, and gives
    zoo.Originals, or arrays where `originals` is False.
    """

    prefixes: tuple[str, ...] = ()  # of references that are not paths: ("hf:",)
    suffixes: tuple[str, ...] = ()  # of files: (".csv", ".tsv")
    folders: tuple[str, ...] = ()  # names or suffixes of files in folders: ("metadata.csv", ".tar")
    originals: bool = True

    rules: ClassVar[Mapping[str, Rule]] = {
        **DatasetEntry.rules, **dict.fromkeys(("prefixes", "suffixes", "folders"), TEXTS)
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TrainerEntry(ListedEntry):
    """Code that can build, train, load and apply the models of one framework."""

    framework: str = "torch"
    options: Mapping[str, str] = field(default_factory=FrozenDict)  # of `task.`: what each may be

    rules: ClassVar[Mapping[str, Rule]] = {
        **ListedEntry.rules,
        "framework": TEXT,
        "options": OPTIONS,
    }


@dataclass(frozen=True, kw_only=True)
class AugmentationEntry(ListedEntry):
    """A word of `Recipe.augment`. Its target is a subclass of zoo.Augmentation."""

    example: str  # how a recipe writes it, "grey:0.2": the name, and what it cannot do without

    rules: ClassVar[Mapping[str, Rule]] = {**ListedEntry.rules, "example": TEXT}

    def _check(self) -> None:
        name = self.example.partition(":")[0]
        self._require(name == self.name, f"example must begin with {self.name!r}, not {name!r}")


@dataclass(frozen=True, kw_only=True)
class EngineEntry(ListedEntry):
    """Where many independent pieces of work can run. Its target is a subclass of zoo.Engine."""


@dataclass(frozen=True, kw_only=True)
class CommandEntry(Entry):
    """A command of `zoo`. Its target is a click command, best one made with zoo.kit.command.

    name: one word, or two for a command inside a group: "data check" is `zoo data check`.
    """

    help: str  # one line for `zoo --help`, which imports no target
    # What does the same from Python: "zoo_export.export:export" can be used as zoo.export.
    functions: tuple[str, ...] = ()

    rules: ClassVar[Mapping[str, Rule]] = {
        **Entry.rules,
        "name": Rule(
            lambda v: isinstance(v, str) and all(NAME.fullmatch(w) for w in v.split(" ", 1)),
            "one word, or two with a space between them: lower-case letters, digits, _ or -",
        ),
        "help": WORDS,
        "functions": Rule(
            lambda v: isinstance(v, tuple) and all(map(TARGETED.holds, v)),
            "a tuple of strings like 'package.module:function'",
        ),
    }

    def function(self, name: str) -> str:
        """The target of the function that is called so; or ""."""
        return next((one for one in self.functions if one.rpartition(":")[2] == name), "")


PluginState = Literal["ok", "failed", "disabled", "conflict", "incompatible"]


@dataclass(frozen=True, kw_only=True)
class PluginRecord:
    """One installed plugin, loaded or not, and why not."""

    id: str  # the entry point's name
    value: str  # what the entry point names: "package.module"
    distribution: str
    version: str
    state: PluginState = "ok"
    reason: str = ""  # one sentence, where the state is not ok
    traceback: str = ""
    hooks: tuple[str, ...] = ()
    contributed: Mapping[str, tuple[Any, ...]] = field(default_factory=FrozenDict)  # by sort
    seconds: float = 0.0  # how long the import and its hooks took

    def entries(self, sort: str) -> tuple[Any, ...]:
        """What it contributes of one sort: models, datasets, commands, manifests, ..."""
        return self.contributed.get(sort, ())

    @property
    def provider(self) -> Provider:
        return Provider(plugin=self.id, distribution=self.distribution, version=self.version)


def with_provider(items: Iterable[Any], provider: Provider) -> tuple[Any, ...]:
    """The same entries, stamped with where they come from; what is not an entry stays."""

    def stamped(item: Any) -> Any:
        if not isinstance(item, Entry):
            return item
        # Entries are checked already; a copy that skips the checks keeps 500 plugins quick to list.
        copy = object.__new__(type(item))
        copy.__dict__.update(item.__dict__, provider=provider)
        return copy

    return tuple(map(stamped, items))
