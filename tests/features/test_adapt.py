"""Weights of a backbone for images of another size, or with other channels than three."""

import json

import numpy as np
import pytest
import safetensors.numpy
import torch
from features.parts import write_weights
from zoo_frozen.torch.backbones import adapted

import zoo
from zoo_core.train import runner as training

VIT = {"patch_size": 8, "width": 16, "depth": 1, "heads": 2, "mlp": 16}


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("tokens", [0, 1, 5])
@pytest.mark.parametrize("before, after", [(14, 24), (14, 7), (3, 4)])
def test_positions_are_resampled_as_timm_does(tokens, before, after):
    timm = pytest.importorskip("timm.layers")
    given = drawn(1, tokens + before**2, 12)
    found = adapted(given, (1, tokens + after**2, 12))
    theirs = timm.resample_abs_pos_embed(
        torch.from_numpy(given), [after, after], num_prefix_tokens=tokens
    )
    np.testing.assert_allclose(found, theirs.numpy(), atol=1e-5)
    assert found.dtype == np.float32 and (found[:, :tokens] == given[:, :tokens]).all()


@pytest.mark.parametrize("channels", [1, 2, 4, 6])
def test_a_stem_takes_other_channels_as_timm_does(channels):
    manipulate = pytest.importorskip("timm.models._manipulate")
    given = drawn(8, 3, 5, 5)
    found = adapted(given, (8, channels, 5, 5))
    theirs = manipulate.adapt_input_conv(channels, torch.from_numpy(given))
    np.testing.assert_allclose(found, theirs.numpy(), atol=1e-6)


@pytest.mark.parametrize(
    "before, after",
    [
        ((1, 197, 12), (1, 197, 16)),  # another width
        ((1, 197, 12), (1, 200, 12)),  # no square
        ((1, 2, 12), (1, 3, 12)),
        ((1, 17, 12), (17, 12)),
        ((8, 4, 3, 3), (8, 1, 3, 3)),  # not the first convolution
        ((8, 3, 3, 3), (8, 1, 5, 5)),
        ((8, 3), (8, 1)),
    ],
)
def test_other_shapes_are_not_adapted(before, after):
    assert adapted(drawn(*before), after) is None


def test_a_model_on_grey_images_says_what_its_own_says_of_their_three_equal_channels(tmp_path):
    path = write_weights(tmp_path / "b.safetensors", seed=2)
    rows = {}
    for channels in (1, 3):
        result = training.train(
            "resnet18_features", "synthetic", quiet=True, runs=tmp_path / "runs",
            settings={"epochs": 1, "data": {"train_size": 40, "test_size": 10},
                      "preprocess": {"size": 32, "channels": channels, "mean": (0.5,) * channels,
                                     "std": (0.25,) * channels},
                      "model": {"channels": (4, 8, 12, 16), "backbone_weights": str(path)}},
        )  # fmt: skip
        model = zoo.load(result.path)
        images = torch.from_numpy(drawn(2, 1, 32, 32)).repeat(1, channels, 1, 1)
        rows[channels] = model.features(images)
    torch.testing.assert_close(rows[1], rows[3])


def test_a_transformer_is_trained_and_loaded_at_another_size_than_its_weights(tmp_path, capsys):
    torch.manual_seed(0)
    backbone = zoo.create("vit_b16_finetune", image_size=32, **VIT).backbone
    state = {name: tensor.detach().numpy() for name, tensor in backbone.state_dict().items()}
    path = tmp_path / "vit.safetensors"
    safetensors.numpy.save_file(state, path)
    result = training.train(
        "vit_b16_finetune", "synthetic", runs=tmp_path / "runs",
        settings={"epochs": 1, "data": {"train_size": 40, "test_size": 10},
                  "preprocess": {"size": 48}, "model": {**VIT, "backbone_weights": str(path)}},
    )  # fmt: skip
    said = capsys.readouterr().err
    assert "encoder.pos_embedding is adapted from the shape [1, 17, 16] to [1, 37, 16]." in said
    path.unlink()
    model = zoo.load(result.path)
    wanted = adapted(state["encoder.pos_embedding"], (1, 37, 16))
    np.testing.assert_array_equal(model.backbone.encoder.pos_embedding.numpy(), wanted)
    config = json.loads((result.path / "run.json").read_text())["model"]["config"]
    assert config["image_size"] == 48 and config["backbone_weights"].startswith("sha256:")
