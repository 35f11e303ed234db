"""Pretraining without labels: what the loss compares, and what a classifier takes over."""

import json
import os

import numpy as np
import pytest
import torch
from fixtures import kills
from safetensors.numpy import load_file
from support import ROOT
from zoo_ssl.grey import LUMA, Grey
from zoo_ssl.simclr import Contrast, SimCLR, altered

import zoo
from zoo import kit
from zoo.testing import main

SMALL = {"channels": [8, 8], "hidden": 16}
TINY = {
    "epochs": 1,
    "batch_size": 16,
    "preprocess": {"size": 16},
    "model": {**SMALL, "projection": 8},
    "data": {"train_size": 64, "test_size": 40},
}


def make_task(**settings):
    torch.manual_seed(0)
    model = SimCLR(image_size=16, **SMALL, projection=8)
    recipe = zoo.Recipe(task=settings)
    return model, Contrast(model, recipe, zoo.open_dataset("synthetic", train_size=10).targets)


def batch(count=6):
    first, second = torch.rand(2, count, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    return zoo.Batch(first, None, np.arange(count), second=second)


def test_the_loss_is_the_cross_entropy_of_finding_the_other_version():
    model, task = make_task(temperature=0.3)
    pair = batch(3)
    with torch.inference_mode():
        loss, found = task.compare(model.eval(), pair.images, pair.second)
    codes = model.codes(torch.cat([pair.images, pair.second])).detach().double()
    for number in range(3):
        wanted = 0.0
        for one, other in ((number, number + 3), (number + 3, number)):
            scores = torch.stack([codes[one] @ codes[k] / 0.3 for k in range(6) if k != one])
            wanted += float(torch.logsumexp(scores, 0) - codes[one] @ codes[other] / 0.3) / 2
        assert float(loss[number]) == pytest.approx(wanted, rel=1e-4)
    assert set(found.tolist()) <= {0.0, 0.5, 1.0}


def test_equal_versions_are_found_and_a_step_reaches_every_parameter():
    model, task = make_task()
    pair = batch()
    _, found = task.compare(model.eval(), pair.images, pair.images)
    assert found.tolist() == [1.0] * 6
    reached = {}

    def update(name, loss):
        gradients = torch.autograd.grad(loss, list(task.parameters(name)), allow_unused=True)
        reached[name] = [gradient is not None for gradient in gradients]

    figures = task.step(pair, update)
    assert list(reached) == ["model"] and all(reached["model"])
    assert set(figures) == set(task.figures)


def test_the_change_of_an_evaluation_keeps_shape_and_draws_nothing():
    images = batch().images
    assert altered(images).shape == images.shape
    assert torch.equal(altered(images), altered(images))
    assert not torch.equal(altered(images), images)


def test_grey_takes_the_colours_of_its_share_of_the_images():
    rng = np.random.default_rng(0)
    split = zoo.Split(rng.integers(0, 256, (200, 8, 8, 3), dtype=np.uint8), None)
    plain = zoo.Preprocess(8, 3, (0.0,), (1 / 255,))
    how = {"batch_size": 200, "preprocess": plain, "shuffle": False, "backend": "numpy"}
    images = kit.Loader(split, augment=("grey:0.25",), **how).batch(0, 0).images
    before = split.images.transpose(0, 3, 1, 2)
    grey = (images[:, :1] == images).all((1, 2, 3))
    assert 30 < grey.sum() < 70
    assert np.allclose(images[~grey], before[~grey], atol=0.51)
    luma = np.tensordot(before, LUMA, (1, 0))
    assert np.allclose(images[grey, 0], luma[grey], atol=0.51)
    one_channel = np.zeros((2, 8, 8, 1), np.uint8)
    assert Grey(1.0).run(None, one_channel, None) is one_channel


def trained(model, runs, *settings):
    """The run of a training without a report, which would take longer than all the rest."""
    few = ("epochs=1", "batch_size=16", "preprocess.size=16", "data.train_size=64",
           "data.test_size=40", "model.channels=8,8", "model.hidden=16")  # fmt: skip
    words = [word for setting in (*few, *settings) for word in ("--set", setting)]
    with pytest.raises(SystemExit) as ended:
        main(["train", model, "--dataset", "synthetic", "--runs", str(runs), "--no-report", *words])
    assert ended.value.code == 0
    (run,) = runs.glob(f"{model}-*")
    return run


def test_a_classifier_starts_from_all_but_its_last_layer(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    runs = tmp_path / "runs"
    first = trained("simclr_cnn", runs, "model.projection=8")
    capsys.readouterr()
    # A rate of almost 0 leaves what it starts from as it is.
    then = ("augment=", "lr=1e-12", "weight_decay=0", "ema=0", f"init={first}")
    second = trained("cnn", runs, *then)
    assert "new: head.4.weight, head.4.bias." in "".join(capsys.readouterr())
    theirs, ours = (load_file(run / "model.safetensors") for run in (first, second))
    new = {"head.4.weight", "head.4.bias"}
    assert ours.keys() - theirs.keys() == new
    for name in ours.keys() - new:
        if "running" not in name and "num_batches" not in name:
            np.testing.assert_allclose(ours[name], theirs[name], atol=1e-6, err_msg=name)


def test_it_has_its_own_figures_and_answers_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    run = trained("simclr_cnn", tmp_path / "runs", "model.projection=8")
    known = json.loads((run / "run.json").read_text())["result"]["test"]
    assert set(known) == {"loss", "found"}
    assert zoo.evaluate(run)["loss"] == pytest.approx(known["loss"], rel=1e-5)
    with pytest.raises(zoo.ZooError, match="simclr_cnn"):
        zoo.predict(run, [np.zeros((16, 16, 3), np.uint8)])


@pytest.mark.parametrize("temperature", [0, -1.0, "warm"])
def test_a_temperature_that_cannot_work_is_refused_before_a_run_starts(temperature, tmp_path):
    settings = {**TINY, "task": {"temperature": temperature}}
    with pytest.raises(zoo.ZooError, match="temperature is a number above 0"):
        zoo.train("simclr_cnn", "synthetic", runs=tmp_path, quiet=True, settings=settings)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks its children")
def test_killed_and_resumed_it_ends_with_the_same_bytes(tmp_path):
    how = {**TINY, "epochs": 2, "label_smoothing": 0.0, "mixup": 0.0, "validation_fraction": 0.2}
    driver = ROOT / "tests" / "train" / "kill_driver.py"
    arguments = tmp_path, 2, 1, "simclr_cnn", 0, json.dumps(how)
    done = kills.drive(driver, *arguments, ZOO_CACHE=str(tmp_path), OMP_NUM_THREADS="1")
    assert done["killed"] == done["whole"]
