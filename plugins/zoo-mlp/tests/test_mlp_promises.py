import pytest

from zoo.testing import check_export, checks_of


@pytest.mark.parametrize("check", checks_of("mlp"), ids=str)
def test_it_keeps_its_promises(check):
    check()


@pytest.mark.slow
def test_it_can_be_exported():
    check_export("mlp")
