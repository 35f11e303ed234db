"""Small things that several tests use."""

from __future__ import annotations

import os
from pathlib import Path

from zoo_core.io.process import WAITING

ROOT = Path(__file__).parent.parent


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without what would change the outcome of a test.

    No plugin is disabled, whatever the person who runs the tests has disabled.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ZOO_", "COV_"))
        and name not in ("PYTHONDONTWRITEBYTECODE", *WAITING)  # torch here may have set these
    }
    return kept | {"ZOO_CONFIG": os.devnull} | changes
