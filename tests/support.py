"""Small things that several tests use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from zoo_core.io.process import WAITING

ROOT = Path(__file__).parent.parent
# What `uv build --wheel` asks of a package's build backend, of many packages in one process.
BUILD = """
import os, sys
from hatchling.build import build_wheel
for package in sys.argv[2:]:
    os.chdir(package)
    build_wheel(sys.argv[1])
"""


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


def build_wheels(folder: Path, packages: Iterable[Path]) -> list[Path]:
    """Build packages as they would be for publishing."""
    command = [sys.executable, "-c", BUILD, folder, *packages]
    subprocess.run(command, check=True, capture_output=True, env=environment())
    return sorted(folder.glob("*.whl"))
