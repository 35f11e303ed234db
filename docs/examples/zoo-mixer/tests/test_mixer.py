import pytest

from zoo_core.io.errors import Skipped
from zoo_core.testing.suite import checks_of


@pytest.mark.parametrize("check", checks_of("mixer"), ids=str)
def test_it_keeps_its_promises(check):
    try:
        check()
    except Skipped as reason:
        pytest.skip(str(reason))
