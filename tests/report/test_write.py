"""Reports of finished, unfinished, strange and damaged runs."""

import re
import shutil
import sys

import numpy as np
import pytest
from PIL import Image
from report.made_runs import make_dataset, make_metrics, make_run

from zoo_core.data.datasets import open_dataset
from zoo_core.io.errors import ZooError
from zoo_core.report.write import build_report, write_report
from zoo_core.runs.summary import summarize

ALL = {"curves.png", "rate.png", "classes.png", "confusion.png", "predictions.png", "mistakes.png"}
ALL |= {"calibration.png"}


def listed(report):
    """The names of the plots that a report lists, which are those that are there."""
    names = set(re.findall(r"\(pictures/(.+?)\)", report.path.read_text(encoding="utf-8")))
    assert names == {path.name for path in (report.path.parent / "pictures").iterdir()}
    return names


def shown(report):
    """The same, all of them looked at."""
    for name in listed(report):
        with Image.open(report.path.parent / "pictures" / name) as picture:
            picture.verify()
            assert picture.format == "PNG"
            assert 350 <= picture.width <= 2600, name
            assert 150 <= picture.height <= 2600, name
    return listed(report)


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """A run on a dataset that the report has to open by itself, and its report."""
    data = open_dataset("synthetic", train_size=20, test_size=60)
    run = make_run(tmp_path_factory.mktemp("runs"), classes=data.classes, count=60)
    document = run.read()
    document["dataset"] |= {
        "reference": "synthetic",
        "digest": data.digest,
        "options": {"train_size": 20, "test_size": 60},
    }
    run.write(document)
    return run, build_report(run)


@pytest.mark.renders
def test_a_complete_run_has_every_figure_and_picture(complete):
    run, report = complete
    assert report.path == run.path / "report.md"
    assert shown(report) == ALL == {path.name for path in report.plots}
    assert report.remarks == []
    text = report.path.read_text(encoding="utf-8")
    accuracy = f"{100 * run.read()['result']['test']['accuracy']:.2f} %"
    sure = " to ".join(f"{100 * end:.2f}" for end in summarize(run).intervals["accuracy"])
    assert text.startswith(f"# cnn on made_up: {accuracy} on the test set\n")
    for line in (
        f"| test accuracy | {accuracy} ({sure}) |",
        "| test top-5 accuracy | 98.00 % |",
        "| trainable parameters | 1,147,914 |",
        "| all parameters | 1,150,000 |",
        "| size | 4,600,123 bytes |",
        "| epochs | 12 of 12 |",
        "| training time | 2 min 30 s |",
        "| training speed | 3,988 images/s |",
        "| inference time | 0.213 ms per image |",
        "| device | cpu, a processor |",
        "| lr | 0.0002 |",
        "| model.channels | 32,64,128 |",
        "  (head): Linear(in_features=2048, out_features=10)",
        f"zoo train --config {run.settings_file} --runs {run.path.parent}",
        f"| model.safetensors | sha256 `{run.read()['result']['model']['sha256']}` |",
        "| torch | 2.15.0 |",
    ):
        assert f"\n{line}\n" in text
    assert run.read()["dataset"]["digest"] in text
    assert "weight_decay" not in text  # as in a plain recipe
    assert "Left out" not in text


@pytest.mark.renders
def test_confusions_are_told_in_words_the_most_common_first(complete):
    run, report = complete
    lines = re.findall(r"- (\w+) taken for (\w+): (\d+) \(of 6\)", report.path.read_text())
    counts = [int(count) for _, _, count in lines]
    assert 0 < len(counts) <= 10
    assert counts == sorted(counts, reverse=True)
    true, predicted, count = lines[0]
    test, classes = run.read()["result"]["test"], run.read()["dataset"]["classes"]
    assert test["confusion"][classes.index(true)][classes.index(predicted)] == int(count)


@pytest.mark.renders
def test_a_report_is_the_same_when_it_is_written_again(tmp_path):
    run = make_run(tmp_path, classes=2, count=8, done=2)
    data = make_dataset(classes=2, count=8, size=8)
    first = build_report(run, data)
    before = {path: path.read_bytes() for path in [first.path, *first.plots]}
    shutil.rmtree(run.path / "pictures")
    write_report(run, data)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.renders
def test_two_classes_in_grey(tmp_path):
    data = make_dataset(classes=2, count=16, size=8, channels=1)
    report = build_report(make_run(tmp_path, classes=2, count=16, skill=2), data)
    assert shown(report) == ALL
    assert "airplane taken for automobile" in report.path.read_text()


@pytest.mark.renders
def test_a_hundred_classes_are_shown_by_their_best_and_worst(tmp_path):
    report = build_report(make_run(tmp_path, classes=100, count=1000, skill=5))
    assert shown(report) == ALL - {"predictions.png", "mistakes.png"}
    text = report.path.read_text()
    assert text.count("| ... | ... | ... | ... |") == 1
    rows = [
        float(value) for value in re.findall(r"\| ([\d.]+) % \| [\d.]+ to [\d.]+ \| 10 \|", text)
    ]
    assert len(rows) == 10
    assert rows == sorted(rows, reverse=True)
    assert "The plots of predictions are left out: there is no dataset 'made_up'." in text


@pytest.mark.renders
def test_names_are_shown_as_they_are(tmp_path):
    names = ("a name that is longer than anybody would like " * 3, "$5 and $10", "猫", "a|b *c*")
    run = make_run(tmp_path, classes=names, count=16, skill=1)
    report = build_report(run, make_dataset(classes=4, count=16, size=8))
    assert shown(report) == ALL
    text = report.path.read_text(encoding="utf-8")
    assert "| a\\|b \\*c\\* |" in text
    assert names[0].strip() in text


def test_a_report_has_nothing_that_a_terminal_obeys(tmp_path):
    hostile = "\x1b]0;t\x07\x9b2J\r\u202e\udcff"
    run = make_run(tmp_path, classes=(f"a{hostile}", "b"), count=20)
    document = run.read() | {"command": hostile, "created": hostile}
    run.write(document | {"dataset": document["dataset"] | {"name": hostile}})
    text = build_report(run).path.read_text(encoding="utf-8")
    assert not set(hostile) & set(text) - set("]0;t2J") and r"2J\r\u202e\udcff" in text


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("running", "**Not finished**: 3 of 12 epochs done, still running."),
        ("interrupted", "/cnn-made_up-20261116T101500Z` continues it."),
        ("failed", "It failed: the loss is NaN."),
    ],
)
def test_an_unfinished_run_has_curves_so_far(tmp_path, status, sentence):
    run = make_run(tmp_path, done=3, status=status)
    if status == "failed":
        run.update(error="the loss is NaN.")
    report = build_report(run)
    assert listed(report) == {"curves.png", "rate.png"}
    text = report.path.read_text()
    assert text.startswith("# cnn on made_up: not finished\n")
    assert sentence in text
    assert "| test accuracy | " in text
    assert "| epochs | 3 of 12 |" in text


def test_a_run_before_its_first_epoch_has_a_report(tmp_path):
    report = build_report(make_run(tmp_path, done=0, status="running"))
    assert report.plots == []
    assert "0 of 12 epochs" in report.path.read_text()


@pytest.mark.renders
def test_without_test_labels_there_are_predictions_and_no_mistakes(tmp_path):
    run = make_run(tmp_path, classes=3, count=9, labelled=False, metrics=make_metrics(1))
    report = build_report(run, make_dataset(classes=3, count=9, size=8))
    assert shown(report) == {"curves.png", "predictions.png"}
    assert "accuracy per class" not in report.path.read_text()


@pytest.mark.renders
def test_other_tasks_have_their_own_curves_and_bring_their_own_pictures(tmp_path):
    lines = [
        {"epoch": e, "lr": 1e-3, "train_mse": 900 / e, "test_mse": 950 / e, "train_kl": float(e)}
        for e in range(1, 4)
    ]
    lines[1]["train_mse"] = float("inf")
    run = make_run(tmp_path, model="vae", classes=(), metrics=lines)
    run.update(result=run.read()["result"] | {"test": {"mse": 316.7}})
    (run.path / "pictures").mkdir()
    for epoch in (10, 5):
        Image.new("RGB", (400, 400)).save(run.path / "pictures" / f"samples-{epoch}.png")
    report = build_report(run)
    assert shown(report) == {"curves.png", "samples-5.png", "samples-10.png"}
    text = report.path.read_text()
    assert text.startswith("# vae on made_up\n")
    assert "| test mse | 316.7000 |" in text
    assert text.index("samples-5.png") < text.index("samples-10.png")


def test_pictures_of_another_dataset_are_not_shown(tmp_path):
    run = make_run(tmp_path, classes=3, count=9, done=1)
    report = build_report(run, make_dataset(classes=3, count=6))
    assert "made_up has changed since the run" in report.remarks[0]
    assert "predictions.png" not in listed(report)


def test_damaged_predictions_cost_a_line_and_old_pictures_go(tmp_path):
    run = make_run(tmp_path, classes=3, count=9, done=1)
    data = make_dataset(classes=3, count=9, size=8)
    assert "predictions.png" in listed(build_report(run, data))
    run.predictions_file.write_bytes(b"not safetensors")
    report = build_report(run, data)
    assert "predictions.safetensors cannot be read" in report.path.read_text()
    assert listed(report) == {"curves.png", "classes.png", "confusion.png"}


def test_a_damaged_run_has_no_report_but_a_sentence(tmp_path):
    run = make_run(tmp_path, done=2, status="interrupted")
    run.metrics_file.write_text('{"train_loss": 1}\n{"epoch": 2}\n')
    with pytest.raises(ZooError, match="line 1 of .* is damaged"):
        build_report(run)


def test_without_matplotlib_the_report_has_its_tables(tmp_path, monkeypatch):
    run = make_run(tmp_path, classes=3, count=9, skill=0)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "zoo_core.report.plots", raising=False)
    monkeypatch.delattr("zoo_core.report.plots", raising=False)
    for name in [name for name in sys.modules if name.startswith("matplotlib.")]:
        monkeypatch.delitem(sys.modules, name)
    report = build_report(run)
    text = report.path.read_text()
    assert report.plots == []
    assert "`pip install 'zoo-core[report]'`" in text
    assert "Most common confusions:" in text
    assert "](pictures/" not in text


def test_labels_are_spread_until_they_can_be_read():
    from zoo_core.report.look import spread

    assert spread([0.2, 0.8], 0.1) == [0.2, 0.8]
    for places in ([0.5] * 6, [0.0, 0.0, 0.01], [1.0, 0.99, 1.0], list(np.linspace(0, 1, 40))):
        moved = spread(places, 0.1)
        gap = min(0.1, 1 / (len(places) - 1))
        assert np.diff(sorted(moved)).min() > 0.9 * gap
        assert 0 <= min(moved) <= max(moved) <= 1
        assert (
            np.argsort(moved, kind="stable").tolist() == np.argsort(places, kind="stable").tolist()
        )
