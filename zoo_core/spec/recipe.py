"""A recipe of a training, and the rules by which recipes and entries check themselves."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

from zoo_core.io.errors import EntryError, OptionError

NAME = re.compile(r"[a-z0-9]+([_-][a-z0-9]+)*")
TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
DIGEST = re.compile(r"[0-9a-f]{64}")
SCHEDULES = ("constant", "cosine", "one_cycle", "step")
AUTO = "auto"
PRECISIONS = ("float32", "bfloat16", "float16", AUTO)
DECAYS = ("all", "matrices")

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


class Rule(NamedTuple):
    """What a field must be, as a test and in words."""

    holds: Callable[[Any], bool]
    words: str


def whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def count(least: int = 1) -> Rule:
    return Rule(lambda v: whole(v) and v >= least, f"a whole number of at least {least}")


def between(low: int, high: int) -> Rule:
    return Rule(lambda v: whole(v) and low <= v <= high, f"a whole number, {low} to {high}")


def number(low: float, high: float = math.inf, *, above: bool = False) -> Rule:
    """above: the lower limit itself is refused."""

    def holds(value: Any) -> bool:
        real = isinstance(value, int | float) and not isinstance(value, bool)
        return real and low <= value <= high and value != math.inf and not (above and value == low)

    least = f"above {low:g}" if above else f"of at least {low:g}"
    return Rule(holds, f"a number {least}" + (f" and at most {high:g}" if high < math.inf else ""))


def one_of(*words: str) -> Rule:
    return Rule(lambda v: v in words, f"one of {', '.join(words)}")


def or_none(rule: Rule) -> Rule:
    return Rule(lambda v: v is None or rule.holds(v), rule.words)


FLAG = Rule(lambda v: isinstance(v, bool), "true or false")
TEXT = Rule(lambda v: isinstance(v, str), "a string")
TEXTS = Rule(
    lambda v: isinstance(v, tuple) and all(isinstance(item, str) for item in v),
    "a tuple of strings",
)
OPTIONS = Rule(
    lambda v: isinstance(v, Mapping) and all(isinstance(k, str) and k.isidentifier() for k in v),
    "a mapping from option names to values",
)


def check_rules(owner: str, values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Refuse options that break a rule."""
    for name, rule in rules.items():
        if not rule.holds(values[name]):
            raise OptionError(f"{owner}: {name} must be {rule.words}, not {values[name]!r}")


class Checked:
    """The base of all entries: freezes what it was given, then checks it field by field."""

    rules: ClassVar[Mapping[str, Rule]]

    def __post_init__(self) -> None:
        for spec in fields(self):  # type: ignore[arg-type]
            value = getattr(self, spec.name)
            if isinstance(value, Mapping | list | tuple):
                object.__setattr__(self, spec.name, freeze(value))
        for name, rule in self.rules.items():
            value = getattr(self, name)
            self._require(rule.holds(value), f"{name} must be {rule.words}, not {value!r}")
        self._check()

    def _check(self) -> None:
        """What concerns several fields, or the inside of one."""

    def _require(self, ok: object, problem: str) -> None:
        if not ok:
            name = getattr(self, "name", "")
            label = f" {name!r}" if isinstance(name, str) and name else ""
            raise EntryError(f"{type(self).__name__}{label}: {problem}")


@dataclass(frozen=True, kw_only=True, repr=False)
class Recipe(Checked):
    """Everything that decides a training run. The same words in Python, TOML, `--set`, run.json."""

    optimizer: str = "adam"  # one that the model's trainer has: adam, adamw or sgd in torch
    lr: float = 1e-3  # the peak, where the schedule changes it
    momentum: float = 0.9  # sgd only
    weight_decay: float = 0.0
    decay: str = "all"  # what weight_decay shrinks: all, or matrices (no norms, biases, positions)
    schedule: str = "constant"  # constant, cosine, one_cycle, step (a tenth at 1/2 and at 3/4)
    by_width: bool = False  # lr is for the model's default width; a wider layer learns by its own
    warmup: float = 0.0  # epochs of linear warm-up, fractions allowed
    epochs: int = 10
    batch_size: int = 128
    accumulate: int = 1  # steps of batch_size / accumulate images for each update
    augment: tuple[str, ...] = ()  # for example ("flip", "crop:4", "cutout:8")
    label_smoothing: float = 0.0
    class_weights: str | tuple[float, ...] = "none"  # or balanced, or a number for each class
    mixup: float = 0.0  # alpha of MixUp's Beta distribution; 0 is off
    clip_grad: float = 0.0  # largest gradient norm; 0 is off
    ema: float = 0.0  # decay of the averaged weights; 0 is off
    precision: str = "float32"  # float32, bfloat16, float16; auto: what is faster here
    compile: bool = False
    portable: bool = False  # one thread, and arithmetic that other processors repeat bit for bit
    patience: int = 0  # epochs without a better validation loss before stopping; 0 is off
    restore_best: bool = False  # end with the weights of the best validation loss
    evaluate_every: int = 1  # epochs between two measurements; 0: after the last epoch alone
    evaluate_subset: float = 1.0  # of the test images, before the last epoch: a share or a number
    validation_fraction: float = 0.0  # of the training set, kept out of training
    subset: float = 1.0  # of the training set, taken before the validation split
    preprocess: Mapping[str, Any] = field(default_factory=FrozenDict)  # overrides the dataset's
    init: str = ""  # weights to start from
    seed: int = 0
    model: Mapping[str, Any] = field(default_factory=FrozenDict)  # options of the model
    task: Mapping[str, Any] = field(default_factory=FrozenDict)  # options of the task
    data: Mapping[str, Any] = field(default_factory=FrozenDict)  # options of the dataset

    rules: ClassVar[Mapping[str, Rule]] = {
        **dict.fromkeys(("optimizer", "init"), TEXT),
        "schedule": one_of(*SCHEDULES),
        "precision": one_of(*PRECISIONS),
        "decay": one_of(*DECAYS),
        **dict.fromkeys(("epochs", "batch_size", "accumulate"), between(1, 1_000_000_000)),
        **dict.fromkeys(("patience", "evaluate_every"), count(0)),
        "seed": between(0, 2**63 - 1),  # torch takes no larger one
        **dict.fromkeys(("weight_decay", "warmup", "mixup", "clip_grad"), number(0)),
        **dict.fromkeys(("momentum", "label_smoothing", "ema"), number(0, 1)),
        "validation_fraction": number(0, 1),
        "subset": number(0, 1, above=True),
        "evaluate_subset": Rule(
            lambda v: number(0, above=True).holds(v) and (v <= 1 or v == int(v)),
            "a share above 0 and at most 1, or a whole number of images",
        ),
        "class_weights": Rule(
            lambda v: (
                v in ("none", "balanced")
                or (isinstance(v, tuple) and all(map(number(0, above=True).holds, v)) and v != ())
            ),
            "none, balanced, or a number above 0 for each class",
        ),
        "lr": number(0, above=True),
        **dict.fromkeys(("by_width", "compile", "portable", "restore_best"), FLAG),
        "augment": TEXTS,
        **dict.fromkeys(("preprocess", "model", "task", "data"), OPTIONS),
    }

    def __repr__(self) -> str:  # what is not as usual
        plain = vars(Recipe())
        told = (f"{name}={value!r}" for name, value in vars(self).items() if value != plain[name])
        return f"Recipe({', '.join(told)})"

    def _check(self) -> None:
        self._require(self.validation_fraction < 1, "validation_fraction must leave some training")
        self._require(
            self.warmup <= self.epochs,
            f"warmup {self.warmup:g} is longer than {self.epochs} epochs",
        )
        self._require(
            self.batch_size % self.accumulate == 0,
            f"accumulate {self.accumulate} does not divide batch_size {self.batch_size}",
        )
        self._require(
            not self.portable or (self.precision in ("float32", AUTO) and not self.compile),
            "portable needs precision float32, and no compile",
        )
        # The test set must never decide anything: stopping and selecting need a split of their own.
        self._require(
            (self.validation_fraction > 0 and self.evaluate_every)
            or not (self.patience or self.restore_best),
            "patience and restore_best need a validation_fraction above 0, 0.1 for example, and an "
            "evaluate_every above 0",
        )
