"""zoo pick from images to a recipe: what it leaves out, chooses, keeps, and goes on with."""

import json
import subprocess
import sys

import numpy as np
import pytest
import zoo_pick.contest
from click.testing import CliRunner
from zoo_pick.command import pick_command
from zoo_pick.pick import parse_budget
from zoo_pick.work import Hand

import zoo

SIZE = 8


@pytest.fixture
def images(tmp_path):
    """Grey images of two classes: bright on the left, or on the right."""
    draw = np.random.default_rng(0)
    labels = np.arange(240) % 2
    pixels = draw.integers(0, 120, (240, SIZE, SIZE), np.uint8)
    for label, half in ((0, slice(0, SIZE // 2)), (1, slice(SIZE // 2, SIZE))):
        pixels[labels == label, :, half] += 100
    path = tmp_path / "halves.npz"
    np.savez(path, images=pixels, labels=labels)
    return path


def small(images, tmp_path, **how):
    given = {"budget": "10m", "models": ["fcn_numpy", "lenet_numpy", "vae"], "quiet": True}
    return zoo.pick(images, runs=tmp_path / "runs", **{**given, **how})


def test_a_model_is_picked_and_its_recipe_trains(images, tmp_path):
    found = small(images, tmp_path, name="first")
    assert found.model == "fcn_numpy" and found.best.score > 0.9
    assert found.left_out["vae"] == "it does generation, not classification"
    assert "8" in found.left_out["lenet_numpy"]  # it needs 28 pixels
    assert found.recommendation.startswith("Take fcn_numpy: ")
    report = (found.path / "report.md").read_text("utf-8")
    assert found.recommendation in report and "it does generation" in report
    assert (found.path / "pictures" / "front.png").exists()
    assert str(found.path) in found.to_dict()["pick"].as_posix() and "Take" in found._repr_html_()
    command = [
        sys.executable,
        "-m",
        "zoo",
        "train",
        "--config",
        found.recipe,
        "--no-report",
        "--json",
    ]
    trained = json.loads(subprocess.check_output([*command, "--runs", tmp_path / "own"]))
    assert trained["model"]["name"] == "fcn_numpy"
    assert trained["result"]["epochs"] == found.best.epochs

    lines = (found.path / "trials.jsonl").read_text("utf-8")
    again = small(images, tmp_path, name="first", train=True)  # nothing is left to do but train
    assert (again.path / "trials.jsonl").read_text("utf-8") == lines
    assert again.trained.split == "test" and again.trained.accuracy > 0.9
    with pytest.raises(zoo.UsageError, match="started with models"):
        small(images, tmp_path, name="first", models=["fcn_numpy"])


def test_a_pick_that_was_stopped_does_nothing_twice(images, tmp_path, monkeypatch):
    ended = zoo_pick.contest.Contest.end
    seen = []

    def stop(self, plan, told):
        ended(self, plan, told)
        seen.append((plan.candidate.name, plan.rung))
        if len(seen) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(zoo_pick.contest.Contest, "end", stop)
    with pytest.raises(zoo.Interrupted, match="saved") as stopped:
        small(images, tmp_path, name="x", models=["fcn_numpy"])
    assert "--name x" in stopped.value.hint
    document = json.loads((tmp_path / "runs" / "x" / "pick.json").read_text("utf-8"))
    assert document["status"] == "interrupted" and document["spent"] > 0
    found = small(images, tmp_path, name="x", models=["fcn_numpy"])
    assert found.best and seen[:2] == [("fcn_numpy", 0), ("fcn_numpy", 1)]
    assert len(seen) == len(set(seen)) == len(found.race.records)


def test_the_command_prints_what_python_gives(images, tmp_path):
    words = [images, "--budget", "10m", "--model", "fcn_numpy", "--max-mb", "0.001", "--json"]
    done = CliRunner().invoke(pick_command, [*map(str, words), "--runs", str(tmp_path / "runs")])
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert (
        document["recommended"] is None and "more than 0.001" in document["left_out"]["fcn_numpy"]
    )


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"budget": "20"}, "a budget cannot be '20'"),
        ({"budget": "1s"}, "too short"),
        ({"settings": {"lr": 0.1}}, "lr is not the same for all models"),
        ({"models": ["vae"]}, "no installed model does classification"),
        ({"workers": 0}, "at least 1"),
        ({"name": "../x"}, "cannot name a folder"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_written(how, sentence, images, tmp_path):
    with pytest.raises(zoo.ZooError, match=sentence):
        small(images, tmp_path, **how)
    assert not (tmp_path / "runs").exists()


def test_images_without_labels_and_objects_are_refused(tmp_path):
    path = tmp_path / "bare.npy"
    np.save(path, np.zeros((40, SIZE, SIZE), np.uint8))
    with pytest.raises(zoo.DataError, match="no labels"):
        small(path, tmp_path)
    with pytest.raises(zoo.UsageError, match="object of this program"):
        small((np.zeros((4, 8, 8), np.uint8), [0, 1, 0, 1]), tmp_path)


def test_budgets_are_read():
    assert [parse_budget(text) for text in ("90s", "20m", "1.5h", 45)] == [90, 1200, 5400, 45]


class Sleeper(Hand):
    code = """
import os, signal, time
from zoo_pick.work import serve

def work(given):
    print("noise")
    if given == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        given = 1000
    if given == "die":
        os._exit(3)
    if given == "fail":
        raise ValueError("no such thing")
    time.sleep(given)
    return given

serve(work)
"""


def test_what_hangs_is_ended_and_the_next_piece_runs():
    hand = Sleeper()
    assert hand.ask(0, 60) == ("done", 0)
    state, why = hand.ask(1000, 0.3)
    assert (state, why) == ("late", "it did not end within 0 s")
    assert hand.ask("stubborn", 0.3)[0] == "late"
    assert hand.ask(0, 60) == ("done", 0)
    assert hand.ask("fail", 60)[0] == "failed" and "no such thing" in hand.ask("fail", 60)[1]
    assert hand.ask("die", 60) == ("failed", "its process died, for want of memory perhaps")
    assert hand.ask(0, 60) == ("done", 0)
    hand.end()


@pytest.mark.slow
def test_a_model_that_hangs_costs_no_more_than_its_time(images, tmp_path, monkeypatch):
    code = """
import time
from zoo_pick import work

plain = work.kit.attempt

def attempt(model, *given, **how):
    if "lenet" in model:
        time.sleep(10_000)
    return plain(model, *given, **how)

work.kit.attempt = attempt
work.serve()
"""
    monkeypatch.setattr(Hand, "code", code)
    monkeypatch.setattr("zoo_pick.work._own", [])
    found = small(images, tmp_path, budget="2m")
    assert found.model == "fcn_numpy" and "did not end" in found.left_out["lenet_numpy"]
