"""JSON: files of runs and searches, and a stricter reading of what comes from strangers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zoo_core.io.errors import ZooError
from zoo_core.io.files import atomic_write, read_bytes

MOST_DIGITS = 300  # of a whole number; with more it would not fit into a float
LARGEST = 64 << 20  # bytes; a run with 1,000 classes and their confusion matrix has 13 MB


def read_document(path: Path, format: int, schema: Any = None) -> dict[str, Any]:
    """The JSON object in a file, whose key `format` must be this number.

    FileNotFoundError where there is no file; ZooError for everything else that can be wrong.
    schema: a type of msgspec that it must conform to.
    """
    document = read_json(path)
    if not isinstance(document, dict) or document.get("format") != format:
        raise ZooError(f"{path} is not in a format that this zoo knows")
    if schema:
        conform(document, schema, str(path))
    return document


def read_json(path: Path) -> Any:
    """What a file says; errors as above."""
    with _reading(path):
        return loads(_bounded(path))


def read_lines(path: Path, schema: Any, *, cut: bool = False) -> list[dict[str, Any]]:
    """The JSON objects in the lines of a file, none where it is missing; ZooError as above.

    cut: a kill may have cut the last line short, which is left out then.
    """
    try:
        with _reading(path):
            texts = _bounded(path).splitlines()
    except FileNotFoundError:
        return []
    lines = []
    for number, text in enumerate(texts, 1):
        name = f"line {number} of {path}"
        try:
            line = loads(text)
        except ValueError as error:
            if cut and number == len(texts) and isinstance(error, json.JSONDecodeError):
                break
            raise ZooError(f"{name} is damaged: {error}") from error
        lines.append(conform(line, schema, name))
    return lines


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ZooError(f"{path} cannot be read: {error}") from error


def _bounded(path: Path) -> bytes:
    data = read_bytes(path, LARGEST)
    if len(data) > LARGEST:
        raise ValueError(f"it has more than {LARGEST >> 20} MB")
    return data


def loads(data: bytes) -> Any:
    """JSON, with NaN; whatever is wrong with it is a ValueError."""
    return _loads(data, parse_int=_whole)


def strict_loads(data: bytes) -> Any:
    """JSON without a key twice, NaN or Infinity; whatever is wrong with it is a ValueError."""
    return _loads(data, object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _loads(data: bytes, **how: Any) -> Any:
    try:
        return json.loads(data.decode("utf-8"), **how)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"it has a number of {len(text)} digits")
    return int(text)


def conform(document: Any, schema: Any, name: str) -> Any:
    """The document, if it is what the schema says; a sentence if not."""
    import msgspec  # most commands read no document

    try:
        msgspec.convert(document, schema)
    except (ValueError, OverflowError, RecursionError) as error:
        raise ZooError(f"{name} is damaged: {reason(error)}") from error
    return document


def reason(error: BaseException) -> str:
    """What msgspec found wrong, with the place in the document first, without its notation."""
    what, _, place = str(error).partition(" - at `$")
    place = place.strip(".`")
    return f"{place}: {what[:1].lower()}{what[1:]}" if place else what


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON object to a file, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def document_digest(document: Any) -> str:
    """The sha256 of what a document says; the order of its keys does not count."""
    text = json.dumps(document, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return found


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")
