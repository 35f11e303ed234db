"""What a search may vary: `lr=log:4.5e-5:1.8e-2` becomes an Axis, checked before any training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoo_core.io.errors import OptionError, UsageError
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.settings import FIELDS, SECTIONS, override, parse_settings

RANGES = ("log", "uniform")
FORMS = "write NAME=log:LOW:HIGH, NAME=uniform:LOW:HIGH or NAME=choice:A,B,C"
# Trials are compared by their loss on the same validation pictures of one dataset.
SHARED = ("subset", "validation_fraction", "data")


@dataclass(frozen=True)
class Axis:
    """One setting and the values that it may have: a range, or a choice."""

    name: str  # as after --set: "lr", "model.dropout"
    kind: str  # log, uniform or choice
    low: float = 0.0
    high: float = 0.0
    whole: bool = False  # a range of whole numbers
    values: tuple[Any, ...] = ()  # of a choice

    def holds(self, value: Any) -> bool:
        if self.kind == "choice":
            return value in self.values
        return isinstance(value, int | float) and self.low <= value <= self.high

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values that have to work for all to work."""
        if self.kind == "choice":
            return self.values
        return tuple(round(end) if self.whole else end for end in (self.low, self.high))


def parse_space(texts: Iterable[str], entry: ModelEntry, recipe: Recipe) -> tuple[Axis, ...]:
    """The axes of a space. `recipe` is what they are put into: every end of them has to fit."""
    axes: list[Axis] = []
    for text in texts:
        axis = _parse(text, entry)
        if axis.name in {other.name for other in axes}:
            raise OptionError(f"{axis.name} is in the space twice")
        for value in axis.ends:
            override(recipe, as_settings({axis.name: value}))
        axes.append(axis)
    if not axes:
        raise OptionError(
            "there is nothing to search", f"{FORMS} after --space, NAME=A,B,C after --grid"
        )
    return tuple(axes)


def recipe_values(axes: Iterable[Axis], entry: ModelEntry, recipe: Recipe) -> dict[str, Any] | None:
    """What the recipe itself says on every axis; None where that lies outside of one."""
    found: dict[str, Any] = {}
    for axis in axes:
        section, dot, option = axis.name.partition(".")
        known = {**entry.options, **recipe.model} if section == "model" else recipe.task
        found[axis.name] = known.get(option) if dot else getattr(recipe, axis.name)
        if not axis.holds(found[axis.name]):
            return None
    return found


def as_settings(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """`{"lr": 0.1, "model.dropout": 0.3}` as `override` takes it: `{..., "model": {...}}`."""
    settings: dict[str, Any] = {}
    for name, value in parameters.items():
        section, dot, option = name.partition(".")
        if dot:
            settings.setdefault(section, {})[option] = value
        else:
            settings[name] = value
    return settings


def choice_text(values: Sequence[Any]) -> str:
    """Values from Python as they would be typed, to the last digit."""

    def typed(value: Any) -> str:
        if isinstance(value, list | tuple):
            return ",".join(map(typed, value))
        return str(value).lower() if isinstance(value, bool) else str(value)

    lists = any(isinstance(value, list | tuple) for value in values)
    return "choice:" + ("/" if lists else ",").join(map(typed, values))


def _parse(text: str, entry: ModelEntry) -> Axis:
    name, equals, rest = text.partition("=")
    name = name.strip()
    kind, _, values = rest.partition(":")
    if not equals or not name or kind not in (*RANGES, "choice"):
        raise OptionError(f"{text!r} is not a part of a search space", FORMS)
    if name.partition(".")[0] in SHARED:
        raise OptionError(
            f"{name} cannot be searched: all trials are compared on the same pictures",
            "set it for all of them, with --set",
        )
    like = _default(name, entry)
    if kind == "choice":
        return Axis(name, kind, values=_choices(name, values, like, entry))
    return _range(name, kind, values, like, entry)


def _default(name: str, entry: ModelEntry) -> Any:
    """What the setting is without a search; its type says which values it can have."""
    section, dot, option = name.partition(".")
    return entry.options.get(option) if dot and section == "model" else FIELDS.get(name)


def _choices(name: str, text: str, like: Any, entry: ModelEntry) -> tuple[Any, ...]:
    # A setting that is a list itself has commas in its values.
    parts = [part.strip() for part in text.split("/" if isinstance(like, tuple) else ",")]
    if not any(parts):
        raise OptionError(f"the choice of {name} has no values", FORMS)
    found = tuple(_value(name, part, entry) for part in parts)
    if len(set(found)) < len(found):
        raise OptionError(f"the choice of {name} names a value twice: {text}")
    return found


def _range(name: str, kind: str, text: str, like: Any, entry: ModelEntry) -> Axis:
    known = _value(name, "1", entry) is not None and like is not None
    if known and (isinstance(like, bool) or not isinstance(like, int | float)):
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
    settings = parse_settings([f"{name}={text}"], entry)
    section, dot, option = name.partition(".")
    return settings[section][option] if dot and section in SECTIONS else settings[name]


def axis_texts(space: Mapping[str, Any] | Iterable[str]) -> list[str]:
    """A space from Python: `{"lr": "log:1e-5:1e-2", "batch_size": [64, 128]}`, or texts."""
    if isinstance(space, str):
        raise UsageError("a space is a mapping or a list of texts, not one text")
    if not isinstance(space, Mapping):
        return list(space)
    return [
        f"{name}={given if isinstance(given, str) else choice_text(list(given))}"
        for name, given in space.items()
    ]


def grid_texts(grid: Iterable[str]) -> list[str]:
    """`lr=0.001,0.01` of a grid as the choice that it is."""
    texts = []
    for text in grid:
        name, equals, values = text.partition("=")
        if not equals or not name.strip():
            raise OptionError(f"{text!r} is not a part of a grid", "write NAME=A,B,C")
        texts.append(f"{name}=choice:{values}")
    return texts
