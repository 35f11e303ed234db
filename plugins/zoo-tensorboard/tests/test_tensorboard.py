"""What TensorBoard would read, read here record by record."""

import struct
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize("check", checks_of("tensorboard"), ids=str)
def test_it_keeps_its_promises(check):
    check()
