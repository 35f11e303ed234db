"""A task of a plugin, docs/examples/zoo-rotation: its figures, its answers, its plots."""

import json

import pytest
from support import ROOT
from testing.mistakes import importable, install

import zoo
from zoo_core.report.write import build_report

SMALL = {"train_size": 64, "test_size": 24, "image_size": 16, "labels": "none"}
HOW = {"data": SMALL, "epochs": 1, "batch_size": 32, "model": {"width": 4}}
TURNS = {"upright", "a quarter turn", "half a turn", "three quarters"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rotation")
    install(ROOT / "docs" / "examples" / "zoo-rotation", folder / "site")
    with importable(folder / "site"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(folder / "cache"))
        yield zoo.train("rotation", "synthetic", settings=HOW, runs=folder / "runs", quiet=True)


def test_its_figures_are_those_that_the_task_measures(trained):
    assert set(trained.metrics) == {"loss", "accuracy"}
    figures = json.loads((trained.path / "run.json").read_text())["figures"]
    assert figures["accuracy"] == {"unit": "%", "better": "higher"}
    again = zoo.evaluate(trained.path)
    assert again["accuracy"] == pytest.approx(trained.accuracy)


def test_it_answers_a_question_that_is_not_about_the_labels(trained):
    images = zoo.open_dataset("synthetic", SMALL).test.images[:2]
    for said in zoo.predict(trained.path, images, top=4):
        assert {name for name, _ in said.classes} == TURNS
    labelled = {**HOW, "data": {**SMALL, "labels": "class", "classes": 3}}
    runs = trained.path.parent
    other = zoo.train("rotation", "synthetic", settings=labelled, runs=runs, quiet=True)
    assert set(other.metrics) == {"loss", "accuracy"}  # nothing compares turns with the labels
    assert zoo.evaluate(other.path)["loss"] == pytest.approx(other.metrics["loss"])


def test_the_report_shows_the_plots_that_the_task_adds(trained, monkeypatch):
    from zoo_rotation.task import Turning

    plot = trained.path / "pictures" / "task-turns.png"
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "![task-turns](pictures/task-turns.png)" in trained.report.read_text()

    def broken(self, model, batches):
        raise RuntimeError("no ink")

    monkeypatch.setattr(Turning, "plots", broken)
    report = build_report(trained.run)
    assert "The plots of the model are left out: RuntimeError: no ink." in report.remarks
    assert not plot.exists() and "curves.png" in {path.name for path in report.plots}
    monkeypatch.undo()
    assert plot in build_report(trained.run).plots


def test_its_weights_start_a_classifier(trained, tmp_path, capsys):
    how = {**HOW, "data": {**SMALL, "labels": "class", "classes": 3}, "init": str(trained.path)}
    zoo.train("rotation_classifier", "synthetic", settings=how, runs=tmp_path)
    assert "new: head.weight, head.bias." in capsys.readouterr().err


def test_an_exported_file_has_the_names_of_its_own_answers(trained):
    about = zoo.load(trained.path).zoo.to_dict()
    assert about["task"] == "zoo_rotation.task:Turning" and set(about["classes"]) == TURNS
