import pytest

import zoo
from zoo.testing import check_export, checks_of


@pytest.mark.parametrize("check", checks_of("cnn"), ids=str)
def test_it_keeps_its_promises(check):
    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.list_models(plugin="cnn"))
def test_it_can_be_exported(name):
    check_export(name)
