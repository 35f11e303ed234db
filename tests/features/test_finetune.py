"""Fine-tuning of frozen models: what learns, what is kept, and the same bytes after a kill."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from features.parts import settings
from fixtures import kills
from zoo_frozen.torch import backbones, finetune

import zoo
from zoo.testing import main
from zoo_core.data.datasets import open_dataset
from zoo_core.publish.publish import plan, publish
from zoo_core.runs.run import Run
from zoo_core.torch.learner import TorchLearner
from zoo_core.train import runner as training
from zoo_core.train.checkpoint import Checkpoints

GAINS = {"lr": 0.01, "epochs": 2, "batch_size": 32, "validation_fraction": 0.0}


def tensors(result) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(result.path / "model.safetensors")


def start(weights: Path) -> dict[str, np.ndarray]:
    found = safetensors.numpy.load_file(weights)
    return {f"backbone.{name}": array for name, array in found.items()}


def changed(result, weights) -> set[str]:
    """The tensors of the backbone that are no longer those of its file."""
    found = tensors(result)
    return {n for n, a in start(weights).items() if n[9:12] != "fc." and (found[n] != a).any()}


def pictures(count: int = 8) -> list[np.ndarray]:
    return list(open_dataset("synthetic", train_size=200, test_size=50).test.images[:count])


# ---------------------------------------------------------------- what learns


@pytest.mark.parametrize(
    "way, learns",
    [
        ("last:1", ("backbone.layer4.1",)),
        ("last:3", ("backbone.layer4", "backbone.layer3.1")),
        ("all", ("backbone.",)),
    ],
)
def test_only_the_layers_that_were_asked_for_change(train, weights, way, learns):
    result = train(**GAINS, task={"finetune": way})
    document = result.run.read()
    found = changed(result, weights)
    moved = {n for n in start(weights) if n.startswith(learns) and "running" not in n}
    assert found == {n for n in moved if "num_batches" not in n and ".fc." not in n}
    learned = sum(tensors(result)[name].size for name in found) + 170
    assert document["parameters"]["trainable"] == learned
    assert document["result"]["finetune"]["kept"] == "finetuned"
    assert document["recipe_name"] == "finetune" and document["recipe"]["decay"] == "matrices"


def test_lora_changes_matrices_alone_and_by_its_rank(train, weights):
    result = train(**GAINS, task={"finetune": "lora:2"})
    found, before = tensors(result), start(weights)
    names = changed(result, weights)
    assert names and all(before[name].ndim == 4 for name in names)
    for name in names:
        change = (found[name] - before[name]).reshape(len(before[name]), -1).astype(np.float64)
        sizes = np.linalg.svd(change, compute_uv=False)
        assert sizes[1] > 1e-5 and sizes[2] < 1e-5 * max(1, sizes[0]), name
    learned = sum(2 * (len(a) + a[0].size) for a in (before[name] for name in names))
    assert result.run.read()["parameters"]["trainable"] == learned + 170
    assert result.run.read()["parameters"]["total"] == 17_462  # of the plain model


def test_batch_statistics_learn_only_where_they_are_asked_to(train, weights):
    result = train(**GAINS, task={"finetune": "last:1", "batch_stats": "trained"})
    moved = {name for name in changed(result, weights) if "running" in name}
    assert moved == {
        f"backbone.layer4.1.bn{i}.running_{s}" for i in (1, 2) for s in ("mean", "var")
    }


def test_layers_near_the_images_learn_more_slowly(train, weights):
    """One step of SGD moves each layer by its factor exactly."""
    how = {**GAINS, "optimizer": "sgd", "weight_decay": 0.0, "epochs": 1, "batch_size": 200}
    how |= {"schedule": "constant", "lr": 0.1}
    slow = train(**how, task={"finetune": "all", "layer_decay": 0.5})
    even = train(**how, task={"finetune": "all"})

    def moved(result, name):
        return float(np.abs(tensors(result)[name] - start(weights)[name]).max())

    for name, steps in {"layer4.1.conv2": 1, "layer4.0.conv1": 2, "conv1": 9}.items():
        name = f"backbone.{name}.weight"
        assert moved(slow, name) == pytest.approx(0.5**steps * moved(even, name), rel=1e-2)


def test_head_is_the_default_and_changes_nothing(train):
    plain, said = train(), train(task={"finetune": "head"})
    assert tensors(said).keys() == {"head.1.weight", "head.1.bias"}
    assert said.run.model_file.read_bytes() == plain.run.model_file.read_bytes()
    assert said.run.read()["recipe_name"] == "default"
    assert "finetune" not in said.run.read()["result"]


def test_the_weights_that_a_process_keeps_stay_as_they_are(train):
    first = train(**GAINS, task={"finetune": "all"})
    for kept in backbones._at_hand.values():
        assert backbones.digest_of_tensors(kept.tensors) == kept.digest
    again = train(**GAINS, task={"finetune": "all"})
    assert again.run.model_file.read_bytes() == first.run.model_file.read_bytes()


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"task": {"finetune": "last"}}, "task.finetune cannot be 'last'"),
        ({"task": {"finetune": "last:0"}}, "task.finetune cannot be 'last:0'"),
        ({"task": {"finetune": "lora:99999"}}, "the rank of lora is at most 1024"),
        ({"task": {"finetune": "all:3"}}, "task.finetune cannot be 'all:3'"),
        ({"task": {"finetune": "last:10"}}, "more than the 9 layers of this backbone"),
        ({"task": {"finetune": "all", "layer_decay": 0}}, "task.layer_decay must be"),
        ({"task": {"finetune": "all", "batch_stats": "x"}}, "task.batch_stats cannot be 'x'"),
        ({"task": {"loss": "cubic"}, "data": {"labels": "numbers"}}, "task.loss is mse or huber"),
        ({"task": {"layer_decay": 0.5}}, "task.layer_decay is for fine-tuning"),
        ({"task": {"finetune": "all"}, "optimizer": "lbfgs"}, "has no lbfgs for fine-tuning"),
        ({"task": {"finetune": "all"}, "init": "latest"}, "takes none from init"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_said_before_there_is_a_run(train, tmp_path, changes, words):
    with pytest.raises(zoo.ZooError, match=words):
        train(**changes)
    assert not (tmp_path / "runs").exists()


# ---------------------------------------------------------------- what is kept


@pytest.mark.parametrize("labels, lr", [("class", 1e-12), ("classes", 0.1)])
def test_a_probe_that_fine_tuning_does_not_beat_is_kept_with_a_remark(train, labels, lr):
    data, task = {"labels": labels}, {"finetune": "all"}
    result = train(lr=lr, epochs=1, validation_fraction=0.2, task=task, data=data)
    document = result.run.read()
    facts = document["result"]["finetune"]
    assert facts["kept"] == "probe" and facts["images"] == 40
    assert facts["gain"] == 0 if labels == "class" else facts["gain"] < 0
    assert facts["interval"][0] < 0
    assert tensors(result).keys() == {"head.1.weight", "head.1.bias"}
    assert "config" not in document["result"] and document["result"]["best_epoch"] == 0
    assert "the head on the frozen backbone is kept" in document["result"]["remarks"][0]
    # It is the head that the recipe few_images finds, and its figures are those of the result. It
    # learns from all images, unless those for validation decide more: thresholds of classes.
    apart = 0.2 if labels == "classes" else 0.0
    probe = training.train(
        "resnet18_features", "synthetic", recipe="few_images", quiet=True,
        settings=document["recipe"] | {"task": {}, "augment": (), "decay": "all", "clip_grad": 0.0,
        "optimizer": "lbfgs", "weight_decay": 0.003, "epochs": 4, "schedule": "constant",
        "validation_fraction": apart, "model": document["model"]["config"]},
        runs=result.path.parent,
    )  # fmt: skip
    assert result.run.model_file.read_bytes() == probe.run.model_file.read_bytes()
    assert result.metrics["loss"] == probe.metrics["loss"]
    assert "test_loss" not in result.run.metrics()[-1]  # that epoch's weights were not kept


def test_an_interval_holds_the_gain_as_often_as_it_says():
    """Two models, paired on 60 images, again and again; the true gain is 5 points."""
    random, task = np.random.default_rng(0), finetune_task()
    held = 0
    for _ in range(400):
        cell = random.choice(4, 60, p=[0.7, 0.15, 0.1, 0.05])  # both right, after, before, neither
        labels = np.zeros(60, np.int64)
        before, after = (np.isin(cell, right) for right in ((0, 2), (0, 1)))
        scores = [np.stack([one, ~one], 1).astype(np.float32) for one in (before, after)]
        gain = finetune.compare(task, *scores, labels)
        assert np.isclose(gain.gain, after.mean() - before.mean())
        held += gain.interval[0] <= 0.05 <= gain.interval[1]
    assert 370 <= held <= 395


def finetune_task():
    from zoo_core.torch.task import Classification

    return Classification(torch.nn.Identity(), zoo.Recipe(), zoo.Targets("class", ("a", "b")))


def test_the_fine_tuned_model_is_whole_and_used_like_any_other(train, tmp_path):
    result = train(**GAINS, task={"finetune": "all"})
    before = zoo.predict(result.path, pictures())
    assert zoo.evaluate(result.path)["accuracy"] == result.accuracy
    backbones._at_hand.clear()
    (tmp_path / "cache").rename(tmp_path / "gone")  # it needs no other file
    assert zoo.predict(result.path, pictures()) == before
    done = publish(plan(Run(result.path), f"file:{tmp_path / 'shared'}"))
    assert done.weights.config["backbone_weights"] == ""
    assert zoo.predict(done.weights.sources[0], pictures()) == before
    with pytest.raises(SystemExit, match="0"):
        main(["export", str(result.path), "-o", str(tmp_path / "model.pt2")])
    assert (tmp_path / "model.pt2").exists()
    # The same run once more starts from the backbone that this one started from.
    config = result.run.read()["model"]["config"]
    assert config["backbone_weights"].startswith("sha256:")


def test_features_of_a_fine_tuned_backbone_are_not_kept(train, tmp_path):
    result = train(**GAINS, task={"finetune": "all"})
    zoo.evaluate(result.path)
    kept = list((tmp_path / "cache" / "features").glob("*.safetensors"))
    assert len(kept) == 1  # those of the training images, for the head


def test_a_search_varies_the_rate_of_the_fine_tuning(weights, tmp_path):
    found = zoo.tune(
        "resnet18_features", "synthetic", trials=2, quiet=True, runs=tmp_path / "runs",
        settings=settings(weights, epochs=1, task={"finetune": "last:1"}), train=True,
    )  # fmt: skip
    assert found.search.plan().recipe_name == "finetune"
    assert set(found.best.parameters) == {"lr"}
    assert found.trained.run.read()["result"]["finetune"]["way"] == "last:1"


# ---------------------------------------------------------------- kills


@pytest.mark.parametrize("stage", ["head", "images"])
@pytest.mark.parametrize("way", ["last:2", "lora:2"])
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(train, monkeypatch, way, stage):
    how = {"finetune": way, "batch_stats": "trained", "layer_decay": 0.9}
    how = {**GAINS, "epochs": 2, "augment": ("flip", "crop:4"), "ema": 0.9, "task": how}
    whole = train(**how)
    step, learner = TorchLearner.step, {"head": TorchLearner, "images": finetune.Finetuner}[stage]

    def stopped(self, batch, place):
        if place.step == 2 and type(self) is learner:
            raise KeyboardInterrupt
        step(self, batch, place)

    monkeypatch.setattr(TorchLearner, "step", stopped)
    with pytest.raises(zoo.Interrupted) as caught:
        train(**how)
    assert "zoo train --resume" in caught.value.hint
    monkeypatch.setattr(TorchLearner, "step", step)
    (half,) = (path for path in whole.path.parent.iterdir() if path != whole.path)
    resumed = training.resume(str(half), quiet=True)
    assert resumed.run.model_file.read_bytes() == whole.run.model_file.read_bytes()


def test_a_checkpoint_holds_what_learns_and_no_more(train, monkeypatch):
    saved = []
    save = Checkpoints.save
    monkeypatch.setattr(
        Checkpoints,
        "save",
        lambda self, step, state: (saved.append(state), save(self, step, state)),
    )
    train(**GAINS, task={"finetune": "last:1"})
    names = {name for name in saved[-1].tensors if name.startswith("model.")}
    assert names and all(
        name.startswith(("model.head.", "model.backbone.layer4.1.")) for name in names
    )
    assert not any("running" in name for name in names)


@pytest.mark.parametrize("count", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_again_and_again_it_ends_with_the_same_bytes(weights, tmp_path, count):
    driver = Path(__file__).parent.parent / "train" / "kill_driver.py"
    small = settings(
        weights, epochs=2, task={"finetune": "last:2"}, lr=0.01, ema=0.0, mixup=0.0,
        patience=0, restore_best=False, momentum=0.9, augment=("flip", "crop:4"),
    )  # fmt: skip
    found = kills.drive(
        driver, tmp_path, count, 3, "resnet18_features", 0, json.dumps(small),
        ZOO_CACHE=str(tmp_path / "cache"),
    )  # fmt: skip
    assert found["whole"] == found["killed"]


# ---------------------------------------------------------------- layers of real backbones


def layers(backbone) -> list[tuple[str, str]]:
    """Of each layer, the names of its first and its last parameter."""
    names = {p: name for name, p in backbone.named_parameters()}
    found = finetune.layers_of(backbone)
    assert sorted(names[p] for layer in found for p in layer) == sorted(names.values())
    return [(names[layer[0]], names[layer[-1]]) for layer in found]


@pytest.mark.parametrize(
    "name, count, first, second, last",
    [
        ("vit_b16_finetune", 13, ("conv_proj.weight", "encoder.pos_embedding"),
         "encoder.layers.encoder_layer_0.",
         ("encoder.layers.encoder_layer_11.", "encoder.ln.bias")),
        ("resnet18_features", 9, ("conv1.weight", "bn1.bias"), "layer1.0.",
         ("layer4.1.", "layer4.1.bn2.bias")),
        ("efficientnet_lite0_finetune", 18, ("conv_stem.weight", "bn1.bias"), "blocks.0.0.",
         ("conv_head.weight", "bn2.bias")),
        ("mobilenetv2_100", 19, ("conv_stem.weight", "bn1.bias"), "blocks.0.0.",
         ("conv_head.weight", "bn2.bias")),
        ("vit_small_patch14_reg4_dinov2", 13, ("patch_embed.proj.weight", "pos_embed"), "blocks.0.",
         ("blocks.11.", "norm.bias")),
        ("convnext_atto", 5, ("stem.0.weight", "stem.1.bias"), "stages.0.",
         ("stages.3.", "head.norm.bias")),
    ],
)  # fmt: skip
def test_the_layers_of_a_backbone_are_its_blocks_and_what_is_around_them(
    name, count, first, second, last
):
    with torch.device("meta"):
        if "_f" in name:
            backbone = zoo.create(name).backbone
        else:
            backbone = pytest.importorskip("timm").create_model(name, num_classes=0)
    found = layers(backbone)
    assert len(found) == count and found[0] == first
    assert all(end.startswith(second) for end in found[1])
    assert found[-1][0].startswith(last[0]) and found[-1][1] == last[1]


@pytest.mark.parametrize("way", ["last:1", "lora:2"])
def test_attention_learns_too(way):
    """PyTorch's MultiheadAttention keeps three matrices as one, which is no layer of its own."""
    how = {"image_size": 32, "patch_size": 8, "width": 32, "depth": 2, "heads": 2, "mlp": 64}
    model = zoo.create("vit_b16_finetune", **how).eval()
    images = torch.randn(2, 3, 32, 32)
    before = model(images)
    finetune.unfreeze(model, finetune.asked_for(zoo.Recipe(task={"finetune": way})))
    torch.testing.assert_close(model(images), before)  # nothing has learned yet
    model.train()(images).square().mean().backward()
    names = {name for name, p in model.named_parameters() if p.requires_grad}
    assert any("encoder_layer_1.self_attention" in name and "in_proj" in name for name in names)
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.add_(0.01)
    after = model.eval()(images)
    finetune.merge(model)
    torch.testing.assert_close(model(images), after)
    assert model.state_dict().keys() == zoo.create("vit_b16_finetune", **how).state_dict().keys()


@pytest.mark.parametrize("way", ["head", "last:2"])
@pytest.mark.parametrize("labels", ["classes", "numbers"])
def test_several_classes_and_numbers_are_learned(train, labels, way):
    how = {"lr": 0.01, "validation_fraction": 0.2, "optimizer": "adamw"}
    result = train(**how, data={"labels": labels}, task={"finetune": way})
    document = result.run.read()
    assert document["model"]["task"] == {"classes": "multilabel", "numbers": "regression"}[labels]
    again = zoo.evaluate(result.path)
    assert again["loss"] == pytest.approx(result.metrics["loss"], rel=1e-4)
    if way != "head":
        facts = document["result"]["finetune"]
        assert facts["figure"] == "loss" and facts["images"] == 40
        assert facts["gain"] == pytest.approx(facts["probe"] - facts["finetuned"])
        assert facts["interval"][0] < facts["gain"] < facts["interval"][1]
        low, high = facts["interval"]
        convinces = facts["gain"] > (high - low) / 3.92  # one standard error
        assert facts["kept"] == ("finetuned" if convinces else "probe")
