import pytest

from zoo.testing import checks_of

SMALL = {"image_size": 16, "channels": (8, 8), "hidden": 16, "projection": 8}


@pytest.mark.parametrize("check", checks_of("ssl", **SMALL), ids=str)
def test_it_keeps_its_promises(check):
    check()
