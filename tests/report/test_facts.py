"""What the files of a run say, also when they say little or nonsense."""

import json
import os
import time

import pytest
from report.made_runs import DIGEST, make_metrics, make_run

from zoo_core.io.errors import ZooError
from zoo_core.runs.compare import compare, row_of
from zoo_core.runs.run import Run
from zoo_core.runs.summary import class_scores, curves_of, mixups, summarize, summarize_any
from zoo_core.spec.settings import what_it_sets


def test_a_complete_run_is_summed_up_by_its_result(tmp_path):
    summary = summarize(make_run(tmp_path, epochs=12, done=9))
    assert (summary.status, summary.shown_epochs) == ("complete", "9/12")
    assert summary.seconds == 12.5 * 9
    assert (summary.parameters, summary.bytes) == (1_150_000, 4_600_123)
    assert (summary.split, summary.digest) == ("test", DIGEST)
    assert 0.5 < summary.accuracy < 1


def test_an_unfinished_run_is_summed_up_by_its_metrics_so_far(tmp_path):
    run = make_run(tmp_path, done=3, status="interrupted")
    summary, last = summarize(run), run.metrics()[-1]
    assert (summary.loss, summary.accuracy) == (last["test_loss"], last["test_accuracy"])
    assert (summary.seconds, summary.images_per_second) == (37.5, 4000)
    assert (summary.bytes, summary.inference_ms_per_image) == (4_591_656, None)
    empty = summarize(make_run(tmp_path, model="new", done=0, status="running"))
    assert (empty.shown_epochs, empty.seconds, empty.accuracy) == ("0/12", None, None)


def test_a_loss_that_is_no_number_is_no_result(tmp_path):
    lines = [line | {"test_loss": float("nan")} for line in make_metrics(2)]
    summary = summarize(make_run(tmp_path, metrics=lines, status="failed", error="NaN"))
    assert (summary.loss, summary.error) == (None, "NaN")


def test_a_running_run_that_writes_nothing_for_ten_minutes_is_doubted(tmp_path, monkeypatch):
    run = make_run(tmp_path, done=2, status="running")
    assert summarize(run).shown_status == "running"
    now = round(time.time())
    monkeypatch.setattr(time, "time", lambda: now)
    long_ago = now - 3600
    for path in (run.settings_file, run.metrics_file):
        os.utime(path, (long_ago, long_ago))
    summary = summarize(run)
    assert (summary.status, summary.shown_status) == ("running", "running?")
    assert summary.quiet_seconds == 3600
    run.checkpoints.mkdir()
    (run.checkpoints / "step-10.json").write_text("{}")
    assert summarize(run).shown_status == "running"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.json", b"{"),
        ("run.json", b'{"format": 1}'),
        ("run.json", b'{"format": 99}'),
        ("run.json", b"[]"),
        ("run.json", b"\xff\xfe\x00"),
        ("metrics.jsonl", b"\xff\xfe\x00"),
        ("metrics.jsonl", b"3\n"),
        ("metrics.jsonl", b'{"no": "epoch"}\n'),
    ],
)
def test_a_damaged_run_is_a_sentence_and_a_row(tmp_path, name, content):
    run = make_run(tmp_path, done=2, status="interrupted")
    (run.path / name).write_bytes(content)
    with pytest.raises(ZooError):
        summarize(run)
    row = summarize_any(run)
    assert (row.run, row.shown_status) == (run.name, "damaged")
    assert str(run.path) in row.error


def test_a_run_directory_that_vanishes_is_a_row_too(tmp_path):
    assert "no run.json" in summarize_any(Run(tmp_path / "gone")).error


def test_curves_are_found_by_their_names():
    curves = curves_of(make_metrics(3))
    assert list(curves) == ["loss", "accuracy"]
    assert list(curves["loss"]) == ["train", "validation", "test"]
    assert curves["accuracy"]["test"][0] == [1, 2, 3]
    other = [{"epoch": 1, "lr": 0.1, "train_mse": 3.0, "train_loss": 4, "train_kl": None}]
    assert curves_of(other) == {"loss": {"train": ([1], [4.0])}, "mse": {"train": ([1], [3.0])}}


def test_classes_are_ranked_and_mixups_counted():
    confusion = [[8, 2, 0], [5, 5, 0], [0, 0, 0]]
    scores = class_scores(("cat", "dog", "unseen"), confusion)
    assert scores == [("cat", 0.8, 10), ("dog", 0.5, 10)]
    assert mixups(("cat", "dog", "unseen"), confusion) == [
        ("dog", "cat", 5, 10),
        ("cat", "dog", 2, 10),
    ]


def test_settings_are_what_differs_from_a_plain_recipe_and_what_everybody_asks_for(tmp_path):
    run = make_run(tmp_path, recipe={"augment": ("flip", "crop:4"), "model": {"dropout": 0.3}})
    assert what_it_sets(json.loads(run.settings_file.read_text())["recipe"]) == {
        "optimizer": "adam",
        "lr": "0.0002",
        "schedule": "cosine",
        "epochs": "12",
        "batch_size": "128",
        "augment": "flip,crop:4",
        "model.dropout": "0.3",
    }


def test_a_label_says_what_sets_a_run_apart(tmp_path):
    def told(*runs):
        (one,) = compare(row_of(run) for run in runs)
        labels = dict(zip((row.summary.run for row in one.rows), one.labels, strict=True))
        return [labels[run.name] for run in runs]

    cnn = make_run(tmp_path, model="cnn")
    mlp = make_run(tmp_path, model="mlp")
    wide = make_run(tmp_path, model="cnn", time="20261116T111500Z", recipe={"momentum": 0.5})
    again = make_run(tmp_path, model="cnn", time="20261116T121500Z")
    gentle = make_run(tmp_path, model="cnn", time="20261116T131500Z", recipe={"task": {"b": 4}})
    assert told(cnn, mlp) == ["cnn", "mlp"]
    assert told(cnn, mlp, wide) == [f"{name} momentum=0.9" for name in ("cnn", "mlp")] + [
        "cnn momentum=0.5"
    ]
    assert told(cnn, wide) == ["momentum=0.9", "momentum=0.5"]
    assert told(cnn, gentle) == ["cnn", "task.b=4"]
    assert told(cnn, again) == [cnn.name, again.name]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("status", "compl", "status: invalid enum value 'compl'"),
        ("recipe", {"lr": "fast"}, "lr must be a number above 0, not 'fast'"),
        ("result", None, "it is complete, and has no result"),
    ],
)
def test_a_run_that_cannot_be_so_is_damaged(tmp_path, key, value, words):
    run = make_run(tmp_path / "runs")
    run.path.joinpath("run.json").write_text(json.dumps(run.read() | {key: value}))
    with pytest.raises(ZooError, match=f"run.json is damaged: .*{words}"):
        run.read()


def test_a_recipe_of_a_later_zoo_may_have_more_fields(tmp_path):
    run = make_run(tmp_path / "runs")
    recipe = run.read()["recipe"] | {"made_up": 1}
    run.path.joinpath("run.json").write_text(json.dumps(run.read() | {"recipe": recipe}))
    assert run.read()["recipe"]["made_up"] == 1
