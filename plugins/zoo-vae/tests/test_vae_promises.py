import pytest

from zoo.testing import checks_of

SMALL = {"image_size": 8, "latent": 4, "clusters": 3, "codes": 8, "width": 4}


@pytest.mark.parametrize("check", checks_of("vae", **SMALL), ids=str)
def test_it_keeps_its_promises(check):
    check()
