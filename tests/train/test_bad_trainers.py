"""A trainer that goes wrong ends its run with a sentence, and leaves no bad weights behind."""

import json
from dataclasses import replace

import numpy as np
import pytest
from zoo_numpy.trainer import NumpyTrainer

import zoo
from zoo.testing import main

SMALL = {"epochs": 1, "batch_size": 30, "data": {"train_size": 60, "test_size": 20}}
BIAS = "layers.1.bias"


@pytest.fixture
def train(tmp_path):
    def train():
        return zoo.train("fcn_numpy", "synthetic", runs=tmp_path / "runs", quiet=True, **SMALL)

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
        (in_double, f"{BIAS} is float64 instead of float32"),
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
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "Error: zoo evaluate raised IndexError: index 7 is out of bounds.",
        "Hint: the same command with --debug shows the traceback",
    ]
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
