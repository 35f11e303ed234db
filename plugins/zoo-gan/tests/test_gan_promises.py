import pytest

from zoo_core.testing.any_model import check_counts, check_training

SMALL = {"image_size": 16, "width": 8, "noise": 6}


@pytest.mark.parametrize("check", [check_counts, check_training])
@pytest.mark.parametrize("name", ["dcgan", "acgan"])
def test_it_keeps_its_promises(name, check):
    check(name, **SMALL)
