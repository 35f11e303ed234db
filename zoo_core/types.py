"""What plugins contribute, as frozen dataclasses that check themselves when they are made.

Nothing here imports anything heavy: an entry names its code as a string (`"package.module:Class"`)
and the code is imported when somebody uses the entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from zoo_core.errors import EntryError

NAME = re.compile(r"[a-z0-9]+([_-][a-z0-9]+)*")
TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
DIGEST = re.compile(r"[0-9a-f]{64}")

KINDS = ("classification", "generation", "clustering")
OPTIMIZERS = ("adam", "adamw", "sgd", "lbfgs")
SCHEDULES = ("constant", "cosine", "one_cycle", "step")
PRECISIONS = ("float32", "bfloat16", "float16")

V = TypeVar("V")


class FrozenDict(dict[str, V]):
    """A dict that refuses changes. Unlike MappingProxyType it can be pickled, copied and hashed."""

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("this mapping belongs to a frozen entry; use dataclasses.replace")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


def freeze(value: Any) -> Any:
    """Lists become tuples and mappings FrozenDicts, all the way down."""
    if isinstance(value, Mapping):
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value


class _Checked:
    """Shared by all entries: freeze what was given, then check it field by field."""

    def _freeze(self) -> None:
        for spec in fields(self):  # type: ignore[arg-type]
            value = getattr(self, spec.name)
            if isinstance(value, Mapping | list | tuple):
                object.__setattr__(self, spec.name, freeze(value))

    def _require(self, ok: bool, problem: str) -> None:
        if not ok:
            name = getattr(self, "name", "")
            label = f" {name!r}" if isinstance(name, str) and name else ""
            raise EntryError(f"{type(self).__name__}{label}: {problem}")

    def _require_texts(self, *names: str) -> None:
        for name in names:
            self._require(
                isinstance(getattr(self, name), str),
                f"{name} must be a string, not {getattr(self, name)!r}",
            )

    def _require_name(self) -> None:
        self._require_texts("name")
        value = getattr(self, "name")  # noqa: B009 - the fields live in the subclasses
        self._require(
            NAME.fullmatch(value) is not None,
            f"name {value!r} must be lower-case letters, digits, and single _ or - between them",
        )

    def _require_target(self, where: str, value: object) -> None:
        self._require(
            isinstance(value, str) and TARGET.fullmatch(value) is not None,
            f"{where} must be a string like 'package.module:Class', not {value!r}",
        )

    def _require_names(self, where: str, value: object) -> None:
        self._require(
            isinstance(value, tuple) and all(isinstance(item, str) for item in value),
            f"{where} must be a tuple of strings, not {value!r}",
        )

    def _require_options(self, where: str, value: object) -> None:
        self._require(
            isinstance(value, Mapping)
            and all(isinstance(key, str) and key.isidentifier() for key in value),
            f"{where} must map option names to values, not {value!r}",
        )

    def _require_count(self, where: str, value: object, *, least: int = 1) -> None:
        self._require(
            isinstance(value, int) and not isinstance(value, bool) and value >= least,
            f"{where} must be a whole number of at least {least}, not {value!r}",
        )

    def _require_number(
        self, where: str, value: object, low: float, high: float = float("inf")
    ) -> None:
        self._require(
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and low <= value <= high
            and value != float("inf"),
            f"{where} must be a number from {low:g} to {high:g}, not {value!r}"
            if high < float("inf")
            else f"{where} must be a number of at least {low:g}, not {value!r}",
        )


@dataclass(frozen=True, kw_only=True)
class Provider:
    """The plugin that an entry came from: `pip show` knows the distribution."""

    plugin: str
    distribution: str
    version: str


@dataclass(frozen=True, kw_only=True)
class Recipe(_Checked):
    """Everything that decides a training run. The same words in Python, TOML, `--set`, run.json."""

    optimizer: str = "adam"  # adam, adamw or sgd; lbfgs for the head of a frozen model
    lr: float = 1e-3  # the peak, where the schedule changes it
    momentum: float = 0.9  # sgd only
    weight_decay: float = 0.0
    schedule: str = "constant"  # constant, cosine, one_cycle, step (a tenth at 1/2 and at 3/4)
    warmup: float = 0.0  # epochs of linear warm-up, fractions allowed
    epochs: int = 10
    batch_size: int = 128
    accumulate: int = 1  # steps of batch_size / accumulate pictures for each update
    augment: tuple[str, ...] = ()  # for example ("flip", "crop:4", "cutout:8")
    label_smoothing: float = 0.0
    mixup: float = 0.0  # alpha of MixUp's Beta distribution; 0 is off
    clip_grad: float = 0.0  # largest gradient norm; 0 is off
    ema: float = 0.0  # decay of the averaged weights; 0 is off
    precision: str = "float32"  # float32, bfloat16 or float16
    compile: bool = False
    patience: int = 0  # epochs without a better validation loss before stopping; 0 is off
    restore_best: bool = False  # end with the weights of the best validation loss
    validation_fraction: float = 0.0  # of the training set, kept out of training
    subset: float = 1.0  # of the training set, taken before the validation split
    preprocess: Mapping[str, Any] = field(default_factory=FrozenDict)  # overrides the dataset's
    init: str = ""  # weights to start from
    seed: int = 0
    model: Mapping[str, Any] = field(default_factory=FrozenDict)  # options of the model
    task: Mapping[str, Any] = field(default_factory=FrozenDict)  # options of the task
    data: Mapping[str, Any] = field(default_factory=FrozenDict)  # options of the dataset

    def __post_init__(self) -> None:
        self._freeze()
        self._require_texts("optimizer", "schedule", "precision", "init")
        for name, allowed in (
            ("optimizer", OPTIMIZERS),
            ("schedule", SCHEDULES),
            ("precision", PRECISIONS),
        ):
            value = getattr(self, name)
            self._require(
                value in allowed, f"{name} must be one of {', '.join(allowed)}, not {value!r}"
            )
        for name in ("epochs", "batch_size", "accumulate"):
            self._require_count(name, getattr(self, name))
        for name in ("patience", "seed"):
            self._require_count(name, getattr(self, name), least=0)
        for name in ("weight_decay", "warmup", "mixup", "clip_grad"):
            self._require_number(name, getattr(self, name), 0)
        for name in ("momentum", "label_smoothing", "ema", "validation_fraction", "subset"):
            self._require_number(name, getattr(self, name), 0, 1)
        self._require_number("lr", self.lr, 0)
        self._require(self.lr > 0, f"lr must be above 0, not {self.lr!r}")
        self._require(self.subset > 0, "subset must be above 0, the share of the training set")
        self._require(self.validation_fraction < 1, "validation_fraction must leave some training")
        for name in ("compile", "restore_best"):
            self._require(
                isinstance(getattr(self, name), bool),
                f"{name} must be true or false, not {getattr(self, name)!r}",
            )
        self._require_names("augment", self.augment)
        for name in ("preprocess", "model", "task", "data"):
            self._require_options(name, getattr(self, name))
        self._require(
            self.warmup <= self.epochs,
            f"warmup {self.warmup:g} is longer than {self.epochs} epochs",
        )
        self._require(
            self.batch_size % self.accumulate == 0,
            f"accumulate {self.accumulate} does not divide batch_size {self.batch_size}",
        )
        # The test set must never decide anything: stopping and selecting need a split of their own.
        self._require(
            self.validation_fraction > 0 or not (self.patience or self.restore_best),
            "patience and restore_best need a validation_fraction above 0, 0.1 for example",
        )


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
