import pytest

from zoo.testing import checks_of


@pytest.mark.parametrize("check", checks_of("tune"), ids=str)
def test_it_keeps_its_promises(check):
    check()
