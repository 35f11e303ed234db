"""A classifier learns what the labels are: several classes, or numbers."""

import json

import numpy as np
import pytest
import torch
from fixtures import kills
from train.test_resume import DRIVER
from zoo_tune.report import table_of

import zoo
from zoo_core.train.job import trainer_of
from zoo_core.train.runner import train
from zoo_core.use.evaluate import measure

pytestmark = pytest.mark.renders  # what only such labels have is drawn for real

SMALL = {"train_size": 160, "test_size": 40, "image_size": 16}


def settings(labels, **more):
    model = {"channels": (8, 8), "hidden": 16}
    return {
        "data": {**SMALL, "labels": labels}, "model": model, "epochs": 2, "batch_size": 32,
        "augment": (), **more,
    }  # fmt: skip


@pytest.fixture(scope="module", params=["classes", "numbers"])
def trained(request, tmp_path_factory):
    how = settings(request.param, validation_fraction=0.2)
    runs = tmp_path_factory.mktemp("labels") / "runs"
    return request.param, zoo.train("cnn", "synthetic", settings=how, runs=runs, quiet=True)


def test_the_run_says_what_it_learned(trained):
    labels, result = trained
    document = json.loads((result.path / "run.json").read_text())
    assert document["model"]["task"] == {"classes": "multilabel", "numbers": "regression"}[labels]
    assert document["figures"].keys() >= {"loss", *result.metrics} - {
        "per_class",
        "images",
        "intervals",
    }
    targets = document["dataset"]["targets"]
    if labels == "classes":
        assert document["dataset"]["classes"][-1] == "dark"
        assert len(targets["thresholds"]) == len(targets["mean"]) == 11
        assert document["figures"]["f1"] == {"unit": "%", "better": "higher"}
    else:
        assert targets["names"] == ["x", "y", "radius"] and targets["units"] == ["pixels"] * 3
        assert document["figures"]["mae_radius"] == {"unit": "pixels", "better": "lower"}
    page = result.report.read_text()
    plot = {"classes": "precision.png", "numbers": "numbers.png"}[labels]
    assert f"(pictures/{plot})" in page and (result.path / "pictures" / plot).exists()
    assert "| dark |" in page or labels == "numbers"


def test_measuring_again_gives_the_same_figures(trained):
    _, result = trained
    again = zoo.evaluate(result.path)
    for name, value in result.metrics.items():
        assert again[name] == (pytest.approx(value) if isinstance(value, float) else value)


def test_train_and_validation_are_the_images_of_the_run(trained):
    _, result = trained
    for split, count in (("train", 128), ("validation", 32)):
        assert zoo.evaluate(result.path, split=split)["images"] == count
    again, last = zoo.evaluate(result.path, split="validation"), result.run.metrics()[-1]
    assert again["loss"] == pytest.approx(last["validation_loss"], rel=1e-4)
    with pytest.raises(zoo.ZooError, match="there is no split 'val'"):
        zoo.evaluate(result.path, split="val")


def test_a_threshold_of_few_images_is_a_remark(trained):
    labels, result = trained
    remarks = result.run.read()["result"].get("remarks", [])
    told = [remark for remark in remarks if "fewer than 20 validation images have" in remark]
    assert len(told) == (labels == "classes")
    assert not told or "have circle and 10 other classes" in told[0]


def test_answers_are_in_the_words_of_the_labels(trained, zoo_here):
    labels, result = trained
    data = zoo.open_dataset("synthetic", {**SMALL, "labels": labels})
    said = zoo.predict(result.path, data.test.images[:3], top=2)
    if labels == "classes":
        assert [len(one.classes) for one in said] == [2, 2, 2]
        assert set(said[0].answer["chosen"]) <= set(data.classes)
        model, thresholds = zoo.load(result.path), zoo.load(result.path).zoo.targets.thresholds
        every = zoo.predict(model, data.test.images[:3], top=11)
        for one in every:
            likely = dict(one.classes)
            above = [n for n, t in zip(data.classes, thresholds, strict=True) if likely[n] >= t]
            assert sorted(one.answer["chosen"]) == sorted(above)
    else:
        numbers = said[0].answer["numbers"]
        assert [one["name"] for one in numbers] == ["x", "y", "radius"]
        # Not standardised ones: about the middle of an image of 16 pixels.
        assert 4 < numbers[0]["value"] < 12 and numbers[0]["unit"] == "pixels"
        assert said[0].words[0].startswith("x ") and said[0].words[0].endswith(" pixels")
        assert said[0].classes == ()


def test_they_are_published_and_loaded_with_all_that_an_answer_needs(trained, zoo_here, tmp_path):
    labels, result = trained
    done = zoo_here("publish", str(result.path), "--to", f"file:{tmp_path / 'shared'}", "--json")
    source = json.loads(done.stdout)["source"]
    model, before = zoo.load(source), zoo.load(result.path)
    assert model.zoo.targets == before.zoo.targets and model.zoo.targets.mean
    images = zoo.open_dataset("synthetic", {**SMALL, "labels": labels}).test.images[:4]
    assert zoo.predict(model, images) == zoo.predict(before, images)
    with pytest.raises(zoo.ZooError, match="does not say which images of synthetic were kept back"):
        measure(model, "synthetic", {**SMALL, "labels": labels}, {}, "validation")
    (card,) = (tmp_path / "shared").rglob("README.md")
    text = card.read_text()
    if labels == "numbers":  # which the Hub has no name for
        assert "pipeline_tag" not in text and "numbers: x (pixels)" in text
    else:
        assert 'pipeline_tag: "image-classification"' in text and "11 classes, any number" in text


def test_an_exported_file_alone_says_what_its_outputs_mean(trained, zoo_here, tmp_path):
    import onnxruntime

    labels, result = trained
    images = zoo.open_dataset("synthetic", {**SMALL, "labels": labels}).test.images[:3]
    zoo_here("export", str(result.path), "-o", "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    about = json.loads(session.get_modelmeta().custom_metadata_map["zoo"])
    targets = about["targets"]
    said = zoo.predict(result.path, images, top=11)
    if labels == "classes":
        assert about["task"] == "multilabel" and "above its threshold" in about["outputs"]
        likely, chosen = session.run(["probabilities", "chosen"], {"image": images})
        for row, yes, one in zip(likely, chosen, said, strict=True):
            named = dict(zip(about["classes"], row, strict=True))
            assert named == pytest.approx(dict(one.classes), abs=1e-4)
            assert set(np.array(about["classes"])[yes]) == set(one.answer["chosen"])
    else:
        assert about["task"] == "regression" and "units" in about["outputs"]
        (numbers,) = session.run(None, {"image": images})
        for row, one in zip(numbers, said, strict=True):
            told = [(n["name"], n["unit"]) for n in one.answer["numbers"]]
            assert told == list(zip(targets["names"], targets["units"], strict=True))
            assert row == pytest.approx([n["value"] for n in one.answer["numbers"]], abs=1e-3)


def test_a_torch_program_says_the_same_as_the_onnx_file(trained, zoo_here, tmp_path):
    _, result = trained
    zoo_here("export", str(result.path), "-o", "model.pt2")
    inside = {"zoo.json": ""}
    torch.export.load(tmp_path / "model.pt2", extra_files=inside)
    model = zoo.load(result.path)
    about = json.loads(json.dumps(model.zoo.to_dict()))
    del about["outputs"]
    assert about.items() <= json.loads(inside["zoo.json"]).items()


def test_a_search_has_no_column_for_what_no_trial_has(tmp_path):
    how = settings("numbers", epochs=1, subset=1.0)
    found = zoo.tune("cnn", "synthetic", trials=1, settings=how, runs=tmp_path, quiet=True)
    titles, rows = table_of(found.search.plan(), found.trials, 0)
    assert "#loss" in titles and "#accuracy" not in titles and len(rows[0]) == len(titles)


def test_mixed_images_have_mixed_labels(tmp_path):
    for labels in ("classes", "numbers"):
        how = settings(labels, mixup=0.4, epochs=1)
        result = train("cnn", "synthetic", settings=how, runs=tmp_path / labels, quiet=True)
        assert np.isfinite(result.metrics["loss"])


def test_weights_and_losses_change_what_is_learned(tmp_path):
    found = {}
    for labels, more in (
        ("classes", {}), ("classes", {"class_weights": "balanced"}), ("numbers", {}),
        ("numbers", {"task": {"loss": "huber"}}),
    ):  # fmt: skip
        how = settings(labels, epochs=1, **more)
        result = train("cnn", "synthetic", settings=how, runs=tmp_path / "runs", quiet=True)
        found[labels, str(more)] = result.run.read()["result"]["model"]["sha256"]
    assert len(set(found.values())) == 4


@pytest.mark.parametrize(
    ("labels", "more", "sentence"),
    [
        ("numbers", {"class_weights": "balanced"}, "does not use class_weights"),
        ("numbers", {"task": {"loss": "cubic"}}, "task.loss is mse or huber"),
        ("numbers", {"label_smoothing": 0.1}, "does not use label_smoothing"),
        ("none", {}, "'cnn' needs one class for each image, and synthetic has no labels"),
    ],
)
def test_what_cannot_be_is_a_sentence(tmp_path, labels, more, sentence):
    with pytest.raises(zoo.ZooError, match=sentence):
        zoo.train("cnn", "synthetic", settings=settings(labels, **more), runs=tmp_path, quiet=True)
    assert not list(tmp_path.glob("cnn-*"))


def test_a_trainer_that_knows_one_class_says_so(tmp_path):
    with pytest.raises(zoo.ZooError, match="needs one class for each image, and synthetic has num"):
        zoo.train("fcn_numpy", "synthetic", data={**SMALL, "labels": "numbers"}, runs=tmp_path)


def test_data_with_other_labels_is_refused(trained):
    labels, result = trained
    other = {"classes": "numbers", "numbers": "classes"}[labels]
    with pytest.raises(zoo.ZooError, match="has other "):
        measure(zoo.load(result.path), "synthetic", {**SMALL, "labels": other}, {})


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["classes", "numbers"])
def test_killed_and_resumed_it_ends_with_the_same_bytes(tmp_path, labels):
    how = {"data": {**SMALL, "labels": labels}, "validation_fraction": 0.2, "label_smoothing": 0.0}
    how |= {"model": {"channels": [8, 8], "hidden": 16}, "preprocess": {"size": 16}}
    arguments = tmp_path, 3, 1, "cnn", 0, json.dumps(how)
    done = kills.drive(DRIVER, *arguments, ZOO_CACHE=str(tmp_path))
    assert done["killed"] == done["whole"]


def test_an_untrained_model_of_an_own_task_has_that_tasks_answers():
    from zoo_core.spec.registry import registry

    targets = zoo.Targets("class", ("a", "b"))
    for name, kind in (("acgan", zoo.ClassAnswers), ("vae", None), ("cnn", zoo.ClassAnswers)):
        entry = registry().models.get(name)
        assert type(trainer_of(entry).answers(entry, targets) or None) is (kind or type(None))
