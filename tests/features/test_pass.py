"""The pass over the images: what makes it run again, what does not, and what a kill costs."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from features.parts import CHANNELS, settings, write_weights
from fixtures import kills
from zoo_frozen.torch.extract import Extractor, batch_for, fold_batch_norms, lower_weights

import zoo
from zoo_core.data.datasets import open_dataset
from zoo_core.data.features import kept_features
from zoo_core.io.blocks import BLOCK, Writer
from zoo_core.spec.registry import registry
from zoo_core.spec.settings import choose_recipe, override
from zoo_core.train.builder import build_job
from zoo_core.train.display import Display

HERE = Path(__file__).parent


@pytest.fixture
def features(weights, monkeypatch):
    """Compute the features that a training with these settings needs; how many images it took."""
    seen = []
    whole = Extractor.__call__

    def counted(self, images):
        for part in whole(self, images):
            seen.append(len(part))
            yield part

    monkeypatch.setattr(Extractor, "__call__", counted)

    def compute(path=weights, dataset=None, **changes):
        seen.clear()
        entry = registry().models.get("resnet18_features")
        small = {"data": {"train_size": 40, "test_size": 20}}
        recipe = override(choose_recipe(entry, "default"), settings(path, **{**small, **changes}))
        data = dataset or open_dataset("synthetic", **recipe.data)
        job = build_job(entry, recipe, data, Display(quiet=True), device="cpu")
        return job.trainer.features(job), sum(seen)

    return compute


def test_a_row_is_what_the_backbone_says_of_the_picture(features, weights):
    found, computed = features(task={"dtype": "float32"})
    assert computed == 60
    model = zoo.create("resnet18_features", channels=CHANNELS)
    import safetensors.torch

    model.backbone.load_state_dict(safetensors.torch.load_file(weights))
    data = open_dataset("synthetic", train_size=40, test_size=20)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    pixels = torch.from_numpy(data.train.images) / 255
    with torch.inference_mode():
        wanted = model.eval().features(((pixels - mean) / std).permute(0, 3, 1, 2))
    (train,) = found["train"]
    assert train.array.shape == (40, 16)
    np.testing.assert_allclose(train.array, wanted, rtol=1e-3, atol=1e-4)
    assert np.array_equal(train.labels, data.train.labels)


def test_pictures_are_resized_as_torchvision_does(features, weights):
    from torchvision.transforms import v2

    found, _ = features(task={"dtype": "float32"}, preprocess={"size": 48})
    data = open_dataset("synthetic", train_size=40, test_size=20)
    pixels = torch.from_numpy(data.train.images).permute(0, 3, 1, 2) / 255
    sized = v2.functional.resize(pixels, [48, 48], antialias=True)
    images = v2.functional.normalize(sized, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    model = zoo.create("resnet18_features", channels=CHANNELS)
    import safetensors.torch

    model.backbone.load_state_dict(safetensors.torch.load_file(weights))
    with torch.inference_mode():
        wanted = model.eval().features(images)
    np.testing.assert_allclose(found["train"][0].array, wanted, rtol=1e-3, atol=1e-4)


def test_the_second_time_nothing_is_computed(features):
    features()
    assert features()[1] == 0
    assert features(lr=0.1, epochs=7, seed=3, model={"head": "mlp"})[1] == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"preprocess": {"size": 40}},
        {"preprocess": {"mean": (0.1, 0.2, 0.3)}},
        {"preprocess": {"std": (0.1, 0.2, 0.3)}},
        {"preprocess": {"interpolation": "bicubic", "size": 48}},
        {"preprocess": {"resize": 48}},
        {"task": {"dtype": "float32"}},
        {"data": {"train_size": 41, "test_size": 20}},
        {"data": {"seed": 1, "train_size": 40, "test_size": 20}},
    ],
    ids=str,
)
def test_another_setting_that_matters_is_another_pass(features, changes):
    features()
    assert features(**changes)[1] >= 60


def test_other_weights_are_another_pass(features, tmp_path):
    features()
    other = write_weights(tmp_path / "other.safetensors", seed=2)
    assert features(other)[1] == 60


def test_the_same_weights_from_another_file_are_not(features, weights, tmp_path):
    features()
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(weights.read_bytes())
    assert features(copy)[1] == 0


@pytest.mark.parametrize("changed", ["name", "layer", "pooling", "structure"])
def test_another_network_layer_or_pooling_is_another_pass(features, monkeypatch, changed):
    """As a new version of a plugin would say it, with the same weights."""
    from zoo_frozen import resnet18

    features()
    make = resnet18.features

    def changed_model(**options):
        model = make(**options)
        if changed == "structure":
            model.backbone.relu = torch.nn.GELU()
        else:
            setattr(model, changed, "other")
        return model

    monkeypatch.setattr(resnet18, "features", changed_model)
    assert features()[1] == 60


def test_another_split_of_the_same_pictures_is_another_pass(features):
    data = open_dataset("synthetic", train_size=20, test_size=20)
    features(dataset=replace(data, test=data.train))
    assert {file.progress().key["split"] for file in kept_features()} == {"train", "test"}


def test_a_flipped_view_is_one_more_pass_over_the_training_split(features):
    plain, _ = features()
    found, computed = features(augment=("flip",))
    assert computed == 40 and len(found["train"]) == 2 and len(found["test"]) == 1
    mirrored = open_dataset("synthetic", train_size=40, test_size=20)
    images = mirrored.train.images[:, :, ::-1].copy()
    data = replace(mirrored, train=replace(mirrored.train, images=images), digest="mirrored")
    again, _ = features(dataset=data)
    np.testing.assert_allclose(
        found["train"][1].array, again["train"][0].array, rtol=1e-2, atol=1e-3
    )
    assert not np.allclose(found["train"][1].array, plain["train"][0].array, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("how", ["batch", "threads"])
def test_how_it_is_computed_does_not_matter(features, how):
    first, _ = features()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2 if how == "threads" else before)
        found, computed = features(task={"batch": 7} if how == "batch" else {})
    finally:
        torch.set_num_threads(before)
    assert computed == 0 and found["train"][0].path == first["train"][0].path


def test_a_resume_takes_the_batch_that_the_pass_was_begun_with(features, monkeypatch):
    """Otherwise the last bits of the rows would depend on where it was killed."""
    commit = Writer.commit_behind

    def interrupted(self, block, *rest):
        if block == 1:
            raise KeyboardInterrupt
        commit(self, block, *rest)

    data = {"train_size": 300, "test_size": 20}
    monkeypatch.setattr(Writer, "commit_behind", interrupted)
    with pytest.raises(KeyboardInterrupt):
        features(task={"batch": 9}, data=data)
    monkeypatch.setattr(Writer, "commit_behind", commit)
    found, computed = features(task={"batch": 11}, data=data)
    assert computed == 44 + 20  # the first block was kept
    assert found["train"][0].progress.about["made_with"]["batch"] == 9


def test_a_pass_that_was_stopped_in_its_first_block_is_a_beginning_and_no_damage(
    features, monkeypatch
):
    def interrupted(self, *rest):
        raise KeyboardInterrupt

    monkeypatch.setattr(Writer, "commit_behind", interrupted)
    with pytest.raises(KeyboardInterrupt):
        features()
    (begun,) = kept_features()
    assert begun.verify() == "0 of 40 rows" and begun.progress().about["dataset"] == "synthetic"


def test_numbers_that_float16_cannot_hold_are_not_kept(features, tmp_path):
    import safetensors.numpy

    path = write_weights(tmp_path / "large.safetensors", seed=3)
    state = safetensors.numpy.load_file(path)
    state["layer4.1.bn2.weight"] *= 1e6
    safetensors.numpy.save_file(state, path)
    with pytest.raises(zoo.ZooError, match="float16 cannot hold") as caught:
        features(path)
    assert caught.value.hint == "--set task.dtype=float32"
    assert features(path, task={"dtype": "float32"})[1] == 60


# ---------------------------------------------------------------- killed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks")
@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_again_and_again_it_ends_with_the_same_bytes(weights, tmp_path, count):
    images = BLOCK * (count + 1)
    done = kills.drive(HERE / "kill_driver.py", tmp_path, weights, count, 0, images)
    assert done["killed"] == done["whole"] and len(done["whole"]) == 2
    assert len(done["children"]) == count + 1
    for child in done["children"]:
        assert not set(child["computed"]) & set(child["before"])


# ---------------------------------------------------------------- how quick


def test_batch_norms_are_folded_where_that_changes_nothing(weights):
    import safetensors.torch

    model = zoo.create("resnet18_features", channels=CHANNELS).eval()
    model.backbone.load_state_dict(safetensors.torch.load_file(weights))
    probe = torch.randn(2, 3, 32, 32)
    folded = fold_batch_norms(model.backbone, probe)
    norms = [layer for layer in folded.modules() if isinstance(layer, torch.nn.BatchNorm2d)]
    assert folded is not model.backbone and not norms
    with torch.inference_mode():
        torch.testing.assert_close(folded(probe), model.backbone(probe), rtol=1e-4, atol=1e-4)


def test_a_network_that_is_written_in_another_order_stays_as_it_is():
    class Odd(torch.nn.Module):
        """The norm comes first, and only stands behind the convolution."""

        def __init__(self):
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 3, 1), torch.nn.BatchNorm2d(3)
            self.norm.running_mean += 2

        def forward(self, images):
            return self.conv(self.norm(images)).mean((2, 3))

    odd = Odd().eval()
    assert fold_batch_norms(odd, torch.randn(2, 3, 8, 8)) is odd


def test_weights_are_made_narrow_once_where_no_bit_changes():
    """Autocast would do so for every batch. A network that uses a weight by itself keeps it."""

    class Own(torch.nn.Sequential):
        def forward(self, images):
            return super().forward(images) * self[0].weight.sum()

    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()]
    plain, own = torch.nn.Sequential(*layers, torch.nn.Linear(8, 4)), Own(*layers)
    images = torch.randn(2, 3, 8, 8)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        lowered = lower_weights(plain, torch.bfloat16, images)
        assert torch.equal(lowered(images), plain(images))
        assert lower_weights(own, torch.bfloat16, images) is own
    dtypes = [{p.dtype for p in network.parameters()} for network in (plain, lowered)]
    assert dtypes == [{torch.float32}, {torch.bfloat16}]


def test_the_batch_is_chosen_by_a_rule():
    cpu = torch.device("cpu")
    assert batch_for(cpu, 224) == 8 and batch_for(cpu, 32) == 256 and batch_for(cpu, 2048) == 1
    assert BLOCK % batch_for(cpu, 224) == 0
