"""JSON that says one thing only: no key twice, no NaN or Infinity, and never a crash."""

from __future__ import annotations

import json
from typing import Any


def loads(data: bytes) -> Any:
    """The document in UTF-8 text; whatever is wrong with it is a ValueError with the reason."""
    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return found


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")
