import pytest

from zoo_core.torch.checks import CHECKS, check_export

NAMES = ("cnn", "fashion_cnn", "mnist_cnn1", "mnist_cnn2")


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", NAMES)
def test_it_keeps_its_promises(name, check):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_exported(name):
    check_export(name)
