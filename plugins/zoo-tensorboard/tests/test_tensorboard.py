"""What TensorBoard would read, read here record by record."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

import zoo
from zoo.testing import checks_of

SMALL = {"train_size": 40, "test_size": 20, "channels": 1, "image_size": 28}


def scalars(run: Path) -> dict[str, dict[int, float]]:
    """All figures of a run by name and epoch. A record is a length, a sum, data, a sum."""
    from tensorboard.compat.proto.event_pb2 import Event

    found: dict[str, dict[int, float]] = {}
    for path in sorted((run / "tensorboard").glob("events*")):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event = Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def train(folder: Path, **changes):
    return zoo.train(
        "fcn_numpy", "synthetic", data=SMALL, runs=folder, quiet=True, **({"epochs": 2} | changes)
    )


def test_every_figure_of_every_epoch_is_there(tmp_path):
    run = train(tmp_path).run
    found = scalars(run.path)
    for line in run.metrics():
        assert found["loss/train"][line["epoch"]] == pytest.approx(line["train_loss"])
        assert found["accuracy/test"][line["epoch"]] == pytest.approx(line["test_accuracy"])
    assert set(found["loss/test"]) == {1, 2}


def test_a_run_that_fails_leaves_what_it_had(tmp_path):
    with pytest.raises(zoo.ZooError, match="not a finite number|not a number|nan"):
        train(tmp_path, lr=1e30, epochs=3)
    (run,) = tmp_path.iterdir()
    assert list((run / "tensorboard").glob("events*"))


def test_it_needs_no_torch_for_models_that_need_none(tmp_path):
    code = (
        "import sys, zoo; "
        f"zoo.train('fcn_numpy', 'synthetic', data={SMALL}, runs={str(tmp_path)!r}, epochs=1, "
        "quiet=True); "
        "assert 'tensorboard' in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def board(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "zoo", "tensorboard", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"no_proxy": "localhost"},
    )


@pytest.mark.parametrize(
    "end", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_the_command_serves_all_runs_until_it_is_ended(tmp_path, end):
    run = train(tmp_path).run
    with board("--runs", str(tmp_path), "--port", "0") as process:
        try:
            url, _, said = process.stdout.readline().partition(" ")
            assert said == f"shows the runs in {tmp_path}; Ctrl-C ends it\n"
            assert b"<title>TensorBoard</title>" in urlopen(url).read()
            log, points = f"{run.name}/tensorboard", []
            scalars = f"{url}data/plugin/scalars"
            while len(points) < 2:  # it reads the files in the background
                time.sleep(0.1)
                if "loss/test" in json.load(urlopen(f"{scalars}/tags")).get(log, ()):
                    query = urlencode({"run": log, "tag": "loss/test"})
                    points = json.load(urlopen(f"{scalars}/scalars?{query}"))
            assert [step for _, step, _ in points] == [1, 2]
        finally:
            process.send_signal(end)
        _, stderr = process.communicate(timeout=300)
    assert process.returncode == 0 and stderr == ""


def test_a_port_that_is_taken_is_a_sentence(tmp_path):
    train(tmp_path, epochs=1)
    with socket.create_server(("localhost", 0)) as taken:
        process = board("--runs", str(tmp_path), "--port", str(taken.getsockname()[1]))
        _, stderr = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "already in use.\nHint: choose another with --port" in stderr


def test_without_logs_the_command_says_how_to_get_some(tmp_path):
    for folder, hint in (("nowhere", "zoo train MODEL writes some; --runs names another"),
                         ("runs", "runs that were trained without zoo-tensorboard")):  # fmt: skip
        with board("--runs", str(tmp_path / folder)) as process:
            _, stderr = process.communicate(timeout=300)
        assert process.returncode == 1
        assert f"Error: there are no TensorBoard logs in {tmp_path / folder}" in stderr
        assert f"Hint: {hint}" in stderr
        result = train(tmp_path / "runs", epochs=1)
        for path in (result.path / "tensorboard").iterdir():
            path.unlink()


@pytest.mark.parametrize("check", checks_of("tensorboard"), ids=str)
def test_it_keeps_its_promises(check):
    check()
