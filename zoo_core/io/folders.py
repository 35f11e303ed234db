"""The folders of a user: cache, config and data. Every command asks, so it imports nothing."""

from __future__ import annotations

import os
import sys

XDG = ("linux",)  # the platforms with these folders
HOME = {"cache": "~/.cache", "config": "~/.config", "data": "~/.local/share"}


def user_folder(kind: str, variable: str = "") -> str:
    """The zoo's folder of one kind: what the variable of the environment names, or the platform's.

    It may not exist yet.
    """
    if chosen := os.environ.get(variable):
        return os.path.expanduser(chosen)  # noqa: PTH111 - `zoo --help` does without pathlib
    if sys.platform in XDG:
        # As platformdirs says it. Importing that takes a tenth of `zoo list`.
        base = os.environ.get(f"XDG_{kind.upper()}_HOME", "").strip()
        base = base if base.startswith("/") else os.path.expanduser(HOME[kind])  # noqa: PTH111
        return f"{base}/zoo"
    import platformdirs

    found: str = getattr(platformdirs, f"user_{kind}_dir")("zoo", appauthor=False)
    return found
