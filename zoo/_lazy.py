"""Names that are imported when they are first used, so that a page of names costs nothing."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

IMPORT = re.compile(r"^    from (\S+) import (\w+) as \2$", re.MULTILINE)


def lazy(
    page: dict[str, Any], *more: str, others: Callable[[str], Any] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a module, from its imports for type checkers.

    They are the one list of its names: what an editor completes is what there is. others: finds
    names that are not in the list, or raises AttributeError.
    """
    with open(page["__file__"], encoding="utf-8") as source:  # noqa: PTH123 - no pathlib here
        home = {name: module for module, name in IMPORT.findall(source.read())}

    def find(name: str) -> Any:
        if name not in home:
            if others and not name.startswith("_"):
                return others(name)
            problem = f"module {page['__name__']!r} has no attribute {name!r}"
            raise AttributeError(problem, name=name, obj=None)
        try:
            value = page[name] = getattr(importlib.import_module(home[name]), name)
        except ModuleNotFoundError as error:
            if error.name != (package := home[name].partition(".")[0]):
                raise
            from zoo_core.io.targets import missing_dependency

            whose = f"{page['__name__']}.{name}"
            raise missing_dependency(package.replace("_", "-"), whose) from error
        return value

    names = [*home, *more]
    return find, lambda: sorted(names), names
