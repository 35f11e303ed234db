import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

import zoo
from zoo.testing import checks_of, main

DATA = {"train_size": 60, "test_size": 20, "image_size": 8, "channels": 1}
PIXELS = 64


@pytest.fixture(scope="module", autouse=True)
def own_place(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("own")
        patch.setenv("ZOO_CACHE", str(folder / "cache"))
        patch.setenv("ZOO_MANIFEST", str(folder / "own.json"))
        yield folder


@pytest.fixture(scope="module")
def result(own_place):
    return zoo.train("knn", "synthetic", data=DATA, runs=own_place / "runs", quiet=True)


@pytest.mark.parametrize("check", checks_of("knn"), ids=str)
def test_it_keeps_its_promises(check):
    check()


def test_it_trains_evaluates_predicts_publishes_and_loads_back(result, tmp_path):
    assert zoo.evaluate(result.path)["accuracy"] == result.accuracy
    image = np.zeros((8, 8), np.uint8)
    (expected,) = zoo.predict(zoo.load(result.path), image)
    shelf = f"file:{tmp_path / 'shelf'}"
    command = ["publish", str(result.path), "--to", shelf, "--license", "mit"]
    with pytest.raises(SystemExit, match="0"):
        main(command)
    (found,) = zoo.predict(zoo.load(shelf), image)
    assert found.classes == expected.classes
    (card,) = (path.read_text() for path in tmp_path.glob("shelf/*/README.md"))
    assert f"| parameters | {60 * (PIXELS + 1):,} |" in card and "epoch" not in card


def test_run_json_says_how_many_numbers_are_kept_and_nothing_of_a_learning_rate(result):
    document = json.loads((result.path / "run.json").read_text())
    assert document["parameters"]["total"] == 60 * (PIXELS + 1)
    assert "lr" not in document["recipe"] and "epochs" not in document["recipe"]


@pytest.mark.parametrize("field", ["epochs", "lr", "mixup", "patience"])
def test_what_it_does_not_use_is_refused(field):
    value = {"lr": 0.5, "mixup": 0.2}.get(field, 3)
    with pytest.raises(zoo.ZooError, match=f"its trainer, knn, does not use {field}"):
        zoo.train("knn", "synthetic", validation_fraction=0.5, **{field: value})


def test_a_search_wants_to_know_what_to_vary_and_then_does(tmp_path):
    how = {"settings": {"data": DATA}, "runs": tmp_path / "runs", "quiet": True}
    with pytest.raises(zoo.ZooError, match="say what the search varies"):
        zoo.tune("knn", "synthetic", **how)
    with pytest.raises(zoo.ZooError, match="does not use lr"):
        zoo.tune("knn", "synthetic", space={"lr": [0.001, 0.1]}, searcher="grid", **how)
    assert not (tmp_path / "runs").exists()
    space = {"model.neighbours": [1, 3, 5]}
    found = zoo.tune("knn", "synthetic", space=space, searcher="grid", train=True, **how)
    losses = {trial.parameters["model.neighbours"]: trial.loss for trial in found.trials}
    assert losses[found.recipe.model["neighbours"]] == min(losses.values())
    assert found.trained.accuracy is not None


def test_a_run_that_was_stopped_starts_over(result, capsys):
    whole, path = (result.path / "model.safetensors").read_bytes(), result.path / "run.json"
    path.write_text(path.read_text().replace('"complete"', '"interrupted"', 1))
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--resume", str(result.path), "--no-report"])
    assert "at the beginning" in capsys.readouterr().err
    assert (result.path / "model.safetensors").read_bytes() == whole
    assert len((result.path / "metrics.jsonl").read_text().splitlines()) == 1


def test_the_nearest_images_vote(result):
    model = zoo.load(result.path)
    for row in np.random.default_rng(0).normal(size=(5, PIXELS)).astype(np.float32):
        nearest = np.square(model.images - row).sum(1).argsort()[:5]
        votes = np.bincount(model.labels[nearest], minlength=10) / 5
        np.testing.assert_allclose(np.exp(model.scores(row[None]))[0], votes + 1e-3, rtol=1e-5)


def images(count, pixels=PIXELS):
    return np.zeros((count, pixels), np.float32)


def labels(count, value=0):
    return np.full(count, value, np.int64)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"images": images(3), "labels": labels(2)}, "it has 3 images and 2 labels"),
        ({"images": images(2), "labels": labels(2, 10)}, "labels other than 0 to 9"),
        ({"images": images(2), "labels": labels(2, -1)}, "labels other than 0 to 9"),
        ({"images": images(0), "labels": labels(2)}, "shape .0, 64., and .any, 64. is needed"),
        ({"images": images(2, 63), "labels": labels(2)}, "shape .2, 63., and .any, 64. is"),
        ({"images": images(2)[None], "labels": labels(2)}, "shape .1, 2, 64., and .any, 64."),
        ({"images": images(2) * np.nan, "labels": labels(2)}, "not finite"),
        ({"images": images(2) + 1e30, "labels": labels(2)}, "too large to compare"),
        ({"images": images(2), "labels": labels(2).astype(np.int32)}, "int32 instead of int64"),
        ({"images": images(2)}, "labels is missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_wrong_is_refused_with_a_sentence(result, tmp_path, arrays, reason):
    with safe_open(result.path / "model.safetensors", "np") as file:
        metadata = file.metadata()
    path = tmp_path / "wrong.safetensors"
    path.write_bytes(save(arrays, metadata))
    with pytest.raises(zoo.WeightsError, match=reason):
        zoo.load(path)


@pytest.mark.parametrize("count", [-1, 10**6, 2**62, 2**70])
def test_a_size_that_the_file_does_not_have_is_refused(result, tmp_path, count):
    data = (result.path / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["images"]["shape"][0] = count
    text = json.dumps(header).encode()
    path = tmp_path / "wrong.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    with pytest.raises(zoo.WeightsError):
        zoo.load(path)
