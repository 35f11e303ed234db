"""Entries check themselves, and cannot be changed afterwards."""

import copy
import dataclasses
import json
import pickle

import pytest

import zoo

MODEL = {"name": "net", "target": "package.module:Net", "summary": "A net"}
DATASET = {"name": "pictures", "target": "package.module:load", "summary": "Some images"}
TRAINER = {"name": "trainer", "target": "package.module:Trainer", "summary": "A trainer"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "Net"}, "lower-case"),
        ({"name": "a/b"}, "lower-case"),
        ({"name": "net.tag"}, "lower-case"),
        ({"name": ""}, "lower-case"),
        ({"name": 3}, "name must be lower-case"),
        ({"target": "package.module"}, "must be a string like"),
        ({"target": "package.module:Net()"}, "must be a string like"),
        ({"target": dict}, "must be a string like"),
        ({"summary": " "}, "summary must be a few words"),
        ({"kinds": ()}, "kinds must be"),
        ({"kinds": "classification"}, "kinds must be"),
        ({"kinds": ("Object detection",)}, "kinds must be"),
        ({"in_channels": 0}, "in_channels must be a whole number"),
        ({"image_size": 32.0}, "image_size must be a whole number"),
        ({"image_size": True}, "image_size must be a whole number"),
        ({"num_classes": -1}, "num_classes must be"),
        ({"parameters": "many"}, "parameters must be"),
        ({"parameters": 10, "total_parameters": 9}, "less than parameters"),
        ({"config": {"not a name": 1}}, "config must be a mapping"),
        ({"config": {"num_classes": 3}}, "field of the entry"),
        ({"config": [1]}, "config must be a mapping"),
        ({"choices": {"norm": ("pre", "post")}}, "choices names 'norm', which config does not"),
        ({"config": {"norm": "pre"}, "choices": {"norm": "pre"}}, "choices of 'norm' must be"),
        ({"config": {"norm": "pre"}, "choices": {"norm": ("post",)}}, "with its default 'pre'"),
        ({"task": "sorting"}, "task must be a string like"),
        ({"capabilities": {"features": "nowhere"}}, "capability 'features'"),
        ({"tags": "small"}, "tags must be a tuple"),
        ({"recipes": {}}, "one called 'default'"),
        ({"recipes": {"default": {"lr": 1}}}, "Recipe objects"),
    ],
)
def test_a_model_entry_that_cannot_be_right_is_refused(changes, problem):
    with pytest.raises(zoo.ZooError, match=problem):
        zoo.ModelEntry(**(MODEL | changes))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"classes": ("cat", "cat")}, "distinct"),
        ({"classes": "cat"}, "classes must be a tuple"),
        ({"std": (0.0,)}, "std must be a number above 0"),
        ({"mean": (0.5, 0.5), "in_channels": 3}, "one number for each channel"),
        ({"mean": (2.0,)}, "mean must be a number"),
        ({"digests": {"train_images": "abc"}}, "64 hexadecimal digits"),
    ],
)
def test_a_dataset_entry_that_cannot_be_right_is_refused(changes, problem):
    with pytest.raises(zoo.ZooError, match=problem):
        zoo.DatasetEntry(**(DATASET | changes))


def test_a_trainer_entry_that_cannot_be_right_is_refused():
    with pytest.raises(zoo.ZooError, match="target must be"):
        zoo.TrainerEntry(**(TRAINER | {"target": "x"}))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"optimizer": 3}, "optimizer must be a string"),
        ({"schedule": "linear"}, "one of constant, cosine, one_cycle, step"),
        ({"precision": "int8"}, "one of float32"),
        ({"lr": 0}, "lr must be a number above 0"),
        ({"lr": float("nan")}, "lr must be a number"),
        ({"lr": float("inf")}, "lr must be a number"),
        ({"lr": "fast"}, "lr must be a number"),
        ({"epochs": 0}, "epochs must be"),
        ({"epochs": 1.5}, "epochs must be"),
        ({"batch_size": -3}, "batch_size must be"),
        ({"batch_size": 10, "accumulate": 3}, "does not divide"),
        ({"ema": 1.5}, "ema must be a number of at least 0 and at most 1"),
        ({"subset": 0}, "subset must be a number above 0"),
        ({"validation_fraction": 1}, "must leave some"),
        ({"warmup": 20, "epochs": 3}, "longer than 3 epochs"),
        ({"augment": "flip"}, "augment must be a tuple"),
        ({"compile": 1}, "compile must be true or false"),
        ({"patience": 3}, "need a validation_fraction"),
        ({"restore_best": True}, "need a validation_fraction"),
        ({"model": {1: 2}}, "model must be a mapping"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_a_recipe_that_cannot_be_right_is_refused(changes, problem):
    with pytest.raises(zoo.ZooError, match=problem):
        zoo.Recipe(**changes)


def test_entries_are_frozen_all_the_way_down():
    hidden = [512, 256]
    entry = zoo.ModelEntry(**MODEL, config={"hidden": hidden, "deep": {"er": [1]}}, tags=["a"])
    hidden.append(3)
    assert entry.config["hidden"] == (512, 256)
    assert entry.tags == ("a",)
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.name = "other"
    for change in (
        lambda: entry.config.update(hidden=1),
        lambda: entry.config.__setitem__("hidden", 1),
        lambda: entry.config["deep"].pop("er"),
        lambda: entry.recipes.clear(),
    ):
        with pytest.raises(TypeError, match="frozen"):
            change()


def test_entries_can_be_compared_hashed_copied_pickled_and_written_as_json():
    entry = zoo.ModelEntry(**MODEL, config={"hidden": [1, 2]}, recipes={"default": zoo.Recipe()})
    for twin in (
        zoo.ModelEntry(**MODEL, config={"hidden": (1, 2)}, recipes={"default": zoo.Recipe()}),
        pickle.loads(pickle.dumps(entry)),
        copy.deepcopy(entry),
    ):
        assert twin == entry
        assert hash(twin) == hash(entry)
    assert json.loads(json.dumps(dataclasses.asdict(entry)))["config"] == {"hidden": [1, 2]}


def test_the_options_of_a_model_are_its_shapes_and_its_config():
    entry = zoo.ModelEntry(**MODEL, config={"width": 3})
    assert entry.options == {"num_classes": 10, "in_channels": 3, "image_size": 32, "width": 3}
    assert "num_classes" not in zoo.ModelEntry(**MODEL, num_classes=None).options
    assert zoo.ModelEntry(**MODEL, parameters=5).total_parameters == 5
