"""Every benchmark runs, with sizes so small that its figures mean nothing."""

import json
import re
import runpy
import shutil
import sys

import pytest
from support import ROOT

import zoo

FOLDER = ROOT / "benchmarks"
SMALL = {
    "busy": "--batches 2 --seconds 0.2 --repeat 1 --settings passive",
    "explain": "--models cnn.cifar10 --dataset synthetic --images 2",
    "labels": "--dataset synthetic --images 100 --shares 10 --models fcn_numpy",
    "load": "--repeat 1 --hidden 8 --entries 20",
    "loader": "--pictures 600 --rounds 1 --stretch 2",
    "numpy_framework": "--images 10 --repeats 1",
    "packs": "--images 300 --steps 1 --features 10",
    "photos": "--small 8 --large 0 --rounds 1 --seconds 0 --before=",
    "processes": "--models mlp --steps 3 --repeat 1 --batch 4",
    "precision": "mlp cnn --batch 2 --repeat 1",
    "predictions": "--images 600 --interruptions 0 --every 1",
    "serve": "--model lenet_numpy --requests 40 --together 8 --rounds 1 --hostile 33",
    "startup": "--repeat 1 --plugins 2",
    "train_vs_notebook": "--dataset synthetic --models mlp --pictures 100 --epochs 1 --repeat 1",
    "tune": "--dataset synthetic --pictures 400 --trials 1 --epochs 1",
    "widths": "mlp --dataset synthetic --images 100 --judges 100 --epochs 1 --out .",
    "vit_block": "--batch 2 --repeat 1",
}
LONG = {
    "busy",
    "loader",
    "packs",
    "predictions",
    "processes",
    "serve",
    "startup",
    "train_vs_notebook",
    "tune",
}  # they start processes that import torch


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run a script in this process, where torch is imported already; gives what it printed."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def start(script, *arguments):
        monkeypatch.syspath_prepend(script.parent)  # as Python does for a script
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        capfd.readouterr()
        runpy.run_path(str(script), run_name="__main__")
        return capfd.readouterr().out

    return start


def test_every_benchmark_is_tried_here():
    scripts = {path.stem for path in FOLDER.glob("*.py")}
    assert scripts == {
        *SMALL,
        "blend",
        "cost_picture",
        "exports",
        "finetuning",
        "frozen",
        "pick",
        "results",
    }


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in SMALL]
)
def test_it_prints_its_figures(name, run):
    assert re.search(r"\d", run(FOLDER / f"{name}.py", *SMALL[name].split()))


def test_the_benchmark_of_exports(run):
    data = {"train_size": 64, "test_size": 32}
    zoo.train("fcn_numpy", "synthetic", name="small", epochs=1, data=data, quiet=True)
    told = run(FOLDER / "exports.py", "small", "--margin", 1, "--blocks", 1, "--seconds", 0)
    assert "| small | 64 |" in told


@pytest.mark.slow  # three trainings
def test_the_benchmark_of_students(run):
    data = {"train_size": 64, "test_size": 32}
    zoo.train("fcn_numpy", "synthetic", name="teacher", epochs=1, data=data, quiet=True)
    asked = "mlp teacher --set epochs=1 --set model.hidden=8 --try task.truth=0.5"
    told = run(FOLDER / "blend.py", *asked.split())
    assert "| task.truth=0.5 | 0 |" in told and "cannot be told apart" in told


def test_the_benchmark_of_picks(run):
    data = {"train_size": 120, "test_size": 32, "image_size": 8, "channels": 1, "classes": 2}
    given = {"models": ["fcn_numpy"], "settings": {"data": data}, "name": "small", "quiet": True}
    found = zoo.pick("synthetic", budget="10m", **given)
    told = run(FOLDER / "pick.py", "synthetic", "--pick", found.path)
    assert "regret against fcn_numpy: " in told


@pytest.fixture
def small_backbone(tmp_path):
    """The words that choose a small frozen model, and how to train it."""
    from features.parts import CHANNELS, write_weights

    weights = write_weights(tmp_path / "weights.safetensors", seed=0)
    settings = {"preprocess.size": 32, "model.backbone_weights": weights}
    settings["model.channels"] = ",".join(map(str, CHANNELS))
    return [word for item in settings.items() for word in ("--set", "{}={}".format(*item))]


def test_the_benchmark_of_frozen_models(run, small_backbone, monkeypatch):
    from zoo_tune import tuning

    monkeypatch.setattr(tuning, "open_data", tuning.open_data)  # the script replaces it

    chosen = [*small_backbone, "--set", "epochs=1", "--set", "subset=1"]
    small = "--model resnet18_features --dataset synthetic --pictures 100 --trials 1 --seconds 0.1"
    assert "naively: " in run(FOLDER / "frozen.py", *small.split(), *chosen)


@pytest.mark.slow  # it starts processes that import torch
def test_the_table_of_ways_to_use_backbones(run, small_backbone):
    """Each run is trained once, and what is there is enough for the table."""
    asked = "--models resnet18_features --datasets synthetic:200:80 --ways head last:1 --epochs 1"
    given = [*asked.split(), *small_backbone]
    table = run(FOLDER / "finetuning.py", *given, "--set", "validation_fraction=0.25")
    head, tuned = table.splitlines()[2:]
    assert "(200 and 80) | `head` |  | head |" in head
    assert re.search(r"`last:1` \| 50: -?\d+\.\d \(", tuned)
    assert run(FOLDER / "finetuning.py", *given) == table


def test_the_tables_of_results_are_what_the_kept_runs_say(run, tmp_path):
    """Written again in a copy, after a kept run came once more."""
    for name in ("benchmarks", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "README.md", tmp_path)
    kept = next((tmp_path / "docs" / "results").glob("mlp-*.json"))
    before = json.loads(kept.read_text())
    again = tmp_path / "again"
    again.mkdir()
    kept.rename(again / "run.json")
    run(tmp_path / "benchmarks" / "results.py", again)
    assert json.loads(kept.read_text()) == before
    for page in ("README.md", "docs/results.md"):
        assert (tmp_path / page).read_text() == (ROOT / page).read_text()
