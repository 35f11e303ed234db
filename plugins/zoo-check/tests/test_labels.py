"""Labels that were changed on purpose are found, and few others; what is done is not done again."""

import csv

import numpy as np
import pytest
from zoo_check.labels import check_labels
from zoo_check.members import Asked, head, out_of_fold
from zoo_check.suspects import (
    FOLDS,
    calibrated,
    confident,
    folds_of,
    neighbours,
    pooled,
    vote,
)

import zoo
from zoo import kit

CLASSES = 4


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


def clouds(each=60, width=64, apart=4.0):
    """Features of classes that overlap a little, and their labels."""
    draw = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), each)
    middles = np.eye(width)[:CLASSES] * apart
    return middles[labels] + draw.normal(0, 0.8, (len(labels), width)), labels


def planted(labels, count=12):
    """The labels with some changed, and which."""
    draw, changed = np.random.default_rng(1), labels.copy()
    wrong = draw.permutation(len(labels))[:count]
    changed[wrong] = (labels[wrong] + draw.integers(1, CLASSES, count)) % CLASSES
    return changed, {*wrong.tolist()}


def test_the_nearest_are_those_of_a_comparison_one_by_one():
    features, _ = clouds(20)
    near = neighbours(features, step=7)
    units = features - features.mean(0)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    for place in (0, 33, 79):
        order = np.argsort(-(units @ units[place]), kind="stable")
        assert near.index[place].tolist() == order[1 : near.index.shape[1] + 1].tolist()


def test_copies_of_an_image_have_no_vote_and_are_in_its_fold():
    features, labels = clouds(20)
    features[1:4] = features[0]  # copies, all with the same wrong label
    labels[:4] = 3
    groups = np.arange(len(labels))
    groups[:4] = 0
    near = neighbours(features)
    assert vote(near, labels, groups, CLASSES)[:4].argmax(1).tolist() == [0] * 4
    assert vote(near, labels, np.arange(len(labels)), CLASSES)[0].argmax() == 3
    assert len({*folds_of(labels, groups)[:4].tolist()}) == 1


def test_folds_have_every_class_in_proportion():
    _, labels = clouds(23)
    folds = folds_of(labels, np.arange(len(labels)))
    counts = np.array([np.bincount(labels[folds == f], minlength=CLASSES) for f in range(FOLDS)])
    assert counts.min() >= 4 and counts.max() <= 5 and counts.sum() == len(labels)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_temperature_makes_up_for_members_that_are_too_sure_or_unsure(temperature):
    draw = np.random.default_rng(0)
    true = draw.dirichlet(np.full(CLASSES, 0.7), 4000)
    labels = np.array([draw.choice(CLASSES, p=row) for row in true])
    said = true ** (1 / temperature)
    found = calibrated(said / said.sum(1, keepdims=True), labels)
    assert np.abs(found - true).mean() < 0.03


def test_the_share_of_mistakes_is_found_and_a_member_that_guesses_counts_little():
    draw = np.random.default_rng(0)
    good = draw.dirichlet(np.full(CLASSES, 0.05), 3000)
    labels = np.array([draw.choice(CLASSES, p=row) for row in good])
    given, wrong = planted(labels, 300)
    guesses = draw.dirichlet(np.full(CLASSES, 5.0), 3000)
    _, alone, _ = pooled(good[None], given)
    _, found, weights = pooled(np.stack([good, guesses]), given)
    assert weights[0] > 0.8
    mistaken = 0.1 * CLASSES / (CLASSES - 1)  # a mistake may also be the right label, by chance
    by_mistake = mistaken * np.bincount(given, minlength=CLASSES)[given] / len(given)
    by_truth = (1 - mistaken) * good[np.arange(len(given)), given]

    def share(doubt):
        """Of the labels that are suspected or wrong, those that are both."""
        suspects = {*np.flatnonzero(doubt > 0.5).tolist()}
        return len(suspects & wrong) / len(suspects | wrong)

    best = share(by_mistake / (by_mistake + by_truth))  # who knows the truth suspects no better
    for one in (alone, found):
        assert one.doubt.mean() == pytest.approx(mistaken, abs=0.02)
        assert share(one.doubt) > 0.95 * best > 0.7


def test_a_class_with_fewer_images_than_folds_is_never_doubted():
    scores = np.full((12, 2), 0.5)
    labels = np.array([0] * 10 + [1] * 2)
    scores[10:] = (0.99, 0.01)
    assert confident(scores, labels)[10:].tolist() == [1, 1]


def dataset(labels, features):
    """Images whose pixels say their number, and a stand-in for the backbone that looks it up."""
    images = np.zeros((len(labels), 6, 6, 3), np.uint8)
    images[:, 0, 0, 0], images[:, 0, 0, 1] = np.divmod(np.arange(len(labels)), 256)
    return {"train_images": images, "train_labels": labels, "classes": [*"abcd"]}


@pytest.fixture
def judge(monkeypatch):
    """A model with a backbone, whose features are given."""

    def start(features):
        entry = zoo.ModelEntry(
            name="given", target="nowhere:Net", summary="Features that the test gives",
            capabilities={"backbone": "nowhere:weights"},
        )  # fmt: skip
        monkeypatch.setattr("zoo_check.labels.chosen", lambda models: [entry])
        monkeypatch.setattr(Asked, "features", lambda asked, model: features.astype(np.float32))

    return start


def test_planted_labels_are_found_and_the_file_puts_them_right(judge, tmp_path):
    features, labels = clouds()
    given, wrong = planted(labels)
    judge(features)
    found = check_labels(dataset(given, features), output=tmp_path / "odd")
    places = [int(one.image.split()[1]) for one in found.suspects]
    assert {*places} <= wrong and len(places) >= 10
    assert [one.name for one in found.members] == ["given", "nearest images"]
    assert all(
        one.thought == "abcd"[labels[i]] for i, one in zip(places, found.suspects, strict=True)
    )
    assert found.suspects[0].score >= found.suspects[-1].score >= 0.5
    assert {path.name for path in found.sheets} == {"suspects.png"}
    data = zoo.open_dataset(dataset(given, features), corrections=found.corrections)
    given[places] = labels[places]
    assert data.train.labels.tolist() == given.tolist()


def test_labels_without_mistakes_are_hardly_doubted(judge):
    features, labels = clouds()
    judge(features)
    assert len(check_labels(dataset(labels, features)).suspects) <= 2


def test_copies_outliers_and_classes_that_overlap_are_told(judge, tmp_path):
    features, labels = clouds()
    features[5] = features[4] + 1e-3
    features[labels == 3] = features[labels == 2] + np.random.default_rng(3).normal(0, 1, (60, 64))
    judge(features)
    found = check_labels(dataset(labels, features), output=tmp_path)
    assert found.copies == [["train 4", "train 5"]]
    assert found.overlaps[0][:2] == ("c", "d")
    rows = {row["image"]: row for row in csv.DictReader(found.corrections.open())}
    assert (rows["train 5"]["action"], rows["train 5"]["reason"]) == (
        "keep", "shows the same as train 4",
    )  # fmt: skip


def test_test_images_are_suspected_but_left_to_a_person(judge, tmp_path):
    features, labels = clouds()
    given, wrong = planted(labels)
    whole = dataset(given, features)
    order = np.random.default_rng(2).permutation(len(labels))
    parts = {"train": order[:120], "test": order[120:]}
    arrays = {f"{part}_images": whole["train_images"][rows] for part, rows in parts.items()}
    arrays |= {f"{part}_labels": given[rows] for part, rows in parts.items()}
    judge(features[order])
    found = check_labels({**arrays, "classes": whole["classes"]}, output=tmp_path)
    names = {one.image for one in found.suspects if one.split == "test"}
    rows = {row["image"]: row["action"] for row in csv.DictReader(found.corrections.open())}
    assert names and {rows[name] for name in names} == {"keep"}
    assert names <= {f"test {i}" for i, place in enumerate(order[120:]) if place in wrong}


def test_what_was_judged_is_not_judged_again(tmp_path):
    features, labels = clouds()
    folds, seen = folds_of(labels, np.arange(len(labels))), []

    def make(name):
        predict = head(features, labels, CLASSES)

        def count(rest, held):
            assert not np.isin(rest, held).any()
            if len(seen) == 3 and "stopped" not in seen:
                seen.append("stopped")
                raise zoo.Interrupted("stopped")
            seen.append(len(held))
            return predict(rest, held)

        return count

    with pytest.raises(zoo.Interrupted, match="stopped in fold 4"):
        out_of_fold("x", {"a": 1}, folds, CLASSES, make)
    found = out_of_fold("x", {"a": 1}, folds, CLASSES, make)
    assert len(seen) == 6  # five folds, and the interruption
    again = out_of_fold("x", {"a": 1}, folds, CLASSES, lambda name: pytest.fail("made again"))
    assert np.array_equal(found, again) and (found.argmax(1) == labels).mean() > 0.9
    damaged = next(kit.cache_dir("check").glob("*-2.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert np.array_equal(out_of_fold("x", {"a": 1}, folds, CLASSES, make), found)
    assert len(seen) == 7


@pytest.mark.parametrize(
    ("options", "models", "problem"),
    [
        ({"labels": "numbers"}, [], "only labels of one class"),
        ({"train_size": 12, "test_size": 3}, ["fcn_numpy"], "too few images"),
        ({}, ["vae"], "vae is not a classifier"),
        ({}, ["nothing"], "there is no model 'nothing'"),
    ],
)
def test_what_cannot_be_judged_is_said_in_a_sentence(options, models, problem):
    with pytest.raises(zoo.ZooError, match=problem) as refused:
        check_labels("synthetic", {"train_size": 60, "test_size": 20, **options}, models=models)
    assert refused.value.hint
