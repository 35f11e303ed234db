import pytest

from zoo_core.torch.checks import CHECKS, check_export

# 64 steps instead of 256, read and remembered as the default recipe does.
SHORT = {"image_size": 16, "read": "mean", "memory": 2.0}


@pytest.mark.parametrize("check", CHECKS)
def test_it_keeps_its_promises(check):
    check("patch_lstm", **SHORT)


@pytest.mark.slow
def test_it_can_be_exported():
    check_export("patch_lstm", **SHORT)
