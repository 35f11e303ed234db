"""What plugins contribute, as frozen dataclasses that check themselves when they are made.

Nothing here imports anything heavy: an entry names its code as a string (`"package.module:Class"`)
and the code is imported when somebody uses the entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from zoo_core.io.errors import EntryError

NAME = re.compile(r"[a-z0-9]+([_-][a-z0-9]+)*")
TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
DIGEST = re.compile(r"[0-9a-f]{64}")
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
class Recipe(_Checked):
    """Everything that decides a training run. The same words in Python, TOML, `--set`, run.json."""

    optimizer: str = "adam"  # one that the model's trainer has: adam, adamw or sgd in torch
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
