"""What the tests of the core and of all plugins share: each begins with the same random numbers."""

import sys

import pytest

TORCHS_OWN = 67280421310721  # with which torch begins where nobody seeds it


@pytest.fixture(autouse=True)
def seeded_torch() -> None:
    """pytest-randomly seeds random and numpy; torch's numbers must not depend on other tests."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(TORCHS_OWN)
