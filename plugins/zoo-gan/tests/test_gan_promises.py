import pytest

from zoo.testing import checks_of


@pytest.mark.parametrize("check", checks_of("gan", image_size=16, width=8, noise=6), ids=str)
def test_it_keeps_its_promises(check):
    check()
