"""The feature distance: a known formula, statistics that are made once, a judge that is named."""

import numpy as np
import pytest
from zoo_generate import distance
from zoo_generate.distance import Statistics, feature_distance, frechet

import zoo
from zoo_core.data.datasets import open_dataset
from zoo_core.io import console
from zoo_core.use.generate import Samples, load_sampler

SMALL = {"epochs": 1, "batch_size": 32, "data": {"train_size": 64, "test_size": 300}}


def test_the_distance_is_the_textbooks():
    from scipy.linalg import sqrtm

    rng = np.random.default_rng(0)
    one, other = (
        Statistics(rng.normal(size=5), np.cov(rng.normal(size=(5, 40)) * scale))
        for scale in (1.0, 2.0)
    )
    apart = ((one.mean - other.mean) ** 2).sum()
    root = sqrtm(one.covariance @ other.covariance).real
    wanted = apart + np.trace(one.covariance + other.covariance - 2 * root)
    assert frechet(one, other) == pytest.approx(wanted)
    assert frechet(other, one) == pytest.approx(wanted)
    assert frechet(one, one) == pytest.approx(0, abs=1e-9)


def test_a_feature_that_never_varies_is_no_problem():
    flat = Statistics(np.zeros(3), np.diag([1.0, 0.0, 0.0]))
    moved = Statistics(np.array([0.0, 2.0, 0.0]), np.diag([4.0, 0.0, 0.0]))
    assert frechet(flat, moved) == pytest.approx(4 + 1)  # (2 - 1)^2 for the spread


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distance")
    patch = pytest.MonkeyPatch()
    patch.setenv("ZOO_CACHE", str(folder / "cache"))
    how = {"runs": folder, "quiet": True, "settings": SMALL}
    judge = zoo.train("cnn", "synthetic", model={"channels": (4,), "hidden": 8}, **how).path
    vae = zoo.train("vae", "synthetic", model={"image_size": 8, "latent": 4}, **how).path
    patch.undo()
    return judge, vae


def test_real_images_are_nearer_than_noise_and_counted_once(trained, monkeypatch):
    judge, vae = map(str, trained)
    data = open_dataset("synthetic", **SMALL["data"])
    source, _ = load_sampler(vae)
    calls = []
    counted = distance.statistics
    monkeypatch.setattr(distance, "statistics", lambda *a: calls.append(len(a[1])) or counted(*a))

    class Fixed:
        def __init__(self, images):
            self.images = images

        def sample(self, count, seed, **how):
            return Samples(self.images[:count], ())

    noise = np.random.default_rng(0).integers(0, 256, data.test.images.shape, dtype=np.uint8)
    found = [
        feature_distance(Fixed(images), data, judge)["feature_distance"]
        for images in (data.test.images, noise)
    ]
    assert found[0] == pytest.approx(0, abs=1e-6) and found[1] > 0.1
    assert len(calls) == 3  # the test set, then two sets of samples
    measured = feature_distance(source, data, judge)
    assert measured["classifier_sha256"] == zoo.load(judge).zoo.digest
    assert measured["samples"] == 300
    assert measured["of_training_images"] is None  # 64 images for training do not compare with 300


def test_training_images_show_how_near_samples_could_come(trained, said, monkeypatch):
    judge, vae = map(str, trained)
    source, _ = load_sampler(vae)
    data = open_dataset("synthetic", train_size=600, test_size=300)
    monkeypatch.setattr(console, "EVERY", 0.0)
    measured = feature_distance(source, data, judge)
    assert {sentence.partition(":")[0] for sentence in said()} >= {
        "features of 300 images of test", "features of 300 images of train",
        "drawing 300 samples", "features of 300 samples",
    }  # fmt: skip
    assert 0 < measured["of_training_images"] < 0.5 * measured["feature_distance"]


def test_what_cannot_be_measured_gets_a_sentence(trained):
    judge, vae = map(str, trained)
    source, _ = load_sampler(vae)
    data = open_dataset("synthetic", train_size=64, test_size=20)
    with pytest.raises(zoo.ZooError, match="at least 256 images"):
        feature_distance(source, data, judge)
    with pytest.raises(zoo.ZooError, match="declares no features"):
        feature_distance(source, data, vae)
