import pytest

from zoo.testing import check_export, checks_of

# The wide ones are checked with the same blocks and fewer channels; their counts are checked whole.
THIN = {"channels": (8, 16, 24, 32)}
MODELS = {
    "resnet18": THIN,
    "resnet18_finetune": THIN,
    "fashion_resnet18": THIN,
    "resnet8": {},
}
CHECKS = [check for name in MODELS for check in checks_of(f"resnet/{name}", **MODELS[name])]
LEFT_OUT = "resnet18_finetune-training"  # it needs the real weights: test_finetune.py trains it


@pytest.mark.parametrize("check", [c for c in CHECKS if str(c) != LEFT_OUT], ids=str)
def test_it_keeps_its_promises(check):
    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_it_can_be_exported(name):
    check_export(name)
