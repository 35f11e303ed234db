import pytest
import torch

import zoo
from zoo.testing import check_export, checks_of

SMALL_VIT = {"image_size": 32, "patch_size": 8, "width": 32, "depth": 2, "heads": 2, "mlp": 64}
MODELS = {
    "efficientnet_lite0_finetune": {"image_size": 32},
    "vit_b16_finetune": SMALL_VIT,
    "mobilenet_v2_finetune": {"image_size": 32},
    "dinov2_vits14_finetune": {"image_size": 28, "width": 32, "depth": 2, "heads": 2},
    "resnet18_features": {"image_size": 32, "channels": (4, 8, 12, 16)},
    "timm_frozen": {"image_size": 32, "backbone": "test_resnet"},
}
CHECKS = [check for name in MODELS for check in checks_of(f"frozen/{name}", **MODELS[name])]
# A head cannot learn by heart what random weights do not tell apart, `hidden` counts only with
# head=mlp, and training needs the real weights: test_frozen_steps.py trains.
LEFT_OUT = ("learning", "options_count", "training")


@pytest.mark.parametrize("check", [c for c in CHECKS if c.name not in LEFT_OUT], ids=str)
def test_it_keeps_its_promises(check, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))  # the user's may have real weights, too wide
    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_it_can_be_exported(name):
    check_export(name, **MODELS[name])


@pytest.mark.parametrize("name", MODELS)
def test_only_the_head_is_trained_and_the_backbone_stays_in_evaluation_mode(name):
    model = zoo.create(name, **MODELS[name]).train()
    trained = [key for key, p in model.named_parameters() if p.requires_grad]
    assert trained and all(key.startswith("head.") for key in trained)
    assert not any(layer.training for layer in model.backbone.modules())
    before = {key: tensor.clone() for key, tensor in model.backbone.state_dict().items()}
    size = MODELS[name]["image_size"]
    model(torch.randn(2, 3, size, size))
    assert all(torch.equal(before[k], v) for k, v in model.backbone.state_dict().items())


def test_the_heads_have_the_published_sizes():
    """7,690 parameters: 768 features to 10 classes."""
    heads = {name: sum(p.numel() for p in zoo.create(name).head.parameters())
             for name in ("resnet18_features", "efficientnet_lite0_finetune")}  # fmt: skip
    assert heads == {"resnet18_features": 5_130, "efficientnet_lite0_finetune": 12_810}
    assert zoo.info("vit_b16_finetune").parameters == 7_690


def test_an_mlp_head_is_an_option():
    model = zoo.create("resnet18_features", head="mlp", hidden=32, dropout=0.1)
    assert [type(layer).__name__ for layer in model.head] == ["Linear", "ReLU", "Dropout", "Linear"]
