import pytest

from zoo_core.torch.checks import CHECKS, check_export


@pytest.mark.parametrize("check", CHECKS)
def test_it_keeps_its_promises(check):
    check("mlp")


@pytest.mark.slow
def test_it_can_be_exported():
    check_export("mlp")
