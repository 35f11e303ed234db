"""Names that are imported when they are first used, so that a page of names costs nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(
    page: dict[str, Any], homes: Mapping[str, str], *more: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a module; homes: modules, and the names in each."""
    home = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home:
            problem = f"module {page['__name__']!r} has no attribute {name!r}"
            raise AttributeError(problem, name=name, obj=None)
        value = page[name] = getattr(importlib.import_module(home[name]), name)
        return value

    names = [*home, *more]
    return find, lambda: sorted(names), names
