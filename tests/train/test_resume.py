"""A run that is killed and resumed ends with the same bytes as one that is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import environment

DRIVER = Path(__file__).with_name("kill_driver.py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks its children")


def drive(folder, kills, seed, cache, model="cnn"):
    done = subprocess.run(
        [sys.executable, DRIVER, folder, str(kills), str(seed), model],
        capture_output=True,
        text=True,
        timeout=900,
        env=environment(ZOO_CACHE=str(cache)),
    )
    assert done.returncode == 0, done.stderr
    killed, digest = done.stdout.split()
    return int(killed), digest


def test_killed_at_many_points_it_ends_with_the_same_weights(tmp_path):
    _, undisturbed = drive(tmp_path / "whole", 0, 0, tmp_path)
    killed, disturbed = drive(tmp_path / "killed", 8, 1, tmp_path)
    assert killed >= 3, "the training was over before it could be killed"
    assert disturbed == undisturbed


@pytest.mark.slow
def test_killed_fifty_times_it_ends_with_the_same_weights(tmp_path):
    _, undisturbed = drive(tmp_path / "whole", 0, 0, tmp_path)
    kills = round_ = 0
    while kills < 50:
        killed, digest = drive(tmp_path / f"killed-{round_}", 10, round_, tmp_path)
        assert digest == undisturbed
        kills, round_ = kills + killed, round_ + 1
