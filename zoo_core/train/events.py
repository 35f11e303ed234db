"""Calls the lifecycle hooks of plugins. A logger that raises is warned about and dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoo_core.plugins import load_plugins
from zoo_core.targets import describe


class Events:
    """The listeners of one run."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._listeners = load_plugins().listeners()
        self._warn = warn

    def send(self, hook: str, **arguments: Any) -> None:
        for plugin, hooks in list(self._listeners.items()):
            try:
                getattr(hooks, hook)(**arguments)
            except Exception as error:
                del self._listeners[plugin]
                self._warn(
                    f"plugin {plugin!r} raised {describe(error)} in {hook}; "
                    "it is not called again in this run"
                )
