"""The site: its pages, its files, and what they are made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def gallery(out: str | Path = "site") -> dict[str, Any]:
    """Write a static site of everything installed that is trained."""
    raise NotImplementedError
