"""Turns what a person typed, `--set lr=1e-3 --set model.dropout=0.3` or a file, into a Recipe."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from zoo_core.io.errors import EntryError, OptionError, UsageError, did_you_mean
from zoo_core.io.files import read_bytes
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.recipe import Recipe, freeze

FIELDS = {spec.name: getattr(Recipe(), spec.name) for spec in fields(Recipe)}
ALWAYS = ("optimizer", "lr", "epochs", "batch_size")
LARGEST_FILE = 8 << 20  # bytes; the run.json of a run with 1,000 classes has about 50,000
SECTIONS = ("model", "task", "data", "preprocess")  # fields that hold options of their own


@dataclass(frozen=True)
class TrainingRequest:
    """What a file asks for: which model, on which data, with which settings."""

    model: str = ""
    dataset: str = ""
    recipe: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)  # as `override` takes them


def override(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with some fields replaced; sections such as `model` are merged, not replaced."""
    for name in settings:
        if name not in FIELDS:
            raise unknown_field(name)
    ours = {section: getattr(recipe, section) for section in SECTIONS}
    try:
        return replace(recipe, **merge(ours, settings))
    except EntryError as error:
        raise OptionError(str(error).removeprefix("Recipe: ")) from error


def merge(settings: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Two sets of settings as one; where both say something, the second counts."""
    merged = {**settings, **more}
    for section in SECTIONS:
        if section in settings and section in more:
            merged[section] = {**settings[section], **more[section]}
    return merged


def choose_recipe(entry: ModelEntry, name: str) -> Recipe:
    """One of the recipes that come with a model."""
    if name not in entry.recipes:
        hint = did_you_mean(name, entry.recipes, f"it has: {', '.join(entry.recipes)}")
        raise OptionError(f"model {entry.name!r} has no recipe {name!r}", hint)
    return entry.recipes[name]


def parse_settings(assignments: Iterable[str], entry: ModelEntry) -> dict[str, Any]:
    """`["lr=1e-3", "model.dropout=0.3"]` as `{"lr": 0.001, "model": {"dropout": 0.3}}`."""
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise OptionError(f"{assignment!r} is not of the form name=value")
        section, dot, option = key.strip().partition(".")
        if not dot:
            if section in entry.options:
                problem = f"{section} is an option of the model, not of the recipe"
                raise OptionError(problem, f"write model.{section}={text}")
            if section not in FIELDS or section in SECTIONS:
                raise unknown_field(section)
            settings[section] = parse_value(text, FIELDS[section], section)
        elif section not in SECTIONS:
            raise unknown_field(key)
        else:
            known = entry.options if section == "model" else {}
            if section == "model" and option not in known:
                from zoo_core.spec.framework import check_options  # plugins, for those who train

                check_options(entry, {option: text})
            value = parse_value(text, known.get(option), key)
            settings.setdefault(section, {})[option] = value
    return settings


def parse_value(text: str, like: Any, name: str) -> Any:
    """A value from the command line, of the same type as the one that it replaces."""
    text = text.strip()
    try:
        if name == "augment":
            return _augment_words(text)
        if name == "class_weights" and "," in text:
            return parse_value(text, (0.0,), "each number of class_weights")
        if isinstance(like, bool):
            return {"true": True, "yes": True, "false": False, "no": False}[text.lower()]
        if isinstance(like, int):
            # An int where a float is given is the recipe's or the model's to judge.
            return int(text) if text.lstrip("+-").isdigit() else float(text)
        if isinstance(like, float):
            return float(text)
        if isinstance(like, tuple):
            one = like[0] if like else None
            return tuple(parse_value(part, one, name) for part in text.split(",") if part.strip())
        if isinstance(like, str):
            return text
    except (KeyError, ValueError):
        wanted = {bool: "true or false", int: "a number", float: "a number"}
        kind = wanted.get(type(like), "something else")
        raise OptionError(f"{name} must be {kind}, not {text!r}") from None
    return _guess(text)


def _augment_words(text: str) -> tuple[str, ...]:
    """`flip,rand:2,9,crop:4` is three words: a number, or a part with =, belongs to one before."""
    words: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if words and ":" not in part and ("=" in part or part[0].isdigit()):
            words[-1] += f",{part}"
        else:
            words.append(part)
    return tuple(words)


def _guess(text: str) -> Any:
    """For options whose default says nothing about the type."""
    if "," in text:
        return tuple(_guess(part.strip()) for part in text.split(",") if part.strip())
    if text.lower() in ("none", "null", ""):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def read_request(path: Path) -> TrainingRequest:
    """A TOML file of settings, or the run.json of an earlier run.

    TOML: recipe fields as they are, options in tables `[model]`, `[task]`, `[data]`, and a table
    `[run]` with `model`, `dataset` and `recipe`.
    """
    kind = path.suffix.lstrip(".") or "TOML"
    try:
        data = read_bytes(path, LARGEST_FILE)
        if len(data) > LARGEST_FILE:
            raise ValueError(f"it has more than {LARGEST_FILE:,} bytes")
        text = data.decode("utf-8")
        document = json.loads(text) if kind == "json" else tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} cannot be read: it is not text") from error
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise UsageError(f"{path} is not valid {kind}: {why}") from error
    if kind == "json":
        try:
            model, settings = document["model"], dict(document["recipe"])
            settings["model"] = {**settings.get("model", {}), **model["config"]}
            name, data = f"{model['plugin']}/{model['name']}", document["dataset"]["reference"]
            return TrainingRequest(name, data, document["recipe_name"], freeze(settings))
        except (KeyError, TypeError) as error:
            raise UsageError(f"{path} is not the run.json of a run") from error
    head = document.pop("run", {})
    for name in head:
        if name not in ("model", "dataset", "recipe"):
            raise UsageError(f"{path} has an unknown setting run.{name}")
    for name in document:
        if name not in FIELDS:
            raise unknown_field(name)
    named = {name: str(value) for name, value in head.items()}
    return TrainingRequest(**named, settings=freeze(document))


def unknown_field(name: str) -> OptionError:
    known = [*(name for name in FIELDS if name not in SECTIONS), *(f"{s}.NAME" for s in SECTIONS)]
    hint = did_you_mean(name, known, f"it has: {', '.join(known)}")
    return OptionError(f"a recipe has no setting {name!r}", hint)


def what_it_sets(recipe: Mapping[str, Any]) -> dict[str, str]:
    """The fields that differ from a plain Recipe(), and those that everybody asks for."""
    plain = flat(FIELDS)
    found = flat(recipe).items()
    return {name: value for name, value in found if name in ALWAYS or value != plain.get(name)}


def flat(settings: Mapping[str, Any]) -> dict[str, str]:
    """All settings as one types them: `lr`, `model.dropout`."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": as_typed(item) for key, item in value.items()}
        else:
            found[name] = as_typed(value)
    return found


def asked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What differs from a plain Recipe(), by the names that one types, as JSON has it."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": item for key, item in value.items()}
        elif name not in FIELDS or value != FIELDS[name]:
            found[name] = value
    known: dict[str, Any] = json.loads(json.dumps(found))
    return known


def as_typed(value: Any) -> str:
    """A value as one would write it after `--set name=`."""
    if isinstance(value, list | tuple):
        return ",".join(map(as_typed, value))
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
