"""Writes a file as a whole or not at all; whatever the zoo keeps is written through this."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; what is written there takes its place in one step.

    If the block raises, the temporary file is deleted and `path` stays as it was. Only a killed
    process leaves one behind: a hidden file that ends in .tmp.

        with atomic_write(path) as temporary:
            temporary.write_text("...")
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":  # the new name itself is safe only when its folder is
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
