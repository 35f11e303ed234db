"""String targets, `"package.module:name"`: the one place that turns them into objects."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar, NamedTuple

from zoo_core.io.errors import MissingDependency, PluginError


class Extra(NamedTuple):
    """What pip installs with `zoo-core[name]`."""

    purpose: str
    packages: tuple[str, ...]  # the first of them stands for all


EXTRAS = {
    "torch": Extra("training and using torch models", ("torch",)),
    "report": Extra("plots in reports", ("matplotlib",)),
}
LONGEST = 1000  # characters of an error that a sentence shows


def import_target(target: str) -> Any:
    """The object that a target names: a module, or something inside it."""
    module_name, _, path = target.partition(":")
    found = importlib.import_module(module_name)
    for attribute in path.split(".") if path else ():
        found = getattr(found, attribute)
    return found


def resolve(target: str, needed_for: str) -> Any:
    """The object that a target names; a ZooError says what it was needed for if there is none."""
    try:
        return import_target(target)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == target.partition(".")[0].partition(":")[0]:
            raise PluginError(f"{needed_for} names {target!r}, which does not exist") from error
        raise missing_dependency(package, needed_for) from error
    except (Exception, SystemExit) as error:
        what = f"importing {target!r} for {needed_for} raised {describe(error)}"
        hint = "run the command again with --debug for the traceback"
        raise PluginError(what, hint) from error


def install_hint(distribution: str) -> str:
    """How to get a package that may be on a package index, or only in a folder of yours."""
    return f"pip install {distribution}, or the folder of its source"


def missing_dependency(package: str, needed_for: str) -> MissingDependency:
    """The error for a package that has to be installed first."""
    extras = [f"'zoo-core[{name}]'" for name, e in EXTRAS.items() if package in e.packages]
    what = f"{needed_for} needs {package}, which is not installed"
    return MissingDependency(what, f"pip install {(extras or [package])[0]}")


def describe(error: BaseException) -> str:
    """An exception as the end of a sentence, on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception as worse:
        text = f"its text cannot be shown ({type(worse).__name__})"
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class Displayed:
    """What a notebook shows as HTML, which a higher layer makes; as text if that fails."""

    _html: ClassVar[str]  # the target of a function that is given the object

    def _repr_html_(self) -> str | None:
        try:
            made: str = import_target(self._html)(self)
        except Exception:  # matplotlib is missing, files are gone: repr needs neither
            return None
        return made
