"""The networks in the zoo: trained, killed and resumed, without torch; and as torch would do it."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from fixtures import kills
from support import ROOT, environment
from zoo_numpy import Tensor, nn
from zoo_numpy.trainer import NumpyLearner, NumpyTrainer

import zoo
from zoo.testing import job_of

SMALL = {"channels": 1, "image_size": 28, "train_size": 300, "test_size": 60}
MODELS = ("fcn_numpy", "lenet_numpy")


def make_job(name, **settings):
    return job_of(name, batch_size=32, data={**SMALL, "classes": 10}, **settings)


def steps(learner, job, start, end):
    """Some steps of the first epoch; the rate changes, as in a schedule."""
    loader = job.training_loader(**learner.loading())
    for k in range(start, end):
        batch = loader.batch(0, k)
        learner.step(batch, zoo.Position(0, k, k, job.recipe.lr / (k + 1), len(batch)))


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("name", MODELS)
def test_every_recipe_builds_what_the_entry_declares(name):
    entry, trainer = zoo.info(name), NumpyTrainer()
    assert {"paper", "default"} <= set(entry.recipes)
    for recipe in entry.recipes.values():
        config = {**entry.options, **recipe.model}
        model = trainer.build(entry, config)
        about = trainer.describe(model)
        if config == entry.options:
            assert about.trainable == about.total == entry.parameters
        state = model.state_dict()
        assert trainer.tensor_spec(entry, config) == {
            name: (array.shape, str(array.dtype)) for name, array in state.items()
        }
        assert about.bytes == sum(array.nbytes for array in state.values())
    assert entry.framework == "numpy"


def test_training_evaluating_and_predicting_import_no_torch(tmp_path):
    from PIL import Image

    Image.fromarray(np.full((28, 28), 200, np.uint8)).save(tmp_path / "picture.png")
    code = """
import json, sys
from zoo.testing import main
data = [f"--set=data.{k}={v}" for k, v in json.loads(sys.argv[1]).items()]
fast = ["--epochs=4", "--set=batch_size=32", "--set=lr=0.02"]
for arguments in (
    ["train", "lenet_numpy", "--dataset=synthetic", "--quiet", *data, *fast],
    ["evaluate", "latest", "--json"],
    ["predict", "latest", "picture.png", "--json"],
):
    try:
        main(arguments)
    except SystemExit as end:
        assert not end.code, arguments
    print("#", "torch" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(SMALL)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(ZOO_CACHE=str(tmp_path / "cache"), OMP_NUM_THREADS="1"),
    )
    assert done.returncode == 0, done.stderr
    _, evaluated, predicted, _ = done.stdout.split("# False\n")
    (run,) = (tmp_path / "runs").iterdir()
    document = json.loads((run / "run.json").read_text())
    assert document["result"]["test"]["accuracy"] == json.loads(evaluated)["accuracy"]
    assert document["environment"]["threads"] == 1
    assert "blas" in document["environment"]
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 4
    assert (run / "report.md").exists()
    assert len(json.loads(predicted)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks its children")
@pytest.mark.parametrize("count", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_killed_and_resumed_it_ends_with_the_same_weights(tmp_path, count):
    settings = {"data": {**SMALL, "train_size": 200 * count}, "model": {}, "augment": ["affine:10"]}
    driver = ROOT / "tests" / "train" / "kill_driver.py"
    arguments = tmp_path, count, 1, "lenet_numpy", 0, json.dumps(settings)
    done = kills.drive(driver, *arguments, ZOO_CACHE=str(tmp_path), OMP_NUM_THREADS="1")
    assert done["killed"] == done["whole"]


def test_mse_is_the_squared_distance_to_the_wanted_probabilities():
    job = make_job("fcn_numpy", task={"loss": "mse"}, label_smoothing=0.1)
    model = NumpyTrainer().build(job.entry, job.config)
    learner = NumpyLearner(job, model)
    batch = job.training_loader(**learner.loading()).batch(0, 0)
    wanted = np.eye(10)[batch.labels] * 0.9 + 0.01
    expected = ((model(Tensor(batch.images)).data - wanted) ** 2).mean()
    steps(learner, job, 0, 1)
    assert learner.totals()["loss"] == pytest.approx(expected, rel=1e-5)


def test_dropout_goes_on_where_it_was_and_is_new_at_every_step():
    job = make_job("fcn_numpy", optimizer="adam", lr=0.01)

    def learner():
        rng = np.random.default_rng(3)
        layers = nn.Flatten(), nn.Linear(784, 30, generator=rng), nn.Dropout(0.5)
        return NumpyLearner(job, nn.Sequential(*layers, nn.Dropout(0.2), nn.Linear(30, 10)))

    first, second = learner(), learner()
    second.model.load_state_dict(first.model.state_dict())
    steps(first, job, 0, 3)
    second.load(first.state())
    steps(first, job, 3, 6)
    steps(second, job, 3, 6)
    assert same(first.weights(), second.weights())
    assert first.totals() == second.totals()
    masks = []
    batch = zoo.Batch(np.ones((4, 1, 28, 28), np.float32), np.arange(4), np.arange(4))
    for k in (0, 1, 0):
        first.step(batch, zoo.Position(0, k, k, 0.0, 4))
        layer = next(m for m in first.model.modules() if isinstance(m, nn.Dropout))
        masks.append(layer.generator.random(5).tolist())
    assert masks[0] == masks[2] != masks[1]


def test_the_seed_decides_the_weights():
    def fit(seed):
        return NumpyTrainer().fit(make_job("fcn_numpy", seed=seed, augment=("flip",))).tensors

    one, twin, other = map(fit, (1, 1, 2))
    assert same(one, twin)
    assert not same(one, other)


def test_a_loss_that_is_no_number_stops_it_with_a_sentence():
    job = make_job("fcn_numpy", optimizer="sgd", lr=1e30)
    model = NumpyTrainer().build(job.entry, job.config)
    with pytest.raises(zoo.TrainingError, match="not a finite number in epoch 1"):
        zoo.Loop(NumpyLearner(job, model), job).fit()


@pytest.mark.parametrize(
    ("settings", "device", "reason"),
    [
        ({"compile": True}, "auto", "does not use compile"),
        ({"precision": "bfloat16"}, "auto", "bfloat16"),
        ({}, "cuda", "no device 'cuda'"),
        ({"task": {"loss": "hinge"}}, "cpu", "task.loss of model 'fcn_numpy' cannot be 'hinge'"),
        ({"task": {"beta": 1.0}}, "cpu", "'beta'"),
    ],
)
def test_what_it_cannot_do_it_refuses_before_there_is_a_run(
    settings, device, reason, tmp_path, monkeypatch
):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    settings = {**settings, "data": SMALL}
    with pytest.raises(zoo.OptionError, match=reason):
        zoo.train(
            "fcn_numpy", "synthetic", settings=settings, device=device, runs=tmp_path / "runs"
        )
    assert not (tmp_path / "runs").exists()


def test_it_refuses_to_be_one_of_several_processes(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(zoo.OptionError, match="one process"):
        NumpyTrainer().check(make_job("fcn_numpy"))
