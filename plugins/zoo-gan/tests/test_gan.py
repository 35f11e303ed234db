"""The adversarial networks: both sides learn, nothing is mixed up, and failure is noticed."""

import numpy as np
import pytest
import torch
from torch import nn
from zoo_gan.acgan import ACGAN, ACGANTask
from zoo_gan.dcgan import DCGAN, DCGANTask

import zoo

SMALL = {"image_size": 16, "width": 8, "noise": 6}


def batch(count=8):
    rng = torch.Generator().manual_seed(0)
    images = torch.rand(count, 3, 16, 16, generator=rng) * 2 - 1
    return zoo.Batch(images, torch.arange(count) % 3, np.arange(count))


def make(kind, **options):
    torch.manual_seed(0)
    if kind == "dcgan":
        model = DCGAN(**SMALL, **options)
        return model, DCGANTask(model, zoo.Recipe(), ())
    model = ACGAN(num_classes=3, **SMALL, **options)
    return model, ACGANTask(model, zoo.Recipe(), ("a", "b", "c"))


@pytest.mark.parametrize("kind", ["dcgan", "acgan"])
@pytest.mark.parametrize("size", [8, 32, 64])
def test_samples_have_the_size_of_the_pictures(kind, size):
    entry = zoo.info(kind)
    model = zoo.create(kind, image_size=size, width=8)
    noise = torch.randn(2, entry.config["noise"])
    model.eval()
    made = model.generator(noise) if kind == "dcgan" else model.generate(noise, torch.arange(2))
    assert made.shape == (2, 3, size, size)
    assert made.abs().max() <= 1
    with pytest.raises(zoo.ZooError, match="8, 16, 32, 64"):
        zoo.create(kind, image_size=size + 4)


@pytest.mark.parametrize("kind", ["dcgan", "acgan"])
def test_each_loss_reaches_all_parameters_of_its_side(kind):
    model, task = make(kind)
    model.train()
    reached = {}

    def update(name, loss):
        parameters = list(task.parameters(name))
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
        reached[name] = [g is not None and bool(g.any()) for g in gradients]

    figures = task.step(batch(), update)
    assert list(reached) == ["discriminator", "generator"]
    assert all(map(all, reached.values()))
    assert not {"real", "fake"} & set(figures)
    assert all(value.ndim == 0 and not value.requires_grad for value in figures.values())


def test_the_class_of_a_sample_is_in_the_generators_loss():
    model, task = make("acgan")
    pictures = batch()
    fakes = task.generate(model, pictures)
    asked = task.deceive(model, pictures, fakes)
    model.eval()
    with torch.no_grad():
        model.discriminator.name[1].bias.copy_(torch.tensor([50.0, 0, 0]))
    assert task.deceive(model, pictures, fakes) > asked + 10  # all are taken for class 0


def test_no_direction_grows_under_spectral_norm():
    model, _ = make("dcgan", spectral_norm=True)
    model.train()
    for _ in range(30):  # the norm is found step by step
        model.discriminator(batch().images)
    model.eval()
    for layer in model.discriminator.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            largest = torch.linalg.matrix_norm(layer.weight.flatten(1), 2)
            assert float(largest.detach()) == pytest.approx(1, abs=0.05)


def test_a_winning_discriminator_and_samples_that_are_alike_are_said():
    _, task = make("dcgan")
    good = {"train_discriminator_accuracy": 0.8, "test_diversity": 0.9}
    assert task.remarks([good]) == [] == task.remarks([])
    (won,) = task.remarks([{**good, "train_discriminator_accuracy": 0.999}])
    assert "has won" in won
    (alike,) = task.remarks([{**good, "test_diversity": 0.1}])
    assert "10%" in alike


def test_diversity_is_the_spread_of_samples_beside_that_of_real_pictures():
    model, task = make("dcgan")
    real = batch(64)
    task.generate = lambda model, batch: 0.25 * batch.images + 0.3
    with torch.inference_mode():
        figures = task.evaluate(model.eval(), iter([real]), lambda sums: sums)
    assert figures["diversity"] == pytest.approx(0.25, rel=1e-4)


@pytest.mark.parametrize("spectral", [False, True])
def test_a_trained_one_is_published_with_all_that_it_needs(spectral, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    few = {"epochs": 1, "batch_size": 16, "data": {"train_size": 48, "test_size": 16}}
    settings = {**few, "model": {**SMALL, "spectral_norm": spectral}}
    result = zoo.train("acgan", "synthetic", runs=tmp_path / "runs", quiet=True, settings=settings)
    assert "accuracy" in result.metrics and "diversity" in result.metrics
    again = zoo.evaluate(result.path)
    for name in ("loss", "accuracy", "diversity"):
        assert again[name] == pytest.approx(result.metrics[name], rel=1e-6), name
