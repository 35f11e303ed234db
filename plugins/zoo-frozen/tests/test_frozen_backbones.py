"""The backbones are those that their weights were trained in."""

import importlib.util

import numpy as np
import pytest
import timm
import torch
import torchvision
from zoo_frozen import efficientnet_lite0, vit_b16
from zoo_frozen.plugin import TENSORFLOW

import zoo


def say(sentence: str) -> None:
    pass


def shaken(model: torch.nn.Module) -> torch.nn.Module:
    """Random weights everywhere, in the norms too, large enough to make every layer matter."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(0.1 * torch.randn_like(buffer))
            elif name.endswith("running_var"):
                buffer.mul_(1 + 0.2 * torch.rand_like(buffer))
    return model.eval()


def features(name: str, state: dict[str, torch.Tensor], images: torch.Tensor) -> torch.Tensor:
    model = zoo.create(name).eval()
    missing, extra = model.backbone.load_state_dict(state, strict=False)
    assert not missing and all(key.startswith(("fc.", "heads.", "classifier.")) for key in extra)
    with torch.inference_mode():
        return model.features(images)


@pytest.mark.slow  # 86 million parameters, twice
def test_vit_b16_is_torchvisions():
    theirs = shaken(torchvision.models.vit_b_16())
    state = theirs.state_dict()
    theirs.heads = torch.nn.Identity()
    images = torch.randn(1, 3, 224, 224)
    with torch.inference_mode():
        wanted = theirs(images)
    assert wanted.std() > 0.1
    torch.testing.assert_close(
        features("vit_b16_finetune", state, images), wanted, rtol=1e-4, atol=1e-4
    )


def test_resnet18_is_torchvisions():
    theirs = shaken(torchvision.models.resnet18())
    state = theirs.state_dict()
    theirs.fc = torch.nn.Identity()
    images = torch.randn(2, 3, 96, 96)
    with torch.inference_mode():
        wanted = theirs(images)
    torch.testing.assert_close(features("resnet18_features", state, images), wanted)


@pytest.mark.parametrize("size", [224, 127])
def test_efficientnet_lite0_is_timms(size):
    theirs = shaken(timm.create_model("tf_efficientnet_lite0"))
    images = torch.randn(1, 3, size, size)
    with torch.inference_mode():
        wanted = theirs.forward_head(theirs.forward_features(images), pre_logits=True)
    found = features("efficientnet_lite0_finetune", theirs.state_dict(), images)
    torch.testing.assert_close(found, wanted)


def test_any_network_of_timm_gives_its_own_features():
    theirs = timm.create_model("test_vit", num_classes=0).eval()
    model = zoo.create("timm_frozen", backbone="test_vit", image_size=160).eval()
    model.backbone.load_state_dict(theirs.state_dict())
    images = torch.randn(1, 3, 160, 160)
    with torch.inference_mode():
        torch.testing.assert_close(model.features(images), theirs(images))
    assert model.name == f"timm {timm.__version__} test_vit"
    with pytest.raises(zoo.ZooError, match="has no network 'resnet19'; did you mean resnet18"):
        zoo.create("timm_frozen", backbone="resnet19")


# ---------------------------------------------------------------- the real weights


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory):
    """EfficientNet-Lite0 as it was published, classifier included."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
        tensors = efficientnet_lite0.imagenet_tensors({"backbone_weights": ""}, say)
    model = zoo.create("efficientnet_lite0_finetune", num_classes=1000).eval()
    state = {f"backbone.{k}": torch.from_numpy(v) for k, v in tensors.items() if k[0] != "_"}
    state["head.1.weight"] = torch.from_numpy(tensors["_fc.weight"])
    state["head.1.bias"] = torch.from_numpy(tensors["_fc.bias"])
    model.load_state_dict(state)
    return model


@pytest.mark.parametrize(
    "image, right",
    [("chelsea", {281, 282, 285}), ("coffee", {504, 967, 968})],
    ids=["a cat is a tabby, a tiger cat or an Egyptian cat", "coffee is an espresso, cup or mug"],
)
def test_the_real_weights_know_well_known_pictures(imagenet, image, right):
    """Weights, names and preprocessing are right: each of them wrong would show here."""
    from skimage import data

    preprocess = zoo.Preprocess(**TENSORFLOW, stored_size=224)
    images = preprocess.batch([getattr(data, image)()])
    with torch.inference_mode():
        scores = imagenet(images).softmax(1)[0]
    best = scores.topk(3).indices.tolist()
    assert best[0] in right
    assert float(scores[list(right)].sum()) > 0.75


def test_the_real_weights_are_those_of_the_package_under_other_names(imagenet):
    """In the package's order they are timm's, in timm's order."""
    spec = importlib.util.find_spec(efficientnet_lite0.IMAGENET.package)
    path = f"{spec.submodule_search_locations[0]}/{efficientnet_lite0.IMAGENET.inside}"
    published = torch.load(path, weights_only=True)
    names = timm.create_model("tf_efficientnet_lite0").state_dict()
    for theirs, name in zip(published, names, strict=True):
        ours = name.replace("classifier", "head.1") if "classifier" in name else f"backbone.{name}"
        assert torch.equal(imagenet.state_dict()[ours], published[theirs]), name


def test_vit_b16_has_torchvisions_pin():
    url = torchvision.models.ViT_B_16_Weights.IMAGENET1K_V1.url
    assert url == vit_b16.IMAGENET.url
    assert url.endswith(f"-{vit_b16.IMAGENET.sha256}.pth")


def test_the_preprocessing_is_that_of_the_weights():
    config = timm.get_pretrained_cfg("tf_efficientnet_lite0")
    recipe = zoo.info("efficientnet_lite0_finetune").recipes["default"].preprocess
    assert (recipe["mean"], recipe["std"]) == (config.mean, config.std)
    assert recipe["size"] == config.input_size[1]
    theirs = torchvision.models.ViT_B_16_Weights.IMAGENET1K_V1.transforms()
    recipe = zoo.info("vit_b16_finetune").recipes["paper"].preprocess
    assert (list(recipe["mean"]), list(recipe["std"])) == (theirs.mean, theirs.std)
    np.testing.assert_equal(recipe["size"], theirs.crop_size[0])
