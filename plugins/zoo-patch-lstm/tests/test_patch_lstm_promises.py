import pytest

from zoo_core.testing.models import CHECKS, check_export

# 64 steps instead of 256, and reading both directions at their ends as the default recipe does.
SHORT = {"image_size": 16, "read": "ends"}


@pytest.mark.parametrize("check", CHECKS)
def test_it_keeps_its_promises(check):
    check("patch_lstm", **SHORT)


@pytest.mark.slow
def test_it_can_be_exported():
    check_export("patch_lstm", **SHORT)
