import pytest

from zoo.testing import checks_of


@pytest.mark.parametrize("check", checks_of("author"), ids=str)
def test_it_keeps_its_promises(check):
    check()
