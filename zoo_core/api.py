"""The functions behind `zoo.create`, `zoo.list_models` and `zoo.info`."""

from __future__ import annotations

import difflib
from typing import Any

from zoo_core.errors import OptionError, ZooError
from zoo_core.registry import find_models, registry
from zoo_core.targets import describe, resolve
from zoo_core.types import ModelEntry


def list_models(
    text: str = "", *, kind: str = "", tag: str = "", dataset: str = "", plugin: str = ""
) -> list[str]:
    """Names of the installed models; text is a glob, or a part of name, tag or summary."""
    models = registry().models
    found = find_models(models, text, kind=kind, tag=tag, dataset=dataset, plugin=plugin)
    return [models.label(entry) for entry in found]


def info(name: str) -> ModelEntry:
    """The entry of a model: its options, recipes, parameter count and provider."""
    return registry().models.get(name)


def create(name: str, **options: Any) -> Any:
    """Build an untrained model.

    name: a name of `zoo list`, or `plugin/name`. options: what `zoo info NAME` shows; the rest keep
    their defaults. Nothing is downloaded.
    """
    entry = registry().models.get(name)
    config = {**entry.options, **check_options(entry, options)}
    target = resolve(entry.target, f"model {name!r}")
    try:
        return target(**config)
    except ZooError:
        raise
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"model {name!r} cannot be built with these options: {error}"
            if isinstance(error, ValueError)
            else f"building model {name!r} raised {describe(error)}",
            f"zoo info {name} shows its options",
        ) from error


def check_options(entry: ModelEntry, options: dict[str, Any]) -> dict[str, Any]:
    """The same options, if the model has them all."""
    for option in options:
        if option not in entry.options:
            close = difflib.get_close_matches(option, entry.options, n=1)
            raise OptionError(
                f"model {entry.name!r} has no option {option!r}",
                f"did you mean {close[0]}?" if close else f"it has: {', '.join(entry.options)}",
            )
    return options
