"""A trainer that goes wrong ends its run with a sentence, and leaves no bad weights behind."""

import errno
import json
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
from zoo_numpy.trainer import NumpyTrainer

import zoo
from zoo.testing import main
from zoo_core.runs.run import Run
from zoo_core.spec.plugins import Plugins
from zoo_core.train import runner

SMALL = {"epochs": 1, "batch_size": 30, "data": {"train_size": 60, "test_size": 20}}
BIAS = "layers.1.bias"


@pytest.fixture
def train(tmp_path):
    def train():
        where = {"runs": tmp_path / "runs", "quiet": True}
        return runner.train("fcn_numpy", "synthetic", settings=SMALL, **where)

    return train


def ended(tmp_path):
    (run,) = (tmp_path / "runs").iterdir()
    document = json.loads((run / "run.json").read_text())
    return document["status"], document["error"], (run / "model.safetensors").exists()


def fitting(monkeypatch, change):
    """The trainer of fcn_numpy, whose result is changed before it gives it back."""
    real = NumpyTrainer.fit
    monkeypatch.setattr(NumpyTrainer, "fit", lambda self, job: change(real(self, job)))


def test_there_is_a_bias_to_leave_out(train):
    assert BIAS in zoo.load(train().path).state_dict()


def without_bias(fitted):
    return replace(fitted, tensors={k: v for k, v in fitted.tensors.items() if k != BIAS})


def not_finite(fitted):
    return replace(fitted, tensors={**fitted.tensors, BIAS: fitted.tensors[BIAS] * np.nan})


def in_double(fitted):
    return replace(fitted, tensors={**fitted.tensors, BIAS: fitted.tensors[BIAS].astype(float)})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without_bias, f"{BIAS} is missing"),
        (not_finite, "finite"),
        (in_double, "mixes float32 and float64"),
    ],
)
def test_weights_that_could_not_be_loaded_again_are_not_kept(
    train, tmp_path, monkeypatch, change, reason
):
    fitting(monkeypatch, change)
    with pytest.raises(zoo.TrainingError, match="gave weights that cannot be loaded: .*" + reason):
        train()
    status, error, kept = ended(tmp_path)
    assert status == "failed" and reason in error and not kept


def test_something_else_than_a_result_is_named(train, tmp_path, monkeypatch):
    fitting(monkeypatch, lambda fitted: dict(fitted.tensors))
    with pytest.raises(zoo.TrainingError, match="returned dict, not zoo.Fitted"):
        train()
    assert ended(tmp_path)[0] == "failed"


def test_any_exception_of_a_plugin_is_a_sentence_that_names_it(train, tmp_path, monkeypatch):
    def fit(self, job):
        raise IndexError("list index out of range")

    monkeypatch.setattr(NumpyTrainer, "fit", fit)
    with pytest.raises(zoo.TrainingError) as raised:
        train()
    assert "'fcn_numpy' of plugin 'numpy' (zoo-numpy" in str(raised.value)
    assert "raised IndexError: list index out of range" in str(raised.value)
    assert isinstance(raised.value.__cause__, IndexError), "--debug shows where"


def test_what_a_plugin_raises_in_any_command_is_a_sentence(train, monkeypatch, capsys):
    run = str(train().path)

    def predict_batch(self, model, images):
        raise IndexError("index 7 is out of bounds")

    monkeypatch.setattr(NumpyTrainer, "predict_batch", predict_batch)
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", run])
    assert ended.value.code == 1
    error, hint = capsys.readouterr().err.splitlines()[-2:]
    assert error == "Error: zoo evaluate raised IndexError: index 7 is out of bounds."
    file = hint.removeprefix("Hint: ").removesuffix(" has the traceback; --debug shows it here")
    assert "in predict_batch" in Path(file).read_text()
    with pytest.raises(IndexError):
        main(["evaluate", run, "--debug"])


@pytest.mark.parametrize(("args", "code"), [((), 130), ((143,), 143)])
def test_an_interruption_outside_of_the_steps_says_how_to_resume(
    train, tmp_path, monkeypatch, args, code
):
    def fit(self, job):
        raise KeyboardInterrupt(*args)

    monkeypatch.setattr(NumpyTrainer, "fit", fit)
    with pytest.raises(zoo.Interrupted) as raised:
        train()
    (run,) = (tmp_path / "runs").iterdir()
    assert raised.value.hint == f"zoo train --resume {run}" and raised.value.exit_code == code
    assert ended(tmp_path)[0] == "interrupted"


def listening(monkeypatch, **hooks):
    """A plugin that listens with these hooks alone."""
    silent = dict.fromkeys(("zoo_run_started", "zoo_epoch_ended", "zoo_run_failed"), lambda **_: 0)
    plugin = SimpleNamespace(**{**silent, **hooks})
    monkeypatch.setattr(Plugins, "listeners", lambda self: {"noisy": plugin})


def raising(error):
    def hook(**_):
        raise error

    return hook


@pytest.mark.parametrize(("args", "code"), [((), 130), ((143,), 143)])
def test_a_run_stays_complete_though_a_listener_was_interrupted(
    train, tmp_path, monkeypatch, args, code
):
    listening(monkeypatch, zoo_run_ended=raising(KeyboardInterrupt(*args)))
    with pytest.raises(zoo.Interrupted, match="is complete") as raised:
        train()
    assert raised.value.exit_code == code
    assert ended(tmp_path) == ("complete", "", True)


def test_a_listener_that_exits_is_dropped_like_one_that_raises(
    train, tmp_path, monkeypatch, capsys
):
    listening(monkeypatch, zoo_run_ended=raising(SystemExit(3)))
    assert train().run.read()["status"] == "complete"
    listening(monkeypatch, zoo_epoch_ended=raising(SystemExit(3)), zoo_run_ended=raising(OSError()))
    assert train().run.read()["status"] == "complete"


def test_a_run_is_complete_from_the_moment_its_record_says_so(train, tmp_path, monkeypatch):
    real = Run.write

    def write(self, document):
        real(self, document)
        if document["status"] == "complete":
            raise KeyboardInterrupt

    monkeypatch.setattr(Run, "write", write)
    with pytest.raises(zoo.Interrupted, match="is complete"):
        train()
    assert ended(tmp_path) == ("complete", "", True)
    (run,) = (tmp_path / "runs").iterdir()
    assert not (run / "checkpoints").exists()


@pytest.mark.parametrize(
    "error",
    [URLError("no host"), BrokenPipeError(errno.EPIPE, "Broken pipe"), PermissionError(13, "No")],
)
def test_only_a_full_disk_asks_for_room(train, monkeypatch, error):
    def fit(self, job):
        raise error

    monkeypatch.setattr(NumpyTrainer, "fit", fit)
    with pytest.raises(zoo.TrainingError) as raised:
        train()
    assert f"raised {type(error).__name__}: " in str(raised.value)
    assert "room" not in raised.value.hint and "zoo train --resume" in raised.value.hint


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_a_command_in_a_hint_can_be_copied_whatever_the_folder_is_called(
    tmp_path, monkeypatch, number
):
    def fit(self, job):
        raise OSError(number, "it is full")

    monkeypatch.setattr(NumpyTrainer, "fit", fit)
    runs = tmp_path / "my $HOME runs"
    with pytest.raises(zoo.TrainingError) as raised:
        zoo.train("fcn_numpy", "synthetic", runs=runs, quiet=True, **SMALL)
    (run,) = runs.iterdir()
    _, _, command = raised.value.hint.partition("make room, then: ")
    assert shlex.split(command) == ["zoo", "train", "--resume", str(run)]


def test_stopped_in_the_last_evaluation_a_run_resumes_to_the_same_end(train, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    whole = train()
    with monkeypatch.context() as patched, pytest.raises(zoo.Interrupted) as raised:
        patched.setattr(runner, "measure_model", stop)
        train()
    run = Run(max((tmp_path / "runs").iterdir()))
    assert raised.value.hint == f"zoo train --resume {run.path}"
    assert run.read()["status"] == "interrupted"
    monkeypatch.setattr("zoo_core.report.write.write_report", lambda run, dataset: None)
    again = zoo.resume(runs=tmp_path / "runs", quiet=True)
    digests = [one.run.read()["result"]["model"]["sha256"] for one in (whole, again)]
    assert again.path == run.path and digests[0] == digests[1]
