import pytest

from zoo.testing import check_export, checks_of

# 64 steps instead of 256, read and remembered as the default recipe does.
SHORT = {"image_size": 16, "read": "mean", "memory": 2.0}


@pytest.mark.parametrize("check", checks_of("patch_lstm", **SHORT), ids=str)
def test_it_keeps_its_promises(check):
    check()


@pytest.mark.slow
def test_it_can_be_exported():
    check_export("patch_lstm", **SHORT)
