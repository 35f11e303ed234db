"""JSON: files of runs and searches, and a stricter reading of what comes from strangers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo_core.io.errors import ZooError
from zoo_core.io.files import atomic_write


def read_document(path: Path, format: int) -> dict[str, Any]:
    """The JSON object in a file, whose key `format` must be this number.

    FileNotFoundError where there is no file; ZooError for everything else that can be wrong.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ZooError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict) or document.get("format") != format:
        raise ZooError(f"{path} is not in a format that this zoo knows")
    return document


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON object to a file, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def document_digest(document: Any) -> str:
    """The sha256 of what a document says; the order of its keys does not count."""
    text = json.dumps(document, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def strict_loads(data: bytes) -> Any:
    """JSON without a key twice, NaN or Infinity; whatever is wrong with it is a ValueError."""
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
