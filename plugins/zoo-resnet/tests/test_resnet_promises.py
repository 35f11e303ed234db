import pytest

from zoo_core.torch.checks import CHECKS, check_export

# The wide ones are checked with the same blocks and fewer channels; their counts are checked whole.
THIN = {"channels": (8, 16, 24, 32)}
MODELS = {
    "resnet18": THIN,
    "resnet18_finetune": THIN,
    "fashion_resnet18": THIN,
    "resnet8": {},
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", MODELS)
def test_it_keeps_its_promises(name, check):
    check(name, **MODELS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_it_can_be_exported(name):
    check_export(name)
