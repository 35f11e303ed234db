"""Photographs of one's own, from the folder to the figures: sizes, shapes, broken files, names."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

import zoo
from zoo_core.data.datasets import open_dataset
from zoo_core.io.errors import DataError, OptionError, UsageError
from zoo_core.io.tensors import read
from zoo_core.runs.run import Run

QUICK = {"epochs": 1, "model": {"hidden": [8]}, "quiet": True}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Three classes of ten pictures, 60 x 40, each class of one colour; two files are broken."""
    root = tmp_path_factory.mktemp("photos") / "photos"
    random = np.random.default_rng(0)
    for place, name in enumerate(("ant", "bee", "cat")):
        (root / name).mkdir(parents=True)
        for number in range(10):
            pixels = random.integers(0, 120, (40, 60, 3))
            pixels[:, :, place] += 100
            Image.fromarray(pixels.astype(np.uint8)).save(root / name / f"{number}.jpg")
    (root / "cat" / "torn.jpg").write_bytes((root / "cat" / "1.jpg").read_bytes()[:700])
    (root / "ant" / "note.jpg").write_text("this is text")
    return root


@pytest.fixture(scope="module")
def trained(photos, tmp_path_factory):
    """A run on the folder, stored at 48 pixels because the model is given so many."""
    runs = tmp_path_factory.mktemp("trained")
    settings = {**QUICK, "preprocess": {"size": 24, "resize": 28}, "lr": 0.01}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(runs / "cache"))
        return zoo.train("mlp", photos, runs=runs, **settings).run


def document(run):
    return json.loads((run.path / "run.json").read_text())


def test_what_the_model_is_given_decides_what_is_stored(trained):
    told = document(trained)
    assert told["preprocess"]["stored_size"] == 28
    assert told["dataset"]["options"]["image_size"] == 28
    assert told["recipe"]["data"]["image_size"] == 28  # so that a resume and a report agree


def test_a_random_part_is_cut_from_a_larger_image(photos, tmp_path):
    settings = {**QUICK, "preprocess": {"size": 28}, "augment": ["resized_crop:28"]}
    run = zoo.train("mlp", photos, runs=tmp_path, **settings).run
    assert document(run)["preprocess"]["stored_size"] == 32


def test_where_nobody_decides_that_is_said(photos, tmp_path, said):
    run = zoo.train("mlp", photos, runs=tmp_path, **QUICK).run
    assert document(run)["preprocess"]["stored_size"] == 40
    assert "Images are stored at 40 x 40 pixels; data.image_size=N changes that." in said()


def test_a_size_that_the_person_sets_wins(photos, tmp_path):
    settings = {**QUICK, "preprocess": {"size": 28}, "data": {"image_size": 16}}
    run = zoo.train("mlp", photos, runs=tmp_path, **settings).run
    assert document(run)["preprocess"]["stored_size"] == 16


def test_evaluating_the_same_folder_gives_the_same_figures(trained, photos):
    figures = document(trained)["result"]["test"]
    for again in (zoo.evaluate(trained.path), zoo.evaluate(trained.path, photos)):
        assert {name: again[name] for name in figures} == figures
        assert again["images"] == 5  # of six one is broken


def test_a_folder_without_splits_is_measured_whole(trained, photos, tmp_path):
    shutil.copytree(photos, tmp_path / "others")
    assert zoo.evaluate(trained.path, tmp_path / "others")["images"] == 30
    part = zoo.evaluate(trained.path, tmp_path / "others", options={"test_fraction": 0.5})
    assert part["images"] == 15
    shutil.rmtree(tmp_path / "others" / "bee")
    fewer = zoo.evaluate(trained.path, tmp_path / "others")
    assert fewer["images"] == 20
    assert list(fewer["per_class"]) == ["ant", "bee", "cat"]
    assert fewer["per_class"]["bee"] is None


def test_a_folder_with_test_images_alone_and_one_class_is_measured(trained, photos, tmp_path):
    shutil.copytree(photos / "cat", tmp_path / "held" / "test" / "cat")
    found = zoo.evaluate(trained.path, tmp_path / "held")
    assert (found["images"], found["left_out"][0][0]) == (10, "test/cat/torn.jpg")
    assert np.array(found["confusion"])[:2].sum() == 0


def test_arrays_are_measured_whole_too(trained, photos, tmp_path):
    data = open_dataset(photos, image_size=28, channels=3, test_fraction=1)
    given = {"images": data.test.images, "labels": data.test.labels, "classes": data.classes}
    np.savez(tmp_path / "held.npz", **given)
    whole = zoo.evaluate(trained.path, given)
    assert whole["images"] == zoo.evaluate(trained.path, tmp_path / "held.npz")["images"] == 30
    shutil.copytree(photos, tmp_path / "others")
    assert whole["accuracy"] == zoo.evaluate(trained.path, tmp_path / "others")["accuracy"]


def test_a_class_that_the_model_does_not_know_is_named(trained, photos, tmp_path):
    shutil.copytree(photos / "cat", tmp_path / "others" / "dog")
    shutil.copytree(photos / "cat", tmp_path / "others" / "cat")
    with pytest.raises(UsageError, match="it knows ant, bee, cat; others has dog"):
        zoo.evaluate(trained.path, tmp_path / "others")


def test_broken_images_are_in_the_record_and_in_the_report(trained):
    names = [name for name, _ in document(trained)["dataset"]["left_out"]]
    assert names == ["ant/note.jpg", "cat/torn.jpg"]
    zoo_report = trained.path / "report.md"
    if not zoo_report.exists():
        from zoo_core.report.write import write_report

        write_report(trained)
    text = zoo_report.read_text()
    assert "## Images left out" in text
    assert "ant/note.jpg cannot be read as an image" in text


def test_predictions_carry_the_names_of_the_files(trained, photos):
    kept = read(trained.predictions_file.read_bytes())
    names = json.loads(bytes(kept["names"]))
    assert all((photos / name).exists() for name in names)
    assert [name.split("/")[0] for name in names] == ["ant", "ant", "bee", "bee", "cat"]


def test_one_image_alone_is_answered_as_in_the_evaluation(trained, photos):
    kept = read(trained.predictions_file.read_bytes())
    names, rows = json.loads(bytes(kept["names"])), kept["probabilities"]
    for name, row in zip(names, rows, strict=True):
        (alone,) = zoo.predict(trained.path, photos / name)
        best, share = alone.classes[0]
        assert best == ("ant", "bee", "cat")[row.argmax()]
        assert share == pytest.approx(float(row.max()), abs=1e-6)


def test_the_same_pixels_enter_the_network_alone_and_from_the_folder(trained, photos):
    model = zoo.load(trained.path)
    data = open_dataset(photos, document(trained)["dataset"]["options"])
    how = model.zoo.preprocess
    for row, name in enumerate(data.test.names):
        stored = data.test.images[row]
        assert np.array_equal(how.stored(photos / name), stored)
        assert np.array_equal(how.stored((photos / name).open("rb")), stored)
        assert np.array_equal(how.stored(Image.open(photos / name)), stored)
        assert bool((how(photos / name) == how.batch(list(data.test.images))[row]).all())


def test_predicting_a_folder_leaves_broken_images_out(trained, photos, said):
    found = zoo.predict(trained.path, photos)
    assert len(found) == 30
    assert [name for name, _ in found.left_out] == [
        str(photos / "ant" / "note.jpg"), str(photos / "cat" / "torn.jpg")
    ]  # fmt: skip
    assert said()[-1].startswith("2 of 32 images are left out; ")
    with pytest.raises(DataError, match=r"note\.jpg cannot be read as an image"):
        zoo.predict(trained.path, photos, strict=True)
    with pytest.raises(DataError, match=r"note\.jpg cannot be read as an image"):
        zoo.predict(trained.path, photos / "ant" / "note.jpg")


def test_the_command_says_what_it_left_out(trained, photos, zoo_here):
    done = zoo_here("predict", str(trained.path), str(photos / "ant"), "--top", "1")
    assert "Left out: " in done.stderr and "note.jpg" in done.stderr
    rows = json.loads(zoo_here("predict", str(trained.path), str(photos / "ant"), "--json").stdout)
    assert len(rows) == 11
    assert "cannot be read" in rows[-1]["error"]
    zoo_here("predict", str(trained.path), str(photos / "ant"), "--strict", status=1)


def test_strict_stops_a_training_before_it_begins(photos, tmp_path):
    with pytest.raises(DataError, match=r"2 of 32 images cannot be used; ant/note\.jpg"):
        zoo.train("mlp", photos, runs=tmp_path / "runs", data={"strict": True}, **QUICK)
    assert not (tmp_path / "runs").exists()


def test_strict_is_an_option_of_the_command(photos, zoo_here):
    done = zoo_here("train", "mlp", "--dataset", str(photos), "--strict", status=1)
    assert "2 of 32 images cannot be used" in done.stderr


@pytest.mark.parametrize("fit", ["pad", "stretch"])
def test_the_whole_image_is_kept_and_prediction_agrees(photos, tmp_path, fit):
    settings = {**QUICK, "preprocess": {"fit": fit, "size": 32}}
    run = zoo.train("mlp", photos, runs=tmp_path, **settings).run
    told = document(run)
    assert told["preprocess"]["fit"] == fit
    figures = told["result"]["test"]
    again = zoo.evaluate(run.path, photos)
    assert {name: again[name] for name in figures} == figures
    data = open_dataset(photos, told["dataset"]["options"])
    assert data.digest == told["dataset"]["digest"]
    stored = zoo.load(run.path).zoo.preprocess.stored(photos / data.test.names[0])
    assert np.array_equal(stored, data.test.images[0])


def test_a_fit_that_does_not_exist_is_refused(photos, tmp_path):
    with pytest.raises(OptionError, match="fit must be one of crop, pad, stretch"):
        zoo.train("mlp", photos, runs=tmp_path, preprocess={"fit": "bend"}, **QUICK)


def test_a_run_goes_on_with_the_size_that_it_began_with(photos, tmp_path):
    settings = {**QUICK, "preprocess": {"size": 24}}
    run = zoo.train("mlp", photos, runs=tmp_path, **settings).run
    digest = document(run)["result"]["model"]["sha256"]
    told = document(run) | {"status": "running", "result": None}
    (run.path / "run.json").write_text(json.dumps(told))
    zoo.resume(run.path, quiet=True)
    assert document(Run(run.path))["result"]["model"]["sha256"] == digest
