import pytest

from zoo_core.torch.checks import CHECKS, check_export

MODELS = {
    "nano_vit": {"image_size": 16},
    "nano_vit_p4": {},
    "fashion_vit": {},
    "mnist_vit": {},
    "vit_scratch": {"image_size": 32, "width": 96, "depth": 2, "hidden": 128},
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", MODELS)
def test_it_keeps_its_promises(name, check):
    check(name, **MODELS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_it_can_be_exported(name):
    check_export(name)
