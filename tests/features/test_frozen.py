"""Frozen models: trained on features, used on images."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import torch
from features.parts import CHANNELS, settings, write_weights
from zoo_frozen.torch import backbones
from zoo_frozen.torch.extract import Extractor
from zoo_frozen.torch.frozen import FrozenTrainer

import zoo
from zoo_core.data.datasets import open_dataset
from zoo_core.publish.publish import plan, publish
from zoo_core.runs.run import Run
from zoo_core.spec.registry import registry
from zoo_core.spec.settings import as_typed
from zoo_core.torch.learner import TorchLearner
from zoo_core.train import runner as training
from zoo_core.train.job import trainer_of


@pytest.fixture
def seen(monkeypatch) -> list[int]:
    """How many images the backbone was given."""
    counts: list[int] = []
    whole = Extractor.__call__

    def counted(self, images):
        for part in whole(self, images):
            counts.append(len(part))
            yield part

    monkeypatch.setattr(Extractor, "__call__", counted)
    return counts


def pictures(count: int = 8) -> list[np.ndarray]:
    return list(open_dataset("synthetic", train_size=200, test_size=50).test.images[:count])


def test_info_shows_the_options_of_the_training(zoo_here):
    text, options = zoo_here("info", "vit_b16_finetune").stdout, FrozenTrainer.more_options
    told = registry().trainers.get("frozen").options
    assert {name: words.split(", ")[0] for name, words in told.items()} == {
        name: as_typed(default) for name, default in options.items()
    }
    assert all(f"task.{name}" in text and words in text for name, words in told.items())


def test_it_learns_and_its_file_is_the_head_and_the_digest_of_the_backbone(train):
    result = train(epochs=20, lr=0.01)
    lines = result.run.metrics()
    assert lines[-1]["train_loss"] < lines[9]["train_loss"] < lines[0]["train_loss"]
    tensors = safetensors.numpy.load_file(result.path / "model.safetensors")
    assert {name: array.shape for name, array in tensors.items()} == {
        "head.1.weight": (10, 16),
        "head.1.bias": (10,),
    }
    document = json.loads((result.path / "run.json").read_text())
    assert document["parameters"]["trainable"] == 170
    assert document["parameters"]["total"] > 10_000
    assert document["model"]["config"]["backbone_weights"].startswith("sha256:")


def test_every_picture_is_seen_once_whatever_is_trained(train, seen, tmp_path):
    train()
    assert sum(seen) == 250
    train(lr=0.1, epochs=5, validation_fraction=0.2, patience=1, restore_best=True)
    train(optimizer="lbfgs", epochs=1)
    zoo.evaluate(train(model={"head": "mlp", "hidden": 8, "dropout": 0.2}).path)
    assert sum(seen) == 250


def test_what_it_says_of_pictures_is_what_it_said_of_features(train):
    result = train(task={"dtype": "float32"})
    predictions = safetensors.numpy.load_file(result.path / "predictions.safetensors")
    found = zoo.predict(result.path, pictures(), top=10)
    classes = zoo.load(result.path).zoo.classes
    for prediction, row in zip(found, predictions["probabilities"], strict=False):
        told = [dict(prediction.classes)[name] for name in classes]
        np.testing.assert_allclose(told, row, atol=1e-4)


def test_an_evaluation_of_a_run_gives_its_figures_again(train):
    result = train()
    again = zoo.evaluate(result.path)
    assert again["accuracy"] == result.accuracy and again["loss"] == result.metrics["loss"]
    assert again["inference_ms_per_image"] > 0


def test_an_evaluation_takes_the_digest_that_the_run_names(train, monkeypatch):
    from zoo_frozen.torch import frozen

    result = train()
    monkeypatch.setattr(frozen, "digest_of_tensors", None)  # a backbone is large: not hashed again
    assert zoo.evaluate(result.path)["accuracy"] == result.accuracy


def test_the_whole_model_is_a_torch_module_that_takes_pictures(train):
    result = train()
    model = zoo.load(result.path)
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert [name for name, p in model.named_parameters() if p.requires_grad] == [
        "head.1.weight",
        "head.1.bias",
    ]
    model.train()
    assert not model.backbone.training  # its batch norms do not drift
    other = zoo.load(result.path, num_classes=3)
    assert other(torch.zeros(1, 3, 32, 32)).shape == (1, 3)
    assert torch.equal(other.backbone.conv1.weight, model.backbone.conv1.weight)


def test_a_run_works_when_the_file_of_its_backbone_has_moved(train, tmp_path):
    path = write_weights(tmp_path / "mine.safetensors", seed=5)
    result = train(model={"backbone_weights": str(path)})
    before = zoo.predict(result.path, pictures())
    path.unlink()
    assert zoo.predict(result.path, pictures()) == before


def test_without_its_backbone_a_run_says_which_one_it_needs(train, tmp_path, monkeypatch):
    from zoo_frozen import resnet18
    from zoo_frozen.torch import backbones

    result = train()
    backbones._at_hand.clear()
    shutil.rmtree(tmp_path / "cache" / "weights")
    other = safetensors.numpy.load_file(write_weights(tmp_path / "o.safetensors", seed=9))
    monkeypatch.setattr(resnet18, "imagenet_tensors", lambda config, say: other)
    with pytest.raises(zoo.WeightsError, match="needs a backbone with the digest") as caught:
        zoo.load(result.path)
    assert "--full" in caught.value.hint


def test_a_backbone_in_the_cache_that_was_changed_is_not_used(train, tmp_path, monkeypatch):
    from zoo_frozen import resnet18
    from zoo_frozen.torch import backbones

    result = train()
    backbones._at_hand.clear()
    (kept,) = (tmp_path / "cache" / "weights" / "backbones").iterdir()
    content = bytearray(kept.read_bytes())
    content[-1] ^= 1
    kept.write_bytes(content)

    def nowhere(config, say):
        raise zoo.ZooError("the weights could not be fetched")

    monkeypatch.setattr(resnet18, "imagenet_tensors", nowhere)
    with pytest.raises(zoo.ZooError, match="could not be fetched"):
        zoo.load(result.path)


def test_weights_of_another_network_are_refused_before_there_is_a_run(train, tmp_path):
    path = tmp_path / "other.safetensors"
    safetensors.numpy.save_file({"conv1.weight": np.zeros((2, 3, 7, 7), np.float32)}, path)
    with pytest.raises(zoo.ZooError, match="does not fit this backbone: conv1.weight has the sha"):
        train(model={"backbone_weights": str(path)})
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"augment": ("crop:4",)}, "augments with plain or flip, not with crop:4"),
        ({"mixup": 0.2}, "mixes images, not features"),
        ({"evaluate_subset": 0.5}, "frozen, does not use evaluate_subset"),
        ({"task": {"dtype": "int8"}}, "task.dtype cannot be 'int8'"),
        ({"task": {"batch": -1}}, "task.batch must be"),
        ({"task": {"color": "red"}}, "has no option 'color'"),
        ({"model": {"head": "tree"}}, "head must be linear or mlp, not 'tree'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_said_before_there_is_a_run(train, tmp_path, changes, words):
    with pytest.raises(zoo.ZooError, match=words):
        train(**changes)
    assert not (tmp_path / "runs").exists()


def test_lbfgs_is_for_frozen_models_only(tmp_path):
    for name in ("mlp", "fcn_numpy"):
        with pytest.raises(zoo.ZooError, match="lbfgs"):
            zoo.train(name, "synthetic", optimizer="lbfgs", runs=tmp_path / "runs", quiet=True)


@pytest.mark.parametrize("asked", ["none", "balanced"])
def test_lbfgs_finds_the_head_that_scikit_learn_finds(train, asked):
    from sklearn.linear_model import LogisticRegression

    decay, how = 1e-2, {"class_weights": asked, "task": {"dtype": "float32"}}
    result = train(optimizer="lbfgs", weight_decay=decay, epochs=12, **how)
    ours = safetensors.numpy.load_file(result.path / "model.safetensors")["head.1.weight"]
    (path,) = (result.path.parents[1] / "cache" / "features").glob("*train*.safetensors")
    arrays = safetensors.numpy.load_file(path)
    count = len(arrays["labels"])
    weighted = None if asked == "none" else asked
    how = {"class_weight": weighted, "tol": 1e-8, "max_iter": 5000}
    theirs = LogisticRegression(C=1 / (count * decay), **how).fit(
        arrays["features"].astype(np.float64), arrays["labels"]
    )
    centred = ours - ours.mean(0)  # adding the same to all classes changes nothing
    wanted = theirs.coef_ - theirs.coef_.mean(0)
    np.testing.assert_allclose(centred, wanted, atol=0.02 * np.abs(wanted).max())


@pytest.mark.parametrize("optimizer", ["adamw", "lbfgs"])
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(train, monkeypatch, optimizer):
    settings = {"optimizer": optimizer, "augment": ("flip",), "model": {"dropout": 0.3}}
    settings |= {"class_weights": "balanced", "evaluate_every": 2}
    whole = train(**settings)
    step = TorchLearner.step

    def stopped(self, batch, place):
        if place.step == 2:
            raise KeyboardInterrupt
        step(self, batch, place)

    monkeypatch.setattr(TorchLearner, "step", stopped)
    with pytest.raises(zoo.Interrupted):
        train(**settings)
    monkeypatch.setattr(TorchLearner, "step", step)
    runs = sorted(whole.path.parent.iterdir(), key=lambda path: path.stat().st_mtime)
    resumed = training.resume(str(runs[-1]), quiet=True)
    assert resumed.path != whole.path
    assert (resumed.path / "model.safetensors").read_bytes() == (
        whole.path / "model.safetensors"
    ).read_bytes()


def test_a_search_and_its_training_see_every_picture_once(weights, tmp_path, seen):
    found = zoo.tune(
        "resnet18_features", "synthetic", preset="paper", trials=3, train=True, quiet=True,
        settings=settings(weights, epochs=3, patience=1), runs=tmp_path / "runs",
    )  # fmt: skip
    assert len(found.trials) == 3 and all(trial.status == "complete" for trial in found.trials)
    assert found.trained.accuracy is not None
    assert sum(seen) == 250


def test_what_a_search_needs_is_fetched_once_and_said_before_it_begins(
    weights, tmp_path, capsys, monkeypatch
):
    find, size = backbones._find, "Fetching a backbone of 346 MB"
    monkeypatch.setattr(backbones, "_find", lambda *how: how[3](size) or find(*how))
    monkeypatch.setattr(backbones, "_at_hand", {})
    zoo.tune(
        "resnet18_features", "synthetic", trials=1, runs=tmp_path / "runs",
        settings=settings(weights, epochs=1),
    )  # fmt: skip
    lines = capsys.readouterr().err.splitlines()
    assert lines.count(size) == 1
    assert lines.index(size) < next(i for i, line in enumerate(lines) if "tune-resnet18" in line)


@pytest.mark.parametrize(("space", "chosen"), [((), "few_images"), (["lr=choice:0.1"], "default")])
def test_a_search_on_few_images_starts_from_their_recipe(weights, tmp_path, space, chosen):
    how = {k: v for k, v in settings(weights).items() if k not in ("epochs", "batch_size")}
    found = zoo.tune("resnet18_features", "synthetic", settings=how, space=space, trials=2,
                     runs=tmp_path / "runs", quiet=True)  # fmt: skip
    plan = found.search.plan()
    assert plan.recipe_name == chosen
    assert [axis.name for axis in plan.axes] == ["weight_decay" if chosen != "default" else "lr"]


def test_few_images_are_trained_by_their_recipe_and_run_json_says_which(weights, tmp_path):
    how = {k: v for k, v in settings(weights).items() if k not in ("epochs", "batch_size")}
    run = training.train(
        "resnet18_features", "synthetic", settings=how, runs=tmp_path / "runs", quiet=True
    ).run
    document = run.read()
    assert document["recipe_name"] == "few_images"
    assert document["recipe"]["optimizer"] == "lbfgs"
    assert document["recipe"]["weight_decay"] == 0.003 and document["recipe"]["epochs"] == 4
    again = training.train(
        "resnet18_features", "synthetic", recipe="default", settings=how, runs=tmp_path / "runs",
        quiet=True,
    )  # fmt: skip
    assert again.run.read()["recipe"]["optimizer"] == "adamw"


def test_with_lbfgs_a_search_is_for_the_weight_decay(weights, tmp_path):
    found = zoo.tune(
        "resnet18_features", "synthetic", trials=2, quiet=True, runs=tmp_path / "runs",
        settings=settings(weights, optimizer="lbfgs", epochs=1),
    )  # fmt: skip
    assert set(found.best.parameters) == {"weight_decay"}


# ---------------------------------------------------------------- publishing


@pytest.mark.parametrize("full", [False, True], ids=["by digest", "full"])
def test_it_is_published_and_loaded_again(train, tmp_path, full):
    result = train()
    before = zoo.predict(result.path, pictures())
    done = publish(plan(Run(result.path), f"file:{tmp_path / 'shared'}", full=full))
    size = len((result.path / "model.safetensors").read_bytes())
    assert (done.weights.bytes > 10 * size) == full
    reference = done.weights.config["backbone_weights"]
    assert reference == "" if full else reference.startswith("sha256:")
    model = zoo.load(done.weights.sources[0])
    assert zoo.predict(model, pictures()) == before
    assert torch.equal(model.backbone.conv1.weight, zoo.load(result.path).backbone.conv1.weight)
    again = zoo.evaluate(done.weights.sources[0])
    assert again["accuracy"] == result.accuracy


def test_a_full_publication_needs_no_backbone_on_the_machine_that_loads_it(train, tmp_path):
    from zoo_frozen.torch import backbones

    result = train()
    before = zoo.predict(result.path, pictures())
    done = publish(plan(Run(result.path), f"file:{tmp_path / 'shared'}", full=True))
    backbones._at_hand.clear()
    shutil.rmtree(tmp_path / "cache")
    assert zoo.predict(done.weights.sources[0], pictures()) == before


def test_what_a_strangers_options_say_cannot_make_a_path(train):
    """A published config is somebody else's text; only 64 digits of a digest name a file."""
    result = train()
    entry = zoo.info("resnet18_features")
    config = dict(zoo.load(result.path).zoo.config) | {"backbone_weights": "sha256:../../x"}
    with pytest.raises(zoo.ZooError, match="is not a digest"):
        trainer_of(entry).assemble(entry, config, {})
    assert tuple(config["channels"]) == CHANNELS
