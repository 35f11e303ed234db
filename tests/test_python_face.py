"""What the command line does, Python does: each command has its function, or a reason why not."""

import inspect

import numpy as np
import pytest
from hub.parts import small_run
from PIL import Image
from report.made_runs import make_run

import zoo
from zoo_core.spec.commands import COMMANDS
from zoo_core.spec.registry import registry

FUNCTIONS = {  # of commands whose function has another name
    "list": ("list_models", "list_weights"),
    "data": ("open_dataset",),
    "data check": ("check_data", "check_labels"),
    "plugins": ("plugins", "disable_plugin", "enable_plugin"),
    "predict": ("predict", "predict_many"),
    "publish": ("publish", "publish_all"),
    "train": ("train", "resume"),
    "features": ("features", "compute_features"),
}
NOT_IN_PYTHON = {
    "verify": "every load reads and checks all bytes: zoo.load, zoo.pull",
    "remove": "deletes files, after a look at what they are",
    "cache": "deletes files, after a look at what they are",
    "doctor": "says what is wrong with an installation that may not start Python code",
    "plugin": "writes and checks a package in a folder: zoo.testing has its checks",
    "tensorboard": "a server",
}


def test_every_command_has_its_function_or_a_reason_why_not():
    commands = {*COMMANDS, *(entry.name for entry in registry().commands)}
    for name in sorted(commands):
        for function in FUNCTIONS.get(name, (name,)):
            found = inspect.isfunction(getattr(zoo, function, None))
            assert found != (name in NOT_IN_PYTHON), f"zoo.{function}, of the command {name}"
    assert not FUNCTIONS.keys() & NOT_IN_PYTHON.keys()


@pytest.fixture
def made(tmp_path):
    return [make_run(tmp_path / "runs" / name, done=2) for name in ("a", "b")]


def test_runs_are_listed_compared_and_reported(tmp_path, made):
    first, second = (run.path for run in made)
    (one,) = zoo.runs(first.name, runs=first.parent)
    assert one.path == str(first) and zoo.runs("nothing", runs=first.parent) == []
    compared = zoo.compare(first, second)
    assert [row.summary.path for row in compared.groups[0].rows]
    assert "<img" in compared._repr_html_() and compared.write(tmp_path / "compare.png")[0].exists()
    with pytest.raises(zoo.UsageError, match="two different runs"):
        zoo.compare(first, first)
    report = zoo.report(first)
    assert report.path == first / "report.md" and str(report.path) in report._repr_html_()


def test_weights_are_published_pulled_and_exported(tmp_path, monkeypatch):
    run = small_run(tmp_path / "runs", "fcn_numpy", hidden=(8,))
    monkeypatch.setenv("ZOO_MANIFEST", str(tmp_path / "own.json"))
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    shared = f"file:{tmp_path / 'shared'}"
    assert zoo.publish(run.path, shared, tag="ours", dry_run=True).endswith(".ours")
    assert zoo.publish_all(shared, plugins=["mlp"], dry_run=True) == ["mlp.cifar10"]
    assert not (tmp_path / "shared").exists() and not (tmp_path / "own.json").exists()
    with pytest.raises(zoo.UsageError, match="ships weights"):
        zoo.publish_all(shared, plugins=["nothing"])
    name = zoo.publish(run.path, shared, tag="ours")
    assert name.endswith(".ours") and zoo.pull(name).exists()
    (again,) = zoo.publish_all(f"file:{tmp_path / 'every'}", plugins=["mlp"])
    assert zoo.pull(again).exists()
    done = zoo.export(name, tmp_path / "model.onnx")
    assert "probabilities" in done._repr_html_()


def test_features_of_images_are_an_array(tmp_path):
    model = zoo.load("cnn")
    images = np.random.default_rng(0).integers(0, 256, (3, 40, 50, 3), np.uint8)
    found = zoo.features(model, list(images))
    assert found.shape[0] == 3 and found.ndim == 2
    Image.fromarray(images[0]).save(tmp_path / "x.png")
    assert np.allclose(zoo.features(model, tmp_path / "x.png"), found[:1], atol=1e-5)
    with pytest.raises(zoo.UsageError, match="no features"):
        zoo.features("lenet_numpy", images[0])


def test_plugins_say_their_state():
    assert {"cnn", "numpy"} <= {one.id for one in zoo.plugins() if one.state == "ok"}
