"""The backbones are those that their weights were trained in."""

from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import timm
import torch
import torchvision
from zoo_frozen import dinov2, efficientnet_lite0, mobilenet_v2, vit_b16
from zoo_frozen.plugin import IMAGENET

import zoo
from zoo import kit


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
def test_mobilenet_v2_is_torchvisions(size):
    theirs = shaken(torchvision.models.mobilenet_v2())
    state = theirs.state_dict()
    theirs.classifier = torch.nn.Identity()
    images = torch.randn(1, 3, size, size)
    with torch.inference_mode():
        wanted = theirs(images)
    found = features("mobilenet_v2_finetune", state, images)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_dinov2_is_timms():
    """timm reads DINOv2's names with a filter of its own, and adds the class token's position."""
    from timm.models.vision_transformer import checkpoint_filter_fn

    small = {"width": 48, "depth": 2, "heads": 3}
    model = zoo.create("dinov2_vits14_finetune", image_size=56, **small)
    ours = shaken(model.backbone)
    theirs = timm.create_model(
        "vit_small_patch14_reg4_dinov2", img_size=56, num_classes=0, embed_dim=48, depth=2,
        num_heads=3,
    ).eval()  # fmt: skip
    state = {**ours.state_dict(), "mask_token": torch.zeros(1, 48)}
    theirs.load_state_dict(checkpoint_filter_fn(state, theirs))
    images = torch.randn(2, 3, 56, 56)
    with torch.inference_mode():
        torch.testing.assert_close(model.features(images), theirs(images), rtol=1e-5, atol=1e-5)
    with pytest.raises(zoo.ZooError, match="image_size 225 is not a multiple of 14"):
        zoo.create("dinov2_vits14_finetune", image_size=225)


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


def test_any_network_of_timm_adapts_to_small_grey_images_as_timm_does_and_is_fine_tuned(tmp_path):
    import safetensors.torch

    state = shaken(timm.create_model("test_vit")).state_dict()  # of 160 pixels, in colour
    path = tmp_path / "weights.safetensors"
    safetensors.torch.save_file(state, path)
    theirs = timm.create_model(
        "test_vit", pretrained=True, pretrained_cfg_overlay={"file": str(path)}, num_classes=0,
        img_size=96, in_chans=1,
    ).eval()  # fmt: skip
    grey = {"size": 96, "channels": 1, "mean": (0.5,), "std": (0.5,)}
    images = torch.randn(2, 1, 96, 96, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        wanted = theirs(images)
    for way in ("head", "last:1"):
        run = zoo.train(
            "timm_frozen", "synthetic", runs=tmp_path / "runs", quiet=True, epochs=1, lr=1e-2,
            data={"train_size": 40, "test_size": 10}, preprocess=grey, task={"finetune": way},
            model={"backbone": "test_vit", "backbone_weights": str(path)}, validation_fraction=0.0,
        )  # fmt: skip
        model = zoo.load(run.path)
        with torch.inference_mode():
            apart = (model.features(images) - wanted).abs().max()
        assert (apart < 1e-5) == (way == "head"), way
        ours = model.backbone.state_dict()
        moved = [
            name for name, tensor in theirs.state_dict().items()
            if not torch.allclose(tensor, ours[name], atol=1e-6)
        ]  # fmt: skip
        # Its last block, and the norm behind it.
        assert all(name.startswith(("blocks.5.", "norm.")) for name in moved)
        assert bool(moved) == (way != "head")


# ---------------------------------------------------------------- the real weights


def test_the_weights_are_those_that_the_shipped_head_was_trained_on(tmp_path, monkeypatch):
    """Loading compares the backbone's digest with the one in the head's manifest."""
    from skimage import data

    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    (found,) = zoo.predict("efficientnet_lite0_finetune", [data.chelsea()])
    assert found.classes[0][0] == "cat"
    assert not list(tmp_path.rglob("*.safetensors"))  # read where they are, without a copy


def test_a_damaged_package_is_refused_by_its_digest(tmp_path, monkeypatch):
    module = tmp_path / "damaged_weights"
    module.mkdir()
    (module / "__init__.py").touch()
    (module / efficientnet_lite0.IMAGENET.inside).write_bytes(b"x" * 100)
    monkeypatch.syspath_prepend(tmp_path)
    damaged = replace(efficientnet_lite0.IMAGENET, package="damaged_weights")
    with pytest.raises(zoo.ZooError, match="is not the file that was published: its sha256 is"):
        zoo.pretrained_tensors(damaged)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a real package where Python finds it, without what it asks for."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # from now on there is no network
    monkeypatch.delenv("no_proxy", raising=False)

    def from_registry(source: zoo.Pretrained) -> Path:
        with monkeypatch.context() as patch:
            patch.delenv("https_proxy")
            try:
                wheel = kit.pip_download(source.release, tmp_path)
            except zoo.SourceUnavailable as error:
                pytest.skip(str(error))
        with ZipFile(wheel) as archive:
            archive.extractall(tmp_path / "site")
        monkeypatch.syspath_prepend(tmp_path / "site")
        return tmp_path / "site" / source.package / source.inside

    return from_registry


def trained(name: str, tmp_path) -> torch.nn.Module:
    data = {"train_size": 10, "test_size": 4}
    run = zoo.train(name, "synthetic", settings={"data": data}, runs=tmp_path / "runs", quiet=True)
    return zoo.load(run.path)


@pytest.mark.slow  # a download of 13 MB
def test_torchvisions_own_file_of_mobilenet_v2_gives_torchvisions_features(install, tmp_path):
    from skimage import data

    path = install(mobilenet_v2.IMAGENET)
    theirs = torchvision.models.mobilenet_v2().eval()
    theirs.load_state_dict(torch.load(path, weights_only=True))
    ours = trained("mobilenet_v2_finetune", tmp_path)
    preprocess = zoo.Preprocess(**IMAGENET, stored_size=224)
    images = preprocess.batch([data.chelsea(), data.coffee()])
    with torch.inference_mode():
        found = ours.features(images)
        wanted = theirs.features(images).mean((2, 3))
        scores = theirs.classifier(found).softmax(1)
    assert (found - wanted).abs().max() <= 1e-5
    assert scores[0].argmax().item() in {281, 282, 285}  # tabby, tiger cat, Egyptian cat
    assert scores[1].argmax().item() in {504, 967, 968}  # coffee mug, espresso, cup


@pytest.mark.slow  # a download of 82 MB
def test_the_real_dinov2_gives_timms_features_at_another_resolution(install, tmp_path):
    """The file is for 518 pixels; ours are 224, so that positions are resampled in both."""
    from timm.models.vision_transformer import checkpoint_filter_fn

    path = install(dinov2.MEDICAL)
    theirs = timm.create_model("vit_small_patch14_reg4_dinov2", img_size=224, num_classes=0)
    state = torch.load(path, map_location="cpu", weights_only=True)
    theirs.eval().load_state_dict(checkpoint_filter_fn(state, theirs))
    ours = trained("dinov2_vits14_finetune", tmp_path)
    images = torch.randn(2, 3, 224, 224)
    with torch.inference_mode():
        assert (ours.features(images) - theirs(images)).abs().max() <= 1e-5


@pytest.mark.parametrize(
    "name, source, theirs",
    [
        ("vit_b16_finetune", vit_b16.IMAGENET, "ViT_B_16_Weights"),
        ("mobilenet_v2_finetune", mobilenet_v2.IMAGENET, "MobileNet_V2_Weights"),
    ],
)
def test_pins_and_preprocessing_are_torchvisions(name, source, theirs):
    weights = getattr(torchvision.models, theirs).IMAGENET1K_V1
    assert weights.url == source.url
    assert weights.url.endswith(f"-{source.sha256[:8]}.pth")
    recipe, wanted = zoo.info(name).recipes["default"].preprocess, weights.transforms()
    assert (list(recipe["mean"]), list(recipe["std"])) == (wanted.mean, wanted.std)
    np.testing.assert_equal(recipe["size"], wanted.crop_size[0])


def test_the_preprocessing_of_efficientnet_lite0_is_timms():
    config = timm.get_pretrained_cfg("tf_efficientnet_lite0")
    recipe = zoo.info("efficientnet_lite0_finetune").recipes["default"].preprocess
    assert (recipe["mean"], recipe["std"]) == (config.mean, config.std)
    assert recipe["size"] == config.input_size[1]
