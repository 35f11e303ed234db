"""Coloured shapes: the same bytes everywhere, easy for a network, hard for a straight line."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from zoo_core.builtin.plugin import zoo_datasets
from zoo_core.data.datasets import open_dataset
from zoo_core.data.synthetic import CLASSES
from zoo_core.io.errors import OptionError


@pytest.fixture(scope="module")
def data():
    return open_dataset("synthetic")  # would raise if a digest differed


def test_its_bytes_are_pinned(data):
    entry = next(entry for entry in zoo_datasets() if entry.name == "synthetic")
    assert len(entry.digests) == 4
    assert data.classes == entry.classes == CLASSES
    assert data.train.images.shape == (2000, 32, 32, 3)
    assert data.test.images.shape == (500, 32, 32, 3)


def test_every_class_is_as_frequent_as_the_others(data):
    assert set(np.bincount(data.train.labels)) == {200}
    assert set(np.bincount(data.test.labels)) == {50}


def test_training_and_test_pictures_differ(data):
    train = {image.tobytes() for image in data.train.images}
    assert len(train) == 2000
    assert not any(image.tobytes() in train for image in data.test.images)


def test_the_seed_changes_the_pictures_and_nothing_else_does():
    first, again, other = (open_dataset("synthetic", seed=s, train_size=50) for s in (3, 3, 4))
    assert first.digest == again.digest != other.digest


def test_more_pictures_begin_with_the_same_ones():
    few, many = (open_dataset("synthetic", train_size=n).train.images for n in (100, 600))
    assert np.array_equal(few, many[:100])


def test_the_options_decide_the_shapes():
    data = open_dataset(
        "synthetic", classes=3, image_size=20, channels=1, train_size=7, test_size=4
    )
    assert data.classes == ("circle", "square", "triangle")
    assert data.train.images.shape == (7, 20, 20, 1)
    assert data.test.labels.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    "options",
    [{"classes": 1}, {"classes": 11}, {"image_size": 4}, {"channels": 2}, {"train_size": 0}]
    + [{"seed": -1}, {"seed": "x"}, {"test_size": 1.5}, {"classes": True}],
    ids=str,
)
def test_options_that_cannot_work_are_named(options):
    with pytest.raises(OptionError, match=f"synthetic: {next(iter(options))} must be"):
        open_dataset("synthetic", **options)


def test_a_straight_line_does_not_separate_it(data):
    train, test = (split.images[:, ::2, ::2].reshape(-1, 768) for split in (data.train, data.test))
    model = RidgeClassifier(alpha=1e6).fit(train, data.train.labels)
    assert model.score(test, data.test.labels) < 0.5


def test_a_small_network_learns_it_in_two_epochs(data):
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    images, tests = (
        torch.tensor(split.images).permute(0, 3, 1, 2) / 127.5 - 1
        for split in (data.train, data.test)
    )
    labels = torch.tensor(data.train.labels)
    layers = [torch.nn.AvgPool2d(2)]
    for a, b in ((3, 16), (16, 32)):
        convolution = torch.nn.Conv2d(a, b, 3, padding=1)
        layers += [convolution, torch.nn.BatchNorm2d(b), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
    model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(32 * 16, 10))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(2):
        for batch in torch.randperm(len(images)).split(32):
            loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        right = model.eval()(tests).argmax(1).numpy() == data.test.labels
    torch.set_num_threads(threads)
    assert right.mean() > 0.9
