"""What plugins contribute, as frozen dataclasses that check themselves when they are made.

Nothing here imports anything heavy: an entry names its code as a string (`"package.module:Class"`)
and the code is imported when somebody uses the entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from zoo_core.spec.recipe import DIGEST, FrozenDict, Recipe, _Checked

KINDS = ("classification", "generation", "clustering")


@dataclass(frozen=True, kw_only=True)
class Provider:
    """The plugin that an entry came from: `pip show` knows the distribution."""

    plugin: str
    distribution: str
    version: str


@dataclass(frozen=True, kw_only=True)
class ModelEntry(_Checked):
    """One architecture: what it is, where its code is, how it is trained."""

    name: str
    target: str  # "package.module:Class", called with all of `options` as keywords
    summary: str
    kinds: tuple[str, ...] = ("classification",)
    num_classes: int | None = 10  # None: the target takes no such option
    in_channels: int = 3
    image_size: int = 32
    config: Mapping[str, Any] = field(default_factory=FrozenDict)  # further options, with defaults
    choices: Mapping[str, tuple[Any, ...]] = field(
        default_factory=FrozenDict
    )  # values they may have
    parameters: int | None = None  # trainable, for the options above; None: depends on options
    total_parameters: int | None = None  # with the frozen ones; as `parameters` unless declared
    dataset: str = "cifar10"
    trainer: str = "torch"
    task: str = "classification"  # or the string target of a Task class
    capabilities: Mapping[str, str] = field(default_factory=FrozenDict)  # name -> string target
    recipes: Mapping[str, Recipe] = field(default_factory=lambda: {"default": Recipe()})
    tags: tuple[str, ...] = ()
    reference: str = ""  # a paper or a page
    framework: str = "torch"
    provider: Provider | None = None  # filled in by the plugin manager

    def __post_init__(self) -> None:
        self._freeze()
        self._require_name()
        self._require_target("target", self.target)
        self._require_texts("summary", "dataset", "trainer", "task", "reference", "framework")
        self._require(bool(self.summary.strip()), "summary must say in a few words what it is")
        self._require(
            isinstance(self.kinds, tuple) and bool(self.kinds) and set(self.kinds) <= set(KINDS),
            f"kinds must be a tuple out of {', '.join(KINDS)}, not {self.kinds!r}",
        )
        self._require_count("in_channels", self.in_channels)
        self._require_count("image_size", self.image_size)
        for name in ("num_classes", "parameters", "total_parameters"):
            if getattr(self, name) is not None:
                self._require_count(name, getattr(self, name))
        if self.total_parameters is None:
            object.__setattr__(self, "total_parameters", self.parameters)
        self._require(
            (self.parameters or 0) <= (self.total_parameters or 0),
            f"total_parameters {self.total_parameters} is less than parameters {self.parameters}",
        )
        self._require_options("config", self.config)
        shared = sorted({"num_classes", "in_channels", "image_size"} & set(self.config))
        self._require(not shared, f"{', '.join(shared)} is a field of the entry, not of config")
        self._require_options("choices", self.choices)
        for name, values in self.choices.items():
            self._require(name in self.config, f"choices names {name!r}, which config does not")
            self._require(
                isinstance(values, tuple) and self.config[name] in values,
                f"choices of {name!r} must be a tuple with its default {self.config[name]!r}",
            )
        if self.task != "classification":
            self._require_target("task", self.task)
        self._require_options("capabilities", self.capabilities)
        for name, target in self.capabilities.items():
            self._require_target(f"capability {name!r}", target)
        self._require_names("tags", self.tags)
        self._require_options("recipes", self.recipes)
        self._require(
            all(isinstance(recipe, Recipe) for recipe in self.recipes.values()),
            "recipes must map names to Recipe objects",
        )
        self._require("default" in self.recipes, "recipes must have one called 'default'")

    @property
    def classifies(self) -> bool:
        """Whether the model, called with pictures, gives scores of classes."""
        return "classification" in self.kinds or "clustering" in self.kinds

    @property
    def options(self) -> dict[str, Any]:
        """All keyword arguments of the target, with their defaults."""
        shapes: dict[str, Any] = {"in_channels": self.in_channels, "image_size": self.image_size}
        if self.num_classes is not None:
            shapes = {"num_classes": self.num_classes, **shapes}
        return {**shapes, **self.config}


@dataclass(frozen=True, kw_only=True)
class DatasetEntry(_Checked):
    """One set of labelled (or unlabelled) pictures and where to get it."""

    name: str
    target: str  # "package.module:function", see docs/datasets.md
    summary: str
    classes: tuple[str, ...] | None = None  # None: the data decides, or there are no labels
    in_channels: int | None = None  # None: the data decides, as for image_size
    image_size: int | None = None
    train_size: int | None = None
    test_size: int | None = None
    mean: tuple[float, ...] = (0.5,)  # one for each channel, or one for all, of pixels in [0, 1]
    std: tuple[float, ...] = (0.5,)
    digests: Mapping[str, str] = field(default_factory=FrozenDict)  # array name -> sha256
    config: Mapping[str, Any] = field(default_factory=FrozenDict)  # options, with defaults
    license: str = ""
    reference: str = ""
    tags: tuple[str, ...] = ()
    provider: Provider | None = None

    def __post_init__(self) -> None:
        self._freeze()
        self._require_name()
        self._require_target("target", self.target)
        self._require_texts("summary", "license", "reference")
        self._require(bool(self.summary.strip()), "summary must say in a few words what it is")
        if self.classes is not None:
            self._require_names("classes", self.classes)
            self._require(
                len(set(self.classes)) == len(self.classes) > 0, "classes must be distinct names"
            )
        for name in ("in_channels", "image_size", "train_size", "test_size"):
            if getattr(self, name) is not None:
                self._require_count(name, getattr(self, name))
        for name in ("mean", "std"):
            values = getattr(self, name)
            self._require(
                isinstance(values, tuple) and len(values) in {1, self.in_channels or len(values)},
                f"{name} must be a tuple with one number for each channel, not {values!r}",
            )
            for value in values:
                self._require_number(name, value, 0, 1)
        self._require(all(value > 0 for value in self.std), "std must be above 0")
        self._require_options("digests", self.digests)
        for name, digest in self.digests.items():
            self._require(
                isinstance(digest, str) and DIGEST.fullmatch(digest) is not None,
                f"the digest of {name!r} must be 64 hexadecimal digits",
            )
        self._require_options("config", self.config)
        self._require_names("tags", self.tags)


@dataclass(frozen=True, kw_only=True)
class TrainerEntry(_Checked):
    """Code that can build, train, load and apply the models of one framework."""

    name: str
    target: str
    summary: str
    framework: str = "torch"
    provider: Provider | None = None

    def __post_init__(self) -> None:
        self._require_name()
        self._require_target("target", self.target)
        self._require_texts("summary", "framework")
        self._require(bool(self.summary.strip()), "summary must say in a few words what it is")


Entry = ModelEntry | DatasetEntry | TrainerEntry
PluginState = Literal["ok", "failed", "disabled", "conflict", "incompatible"]


@dataclass(frozen=True, kw_only=True)
class PluginRecord:
    """One installed plugin, loaded or not, and why not."""

    id: str  # the entry point's name
    value: str  # what the entry point names: "package.module"
    distribution: str
    version: str
    state: PluginState
    reason: str = ""  # one sentence, where the state is not ok
    traceback: str = ""
    hooks: tuple[str, ...] = ()
    models: tuple[ModelEntry, ...] = ()
    datasets: tuple[DatasetEntry, ...] = ()
    trainers: tuple[TrainerEntry, ...] = ()
    manifests: tuple[str, ...] = ()
    seconds: float = 0.0  # how long the import and its hooks took

    @property
    def provider(self) -> Provider:
        return Provider(plugin=self.id, distribution=self.distribution, version=self.version)


def with_provider(entries: Iterable[Any], provider: Provider) -> tuple[Any, ...]:
    """The same entries, stamped with where they come from."""
    stamped = []
    for entry in entries:
        # Entries are checked already; a copy that skips the checks keeps 500 plugins quick to list.
        copy = object.__new__(type(entry))
        copy.__dict__.update(entry.__dict__, provider=provider)
        stamped.append(copy)
    return tuple(stamped)
