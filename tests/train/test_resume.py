"""A run that is killed and resumed ends with the same bytes as one that is not."""

import json
import os
from pathlib import Path

import pytest
from fixtures import kills

from zoo_core.io.errors import Interrupted
from zoo_core.runs.run import Run
from zoo_core.train import runner as training

DRIVER = Path(__file__).with_name("kill_driver.py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks its children")

EVERY_STEP, EVERY_EPOCH = 0, 3600  # seconds between checkpoints
FEW = {"train_size": 200, "test_size": 50}

# Two networks, two optimisers, averaged weights and spectral norm's vectors, which also change.
ACGAN = {
    "epochs": 4, "batch_size": 16, "optimizer": "adam", "lr": 1e-3, "label_smoothing": 0.0,
    "mixup": 0.0, "clip_grad": 0.0, "augment": ["flip"], "patience": 0, "restore_best": False,
    "model": {"image_size": 16, "width": 8, "noise": 8, "spectral_norm": True},
    "preprocess": {"size": 16}, "data": FEW,
}  # fmt: skip


def drive(folder, cache, count, seed, seconds, model="cnn", settings=None):
    settings = json.dumps(settings or {})
    done = kills.drive(DRIVER, folder, count, seed, model, seconds, settings, ZOO_CACHE=str(cache))
    assert done["killed"] == done["whole"]
    return done["events"]


def test_killed_and_resumed_it_ends_with_the_same_weights(tmp_path):
    drive(tmp_path, tmp_path, 2, 1, EVERY_STEP, settings={"data": FEW})


def test_killed_right_before_its_end_it_makes_the_same_remarks(tmp_path, monkeypatch):
    """The figures of the test set stand in metrics.jsonl then, and not before."""
    few = ACGAN | {"epochs": 1, "data": {"train_size": 32, "test_size": 16}, "lr": 1e-9}
    how = {"quiet": True, "device": "cpu", "checkpoint_seconds": 0, "runs": tmp_path}
    whole = training.train("acgan", "synthetic", settings=few, **how).run
    write = Run.write

    def killed(self, document):
        if document["status"] == "complete":
            raise KeyboardInterrupt
        write(self, document)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "write", killed)
        with pytest.raises(Interrupted):
            training.train("acgan", "synthetic", settings=few, **how)
    again = training.resume("latest", **how).run
    assert again.path != whole.path
    results = [run.read()["result"].get("remarks") for run in (whole, again)]
    assert results[0] == results[1]


@pytest.mark.slow
def test_killed_between_checkpoints_it_repeats_the_steps_that_were_lost(tmp_path):
    """Two optimisers, and an epoch between two checkpoints."""
    drive(tmp_path, tmp_path, 4, 1, EVERY_EPOCH, "acgan", ACGAN)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [EVERY_STEP, EVERY_EPOCH])
def test_killed_fifty_times_it_ends_with_the_same_weights(tmp_path, seconds):
    for seed in range(5):
        drive(tmp_path / str(seed), tmp_path, 10, seed, seconds)
