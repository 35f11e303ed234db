"""A run that is killed and resumed ends with the same bytes as one that is not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import environment

DRIVER = Path(__file__).with_name("kill_driver.py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks its children")


# Two networks, two optimisers, averaged weights and spectral norm's vectors, which also change.
ACGAN = {
    "epochs": 2, "batch_size": 8, "optimizer": "adam", "lr": 1e-3, "label_smoothing": 0.0,
    "mixup": 0.0, "clip_grad": 0.0, "augment": ["flip"], "patience": 0, "restore_best": False,
    "model": {"image_size": 16, "width": 8, "noise": 8, "spectral_norm": True},
    "preprocess": {"size": 16},
}  # fmt: skip


def drive(folder, kills, seed, cache, model="cnn", settings=None):
    arguments = [folder, str(kills), str(seed), model]
    done = subprocess.run(
        [sys.executable, DRIVER, *arguments, *([json.dumps(settings)] if settings else [])],
        capture_output=True,
        text=True,
        timeout=900,
        env=environment(ZOO_CACHE=str(cache)),
    )
    assert done.returncode == 0, done.stderr
    killed, undisturbed, disturbed = done.stdout.split()
    assert disturbed == undisturbed
    return int(killed)


def test_killed_at_many_points_it_ends_with_the_same_weights(tmp_path):
    killed = drive(tmp_path, 8, 1, tmp_path)
    assert killed >= 3, "the training was over before it could be killed"


def test_two_optimisers_killed_at_many_points_end_with_the_same_weights(tmp_path):
    killed = drive(tmp_path, 6, 1, tmp_path, "acgan", ACGAN)
    assert killed >= 3, "the training was over before it could be killed"


@pytest.mark.slow
def test_killed_fifty_times_it_ends_with_the_same_weights(tmp_path):
    kills = round_ = 0
    while kills < 50:
        kills += drive(tmp_path / f"round-{round_}", 10, round_, tmp_path)
        round_ += 1
