"""What labels may be, how they are kept, and how parts of a dataset share them out."""

import numpy as np
import pytest

import zoo
from zoo_core.data.draws import train_validation
from zoo_core.data.targets import read_targets, strata
from zoo_core.spec.answers import Targets


def read(labels, classes=None, numbers=None):
    targets, kept = read_targets({"train_labels": np.asarray(labels)}, classes, numbers)
    return targets, kept["train_labels"]


def test_the_kind_follows_from_the_array():
    targets, kept = read([0, 2, 1])
    assert (targets, kept.dtype) == (Targets("class", ("0", "1", "2")), np.uint8)
    targets, kept = read([[0, 1], [1, 1]], classes=("cat", "dog"))
    assert (targets.kind, targets.classes, kept.dtype) == ("classes", ("cat", "dog"), np.uint8)
    targets, kept = read(np.array([[True, False]]))
    assert (targets.kind, targets.names) == ("classes", ("0", "1"))
    targets, kept = read([0.5, 2.0], numbers={"size": "mm"})
    assert (targets.kind, targets.names, targets.units) == ("numbers", ("size",), ("mm",))
    assert (kept.shape, kept.dtype, targets.classes) == ((2, 1), np.float32, ())
    assert read(np.zeros((2, 3)))[0].names == ("target 1", "target 2", "target 3")


@pytest.mark.parametrize(
    ("labels", "how", "sentence"),
    [
        ([[0, 2]], {}, "the label 2 at position 0, and each must be 0 or 1"),
        ([[0.0, np.nan]], {}, "the label nan at position 0, and only finite numbers"),
        ([[0, 1]], {"classes": ("a",)}, "have 2 columns, and there are 1 names"),
        ([[0.0, 1.0]], {"numbers": ("a",)}, "have 2 columns, and there are 1 names"),
        (np.zeros((2, 2, 2), int), {}, "is int64 of shape"),
        (["cat"], {}, "is <U3 of shape"),
        ([True, False], {}, "is bool of shape"),
    ],
)
def test_other_arrays_are_refused_in_a_sentence(labels, how, sentence):
    with pytest.raises(zoo.DataError, match=sentence):
        read(labels, **how)


@pytest.mark.parametrize(
    "targets",
    [
        Targets(),
        Targets("class", ("a", "b")),
        Targets("classes", ("a", "b"), mean=(0.1, 0.5), thresholds=(0.5, 0.25)),
        Targets("numbers", ("x",), ("mm",), (1.5,), (2.0,)),
    ],
)
def test_files_tell_targets_and_give_them_back(targets):
    assert Targets.from_dict(targets.classes, targets.to_dict()) == targets
    assert (targets.to_dict() == {}) == (targets.kind in ("none", "class"))  # as before


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "poetry"},
        {"kind": "numbers"},
        {"kind": "classes", "thresholds": [0.5]},
        {"kind": "classes", "thresholds": [0.5, float("inf")]},
        {"kind": "numbers", "names": ["x"], "mean": [1.0], "std": [0.0]},
        {"kind": "classes", "scale": [1, 2]},
    ],
)
def test_targets_of_a_stranger_that_make_no_sense_are_refused(given):
    classes = ("a", "b") if given["kind"] == "classes" else ()
    with pytest.raises((TypeError, ValueError)):
        Targets.from_dict(classes, given)


def test_a_part_has_the_same_share_of_every_combination_that_is_common():
    random = np.random.default_rng(0)
    labels = (random.random((1000, 3)) < 0.5).astype(np.uint8)
    labels[:3] = [[1, 1, 1]] * 3
    _, validation = train_validation(np.arange(1000), 0.2, 0, strata(labels))
    for combination in np.unique(labels, axis=0):
        share = (labels[validation] == combination).all(1).sum()
        whole = (labels == combination).all(1).sum()
        assert abs(share - whole / 5) <= 1
    assert strata(labels.astype(np.float32)) is None and strata(None) is None


def test_rare_combinations_are_shared_out_together():
    labels = np.zeros((100, 8), np.uint8)
    labels[:50] = np.eye(8, dtype=np.uint8)[np.arange(50) % 8]  # six or seven of each
    groups = strata(labels)
    assert set(groups[:50]) == {-1} and len(set(groups[50:])) == 1
    _, validation = train_validation(np.arange(100), 0.2, 0, groups)
    assert (validation < 50).sum() == 10
