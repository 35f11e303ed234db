import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load, save
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression as Estimator
from zoo_sklearn.models import LogisticRegression, RandomForest

import zoo
from zoo.testing import checks_of, main

DATA = {"train_size": 120, "test_size": 40, "image_size": 8, "channels": 1}
SMALL = {"logistic_regression": {"iterations": 20}, "random_forest": {"trees": 5, "depth": 4}}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A run of each model."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("own")
        patch.setenv("ZOO_CACHE", str(folder / "cache"))
        patch.setenv("ZOO_MANIFEST", str(folder / "own.json"))
        how = {"data": DATA, "runs": folder / "runs", "quiet": True}
        yield {name: zoo.train(name, "synthetic", model=SMALL[name], **how) for name in SMALL}


@pytest.mark.parametrize("check", checks_of("sklearn"), ids=str)
def test_it_keeps_its_promises(check):
    check()


@pytest.mark.parametrize("name", SMALL)
def test_it_trains_evaluates_predicts_publishes_and_loads_back(results, tmp_path, name):
    result = results[name]
    assert zoo.evaluate(result.path)["accuracy"] == result.accuracy
    image = np.zeros((8, 8), np.uint8)
    (expected,) = zoo.predict(zoo.load(result.path), image)
    shelf = f"file:{tmp_path / 'shelf'}"
    command = ["publish", str(result.path), "--to", shelf, "--license", "mit"]
    with pytest.raises(SystemExit, match="0"):
        main(command)
    (found,) = zoo.predict(zoo.load(shelf), image)
    assert found.classes == expected.classes
    arrays = load((result.path / "model.safetensors").read_bytes())
    (entry,) = (json.loads(path.read_text()) for path in tmp_path.glob("shelf/*/config.json"))
    assert entry["parameters"] == sum(array.size for array in arrays.values())


@pytest.mark.parametrize("classes", [2, 3])
def test_its_answers_are_those_of_scikit_learn(classes):
    draw = np.random.default_rng(0)
    x, other = draw.normal(size=(2, 90, 16)).astype(np.float32)
    y = (x[:, :classes].argmax(1) + (x[:, 5] > 1)) % classes
    shapes = {"num_classes": classes, "in_channels": 1, "image_size": 4}

    forest = RandomForest(**shapes, trees=7, depth=5)
    forest.load(forest.fit(x, y, seed=3))
    twin = RandomForestClassifier(7, max_depth=5, random_state=3).fit(x, y)
    np.testing.assert_allclose(forest.probabilities(other), twin.predict_proba(other), rtol=1e-12)

    linear = LogisticRegression(**shapes, penalty=0.5)
    linear.load(linear.fit(x, y, seed=0))
    powers = np.exp(linear.scores(other))
    expected = Estimator(C=2.0).fit(x, y).predict_proba(other)
    np.testing.assert_allclose(powers / powers.sum(1, keepdims=True), expected, rtol=1e-4)


def test_a_class_without_training_images_is_never_chosen():
    x, y = np.eye(16, dtype=np.float32), np.repeat([1, 3], 8)
    for kind in (LogisticRegression, RandomForest):
        model = kind(num_classes=4, in_channels=1, image_size=4)
        model.load(model.fit(x, y, seed=0))
        assert set(model.scores(x).argmax(1)) == {1, 3}


def test_what_scikit_learn_warns_of_is_in_the_report(results):
    document = json.loads((results["logistic_regression"].path / "run.json").read_text())
    remarks = document["result"]["remarks"]
    assert "failed to converge" in remarks[0]


def point(name, where, value):
    def change(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][where] = value

    return change


def shorten(name):
    def change(arrays):
        arrays[name] = arrays[name][:-1]

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (shorten("threshold"), "different numbers of nodes"),
        (shorten("value"), "different numbers of nodes"),
        (shorten("offset"), "offset has the shape .5., and .6. is needed"),
        (point("offset", 0, 1), "do not divide the nodes"),
        (point("offset", 2, 2**62), "do not divide the nodes"),
        (point("offset", 3, -(2**62)), "do not divide the nodes"),
        (point("left", 0, 0), "leads out of its tree, or back"),  # for ever
        (point("right", 0, 10**9), "leads out of its tree, or back"),
        (point("left", 0, -1), "leads out of its tree, or back"),  # half a leaf
        (point("feature", 0, 64), "a pixel that is not one of 64"),
        (point("feature", 0, -1), "a pixel that is not one of 64"),
        (point("value", 0, 0.0), "do not add up to 1"),
        (point("threshold", 0, np.nan), "not finite"),
    ],
)
def test_a_forest_that_is_none_is_refused_with_a_sentence(results, tmp_path, change, reason):
    file = results["random_forest"].path / "model.safetensors"
    with safe_open(file, "np") as opened:
        metadata = opened.metadata()
    arrays = load(file.read_bytes())
    change(arrays)
    path = tmp_path / "wrong.safetensors"
    path.write_bytes(save(arrays, metadata))
    with pytest.raises(zoo.WeightsError, match=reason):
        zoo.load(path)
