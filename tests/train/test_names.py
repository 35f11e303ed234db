"""`--name`: the same command starts a run, goes on with it, or says that it is complete."""

import json
import signal
import subprocess
import sys
import threading

import pytest
from support import environment

import zoo
from zoo_core.io.errors import Interrupted, UsageError
from zoo_core.runs.run import Run, SearchFolder
from zoo_core.train import runner
from zoo_core.train.loop import Loop

SETTINGS = {"epochs": 2, "data": {"train_size": 64, "test_size": 20}, "batch_size": 16}
HOW = {"settings": SETTINGS, "quiet": True}


def train(runs, name="x", **more):
    given = {**HOW, **more}
    return runner.train("fcn_numpy", "synthetic", runs=runs, name=name, **given)


def test_the_same_call_starts_a_run_goes_on_with_it_and_gives_it_back(tmp_path, monkeypatch):
    whole = train(tmp_path / "whole")
    real, steps = Loop._after_step, []

    def stop(self, started):
        steps.append(1)
        if len(steps) == 3:
            self.interruption.signal = signal.SIGTERM
        real(self, started)

    monkeypatch.setattr(Loop, "_after_step", stop)
    with pytest.raises(Interrupted):
        train(tmp_path)
    assert Run(tmp_path / "x").read()["status"] == "interrupted"
    again = train(tmp_path)
    assert len(steps) == 8, "steps before the interruption are not done again"
    assert again.path == tmp_path / "x"
    assert again.run.model_file.read_bytes() == whole.run.model_file.read_bytes()
    before = again.run.settings_file.read_bytes()
    assert train(tmp_path).metrics == again.metrics
    assert again.run.settings_file.read_bytes() == before
    assert len(steps) == 8


def test_a_complete_run_needs_neither_its_data_nor_the_right_to_write(tmp_path, monkeypatch):
    done = train(tmp_path)
    monkeypatch.setattr(runner, "open_data", None)
    done.path.chmod(0o555)
    try:
        assert train(tmp_path).metrics == done.metrics
    finally:
        done.path.chmod(0o755)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epochs": 3}, "epochs was 2 and is now 3"),
        ({"lr": 0.30000001}, "lr was 0.1 and is now 0.3"),
        ({"augment": ()}, "augment was crop:1 and is now empty"),
        ({"data": {"train_size": 64}}, "data.test_size was 20 and is now not set"),
        ({"model": {"hidden": (4,)}}, "model.hidden was not set and is now 4"),
    ],
)
def test_settings_that_differ_are_refused_by_name(change, named, tmp_path):
    train(tmp_path)
    with pytest.raises(UsageError) as caught:
        train(tmp_path, settings=SETTINGS | change)
    assert named in str(caught.value)
    assert "zoo train --resume" in caught.value.hint


def test_another_model_or_dataset_is_refused_by_name(tmp_path):
    train(tmp_path)
    with pytest.raises(UsageError, match="model was numpy/fcn_numpy and is now mlp/mlp"):
        runner.train("mlp", "synthetic", runs=tmp_path, name="x", **HOW)
    with pytest.raises(UsageError, match="dataset was synthetic and is now mnist"):
        runner.train("fcn_numpy", "mnist", runs=tmp_path, name="x", settings={"epochs": 2})


def test_what_the_data_decided_is_no_difference(tmp_path):
    """Of the test images fewer are measured between epochs than there are."""
    data = {"train_size": 64, "test_size": 200}
    how = {"settings": {"data": data, "epochs": 2}, "quiet": True, "runs": tmp_path, "name": "x"}
    first = runner.train("fcn_numpy", "synthetic", **how)
    assert first.run.read()["recipe"]["evaluate_subset"] != 1
    assert runner.train("fcn_numpy", "synthetic", **how).metrics == first.metrics


NAMES = ["../x", "a/b", ".x", "x.", "CON", "nul.txt", "latest", "ä", "x" * 101]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_cannot_be_a_folder_everywhere_are_refused(name, tmp_path):
    with pytest.raises(UsageError, match="cannot name a folder"):
        train(tmp_path / "runs", name)
    assert not (tmp_path / "runs").exists()


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "thesis.txt").write_text("years")
    with pytest.raises(UsageError, match="is not a run"):
        train(tmp_path)
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["thesis.txt"]


def test_what_cannot_begin_leaves_no_folder(tmp_path):
    with pytest.raises(UsageError):
        train(tmp_path, device="cuda:7")
    assert not list(tmp_path.iterdir())


def test_a_run_that_was_killed_before_it_began_begins(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / ".lock").touch()
    (tmp_path / "x" / ".run.json.abcdefgh.tmp").touch()
    assert train(tmp_path).path == tmp_path / "x"


def test_of_two_that_start_at_once_one_trains(tmp_path, monkeypatch):
    """The second one comes while the first is at work, and is refused with a sentence."""
    real, refused = runner.execute, []

    def execute(job, report):
        def second():
            with pytest.raises(UsageError) as caught:
                train(tmp_path)
            refused.append(str(caught.value))

        monkeypatch.setattr(runner, "execute", real)
        other = threading.Thread(target=second)
        other.start()
        other.join()
        return real(job, report)

    monkeypatch.setattr(runner, "execute", execute)
    train(tmp_path)
    assert refused == [f"another process is working on {tmp_path / 'x'}"]


def test_latest_is_the_newest_whatever_it_is_called(tmp_path):
    names = ["b", "mlp-synthetic-20261116T101500Z", "a"]
    for number, name in enumerate(names):
        created = f"2026-11-16T10:1{4 + number}:30+00:00"
        train(tmp_path, name).run.update(created=created)
    assert [run.name for run in Run.every(tmp_path)] == names
    assert Run.find("latest", tmp_path).name == "a"


def test_searches_have_names_too(tmp_path):
    how = {"runs": tmp_path, "quiet": True, "settings": SETTINGS, "name": "found"}
    first = zoo.tune("fcn_numpy", "synthetic", trials=2, **how)
    again = zoo.tune("fcn_numpy", "synthetic", trials=2, workers=1, **how)
    assert (again.path, repr(again)) == (tmp_path / "found", repr(first))
    assert [trial.seconds for trial in again.trials] == [trial.seconds for trial in first.trials]
    with pytest.raises(UsageError, match="trials was 2 and is now 3"):
        zoo.tune("fcn_numpy", "synthetic", trials=3, **how)
    with pytest.raises(UsageError, match="epochs was 2 and is now 1"):
        zoo.tune("fcn_numpy", "synthetic", trials=2, **how, epochs=1)
    with pytest.raises(UsageError, match="is not a run"):
        train(tmp_path, "found")
    with pytest.raises(UsageError, match="is a tune"):
        zoo.sweep("fcn_numpy", "synthetic", grid={"lr": [0.1]}, **how)
    assert SearchFolder.find("latest", tmp_path, "tune").name == "found"
    assert not SearchFolder.every(tmp_path, "sweep")


KILLS = """
import os, signal, sys
from pathlib import Path
from zoo_core.train import learner, runner
real, left = learner.Learner.step, int(sys.argv[2])
def step(self, batch, place):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    real(self, batch, place)
learner.Learner.step = step
sys.argv = ["zoo", *sys.argv[3:]]
from zoo_core.cli.main import main
main()
"""


@pytest.mark.slow
def test_killed_again_and_again_the_same_command_ends_with_the_same_bytes(tmp_path):
    command = ["train", "fcn_numpy", "--dataset", "synthetic", "--epochs", "2", "--quiet", "--json"]
    command += ["--set", "data.train_size=64", "--set", "batch_size=8", "--no-report"]
    command += ["--checkpoint-every", "0.000001", "--name", "night", "--runs"]

    def run(runs, steps):
        return subprocess.run(
            [sys.executable, "-c", KILLS, "-", str(steps), *command, str(tmp_path / runs)],
            capture_output=True, text=True, timeout=300,
            env=environment(ZOO_CACHE=str(tmp_path / "cache")),
        )  # fmt: skip

    for steps in (0, 3, 1, 5):
        assert run("killed", steps).returncode == -signal.SIGKILL
    done, whole = run("killed", 100), run("whole", 100)
    assert done.returncode == whole.returncode == 0, done.stderr
    digests = [json.loads(one.stdout)["result"]["model"]["sha256"] for one in (done, whole)]
    assert digests[0] == digests[1]
