import hashlib

import numpy as np
import pytest

from zoo_core.data.draws import subset_indices, train_validation
from zoo_core.io.errors import OptionError

LABELS = np.repeat(np.arange(3), (600, 300, 100))[np.random.default_rng(0).permutation(1000)]


def test_the_parts_are_pinned():
    assert subset_indices(20, 0.25, seed=0).tolist() == [1, 2, 5, 11, 17]
    train, validation = train_validation(np.arange(10), 0.3, seed=3407)
    assert (train.tolist(), validation.tolist()) == ([0, 2, 4, 5, 7, 8, 9], [1, 3, 6])
    of_cifar10 = subset_indices(50_000, 0.2, seed=3407).astype("<i8").tobytes()
    assert hashlib.sha256(of_cifar10).hexdigest()[:16] == "5dbddae491047e13"


@pytest.mark.parametrize("labels", [None, LABELS])
def test_a_subset_has_the_asked_size_and_lies_inside_larger_ones(labels):
    larger = np.arange(1000)
    for fraction in (0.9, 0.5, 0.201, 0.2, 0.01):
        part = subset_indices(1000, fraction, seed=1, labels=labels)
        assert len(part) == round(1000 * fraction)
        assert np.all(np.diff(part) > 0) and np.isin(part, larger).all()
        larger = part


def test_validation_and_training_share_the_pictures_without_overlap():
    indices = subset_indices(1000, 0.4, seed=1)
    train, validation = train_validation(indices, 0.1, seed=1)
    assert len(validation) == 40
    assert np.array_equal(np.sort(np.concatenate((train, validation))), indices)


def test_labels_keep_the_share_of_every_class():
    for fraction in (0.2, 0.033, 0.5):
        part = subset_indices(1000, fraction, seed=5, labels=LABELS)
        counts = np.bincount(LABELS[part], minlength=3)
        assert np.all(np.abs(counts - fraction * np.array((600, 300, 100))) <= 1)
    _, validation = train_validation(part, 0.1, seed=5, labels=LABELS)
    assert np.bincount(LABELS[validation]).tolist() == [30, 15, 5]


def test_seeds_give_different_parts_and_a_split_is_not_the_subset_again():
    assert not np.array_equal(subset_indices(1000, 0.2, 0), subset_indices(1000, 0.2, 1))
    _, validation = train_validation(np.arange(1000), 0.2, 0)
    assert not np.array_equal(subset_indices(1000, 0.2, 0), validation)


def test_all_and_nothing():
    assert len(subset_indices(10, 1.0, 0)) == 10
    train, validation = train_validation(np.arange(10), 0.0, 0)
    assert len(train) == 10 and len(validation) == 0


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: subset_indices(10, 0.01, 0), "a subset of 0.01 of 10 images has no image"),
        (lambda: subset_indices(10, 1.5, 0), "from 0 to 1"),
        (lambda: train_validation(np.arange(10), 0.01, 0), "leaves no image for validation"),
        (lambda: train_validation(np.arange(10), 0.99, 0), "leaves no image for training"),
    ],
)
def test_fractions_that_cannot_work_say_why(call, reason):
    with pytest.raises(OptionError, match=reason):
        call()
