import pytest

from zoo.testing import check_export, checks_of

MODELS = {
    "nano_vit": {"image_size": 16},
    "nano_vit_p4": {},
    "fashion_vit": {},
    "mnist_vit": {},
    "vit_scratch": {"image_size": 32, "width": 96, "depth": 2, "hidden": 128},
}
CHECKS = [check for name in MODELS for check in checks_of(f"vit/{name}", **MODELS[name])]


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_it_keeps_its_promises(check):
    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_it_can_be_exported(name):
    check_export(name)
