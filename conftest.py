"""What the tests of the core and of all plugins share: a world of its own for each of them."""

import os
import sys
from pathlib import Path

import pytest

TORCHS_OWN = 67280421310721  # with which torch begins where nobody seeds it

for name in [name for name in os.environ if name.startswith("ZOO_")]:
    del os.environ[name]  # what a person has set decides no test


@pytest.fixture(autouse=True)
def own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and torch's random numbers; pytest-randomly seeds random and numpy."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    if torch := sys.modules.get("torch"):
        torch.manual_seed(TORCHS_OWN)
