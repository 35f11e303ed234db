"""What a search may vary: `lr=log:4.5e-5:1.8e-2` becomes an Axis, checked before any training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoo import ModelEntry, OptionError, Recipe, UsageError
from zoo.kit import FIELDS, merge, override, parse_settings

KINDS = ("log", "uniform", "choice")
FORMS = "write NAME=log:LOW:HIGH, NAME=uniform:LOW:HIGH or NAME=choice:A,B,C"
# Trials are compared by their loss on the same validation images of one dataset.
SHARED = ("subset", "validation_fraction", "data")


@dataclass(frozen=True)
class Axis:
    """One setting and the values that it may have: a range, or a choice."""

    name: str  # as after --set: "lr", "model.dropout"
    kind: str  # one of KINDS
    low: float = 0.0
    high: float = 0.0
    whole: bool = False  # a range of whole numbers
    values: tuple[Any, ...] = ()  # of a choice

    def holds(self, value: Any) -> bool:
        if self.kind == "choice":
            return value in self.values
        return isinstance(value, int | float) and self.low <= value <= self.high

    def typed(self, value: Any) -> Any:
        """A value of this axis in the type of its setting."""
        if self.kind == "choice":
            return value
        return round(float(value)) if self.whole else float(value)

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values that have to work for all to work."""
        return self.values or (self.typed(self.low), self.typed(self.high))


def parse_space(texts: Iterable[str], entry: ModelEntry, recipe: Recipe) -> tuple[Axis, ...]:
    """The axes of a space. Every end of them has to fit into `recipe`."""
    axes: dict[str, Axis] = {}
    for text in texts:
        axis = _parse(text, entry)
        if axis.name in axes:
            raise OptionError(f"{axis.name} is in the space twice")
        for value in axis.ends:
            override(recipe, as_settings({axis.name: value}))
        axes[axis.name] = axis
    if not axes:
        raise OptionError("there is nothing to search", "give values to try: --grid lr=0.01,0.1")
    return tuple(axes.values())


def grid_size(axes: Iterable[Axis]) -> int:
    """How many combinations there are."""
    for axis in axes:
        if axis.kind != "choice":
            what = f"a grid needs values, and {axis.name} has a range"
            raise OptionError(what, f"write {axis.name}=choice:A,B,C")
    return math.prod(len(axis.values) for axis in axes)


def as_settings(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """`{"lr": 0.1, "model.dropout": 0.3}` as `override` takes it: `{..., "model": {...}}`."""
    settings: dict[str, Any] = {}
    for name, value in parameters.items():
        section, dot, option = name.partition(".")
        settings = merge(settings, {section: {option: value} if dot else value})
    return settings


def _parse(text: str, entry: ModelEntry) -> Axis:
    name, equals, rest = text.partition("=")
    name = name.strip()
    kind, _, values = rest.partition(":")
    if not equals or not name or kind not in KINDS:
        raise OptionError(f"{text!r} is not a part of a search space", FORMS)
    section, dot, option = name.partition(".")
    if section in SHARED:
        what = f"{name} cannot be searched: all trials are compared on the same images"
        raise OptionError(what, "set it for all of them, with --set")
    # What the setting is without a search; its type says which values it can have.
    like = entry.options.get(option) if dot and section == "model" else FIELDS.get(name)
    if kind != "choice":
        return _range(name, kind, values, like, entry)
    # A setting that is a list itself has commas in its values.
    parts = [part.strip() for part in values.split("/" if isinstance(like, tuple) else ",")]
    if not any(parts):
        raise OptionError(f"the choice of {name} has no values", FORMS)
    found = tuple(_value(name, part, entry) for part in parts)
    if len(set(found)) < len(found):
        raise OptionError(f"the choice of {name} names a value twice: {values}")
    return Axis(name, kind, values=found)


def _range(name: str, kind: str, text: str, like: Any, entry: ModelEntry) -> Axis:
    _value(name, "1", entry)  # refuses a setting that does not exist
    if not isinstance(like, int | float | None):
        raise OptionError(f"{name} is not a number and has no range", f"write {name}=choice:A,B,C")
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise OptionError(f"{name}={kind}:{text} is not a range", FORMS) from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise OptionError(f"the range of {name} must have finite ends, not {text}")
    if low >= high:
        hint = f"did you mean {name}={kind}:{high:g}:{low:g}?" if low > high else ""
        what = "inverted" if low > high else "empty"
        raise OptionError(f"the range of {name} is {what}: {low:g} to {high:g}", hint)
    if kind == "log" and low <= 0:
        raise OptionError(
            f"a log range must begin above 0, and that of {name} begins at {low:g}",
            f"begin with something small, or write {name}=uniform:{low:g}:{high:g}",
        )
    return Axis(name, kind, low, high, whole=isinstance(like, int))


def _value(name: str, text: str, entry: ModelEntry) -> Any:
    """One value, parsed and checked as `--set` does it."""
    (value,) = parse_settings([f"{name}={text}"], entry).values()
    return value[name.partition(".")[2]] if "." in name else value


def axis_texts(space: Mapping[str, Any] | Iterable[str], *, grid: bool = False) -> tuple[str, ...]:
    """`{"lr": "log:1e-5:1e-2", "batch_size": [64, 128]}` as texts; a grid's become choices."""
    if isinstance(space, str):
        raise UsageError("a space is a mapping or a list of texts, not one text")
    if isinstance(space, Mapping):
        return tuple(
            f"{name}={given if isinstance(given, str) else _choice_text(list(given))}"
            for name, given in space.items()
        )
    texts = tuple(space)
    if not grid:
        return texts
    for text in texts:
        if not text.partition("=")[0].strip() or "=" not in text:
            raise OptionError(f"{text!r} is not a part of a grid", "write NAME=A,B,C")
    return tuple(text.replace("=", "=choice:", 1) for text in texts)


def _choice_text(values: Sequence[Any]) -> str:
    """Values from Python as they would be typed, to the last digit."""

    def typed(value: Any) -> str:
        if isinstance(value, list | tuple):
            return ",".join(map(typed, value))
        return str(value).lower() if isinstance(value, bool) else str(value)

    lists = any(isinstance(value, list | tuple) for value in values)
    return "choice:" + ("/" if lists else ",").join(map(typed, values))
