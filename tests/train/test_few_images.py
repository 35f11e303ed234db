"""What follows the number of images: the recipe, remarks on classes with a handful of them."""

import numpy as np
import pytest
from PIL import Image

import zoo
from zoo_core.report.write import write_report
from zoo_core.spec.registry import registry
from zoo_core.spec.settings import override
from zoo_core.train import runner as training
from zoo_core.train.builder import ENOUGH, FEW_IMAGES, apart, follow_data

SMALL = {"epochs": 2, "batch_size": 20, "model": {"hidden": (8,)}}
FROZEN = ("efficientnet_lite0_finetune", "vit_b16_finetune", "timm_frozen")


def data_of(images):
    """As many images as a test asks for, of one pixel each."""
    train = zoo.Split(np.zeros((images, 1, 1, 3), np.uint8), np.arange(images) % 10)
    targets = zoo.Targets("class", tuple("0123456789"))
    return zoo.Dataset("pixels", train, None, targets, (0.5,), (0.5,), "0" * 64)


def followed(images, *asked, name="efficientnet_lite0_finetune", recipe="default", **changes):
    said = []
    entry = registry().models.get(name)
    chosen = override(entry.recipes[recipe], changes)
    found = follow_data(entry, chosen, {*asked, *changes}, data_of(images), said.append)
    return found, " ".join(said)


@pytest.mark.parametrize("name", FROZEN)
@pytest.mark.parametrize(("images", "chosen"), [(188, FEW_IMAGES), (9_000, FEW_IMAGES),
                                                (10_241, ""), (50_000, "")])  # fmt: skip
def test_frozen_models_have_a_recipe_for_few_images(name, images, chosen):
    found, said = followed(images, name=name)
    assert found == chosen
    assert bool(said) == bool(chosen)


def test_the_choice_is_said_with_its_reason():
    _, said = followed(188)
    assert said == (
        "Training with the recipe few_images: the recipe default makes only 20 updates: 188 "
        "images, epochs=20, batch_size=512."
    )


@pytest.mark.parametrize(
    "changes", [{"epochs": 50}, {"lr": 0.01}, {"optimizer": "adam"}, {"batch_size": 64}]
)
def test_what_a_person_sets_wins(changes):
    found, said = followed(188, **changes)
    assert found == "" and said.startswith("The recipe makes only ")
    told = f"You set {next(iter(changes))}, so the recipe is default; --recipe few_images is for"
    assert told in said


def test_a_person_who_sets_enough_hears_nothing():
    assert followed(188, epochs=400) == ("", "")
    assert followed(188, optimizer="lbfgs") == ("", "")
    assert followed(188, seed=3)[0] == FEW_IMAGES  # both recipes have the same


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_a_recipe_that_is_named_stays_and_says_what_it_lacks(recipe):
    found, said = followed(40, "recipe", name="vit_b16_finetune", recipe=recipe)
    assert found == ""
    assert "updates: 40 images" in said and "--set batch_size=32 --set epochs=200 makes 400" in said


def test_the_recipe_for_few_images_differs_in_how_the_head_is_found_alone():
    for name in FROZEN:
        recipes = registry().models.get(name).recipes
        assert {*apart(recipes["default"], recipes[FEW_IMAGES])} == {
            "optimizer", "lr", "weight_decay", "schedule", "epochs", "batch_size",
        }  # fmt: skip


def test_a_model_without_such_a_recipe_says_how_to_get_enough_updates(tmp_path, capsys):
    data = {"train_size": 100, "test_size": 20}
    training.train("mlp", "synthetic", settings={**SMALL, "data": data}, runs=tmp_path)
    said = capsys.readouterr().err
    assert "only 10 updates: 100 images, epochs=2, batch_size=20" in said
    assert "--set batch_size=20 --set epochs=80 makes 400 or more" in said
    assert ENOUGH == 400


def folder(tmp_path, **counts):
    generator = np.random.default_rng(0)
    for split in ("train", "test"):
        for name, count in counts.items():
            place = tmp_path / "photos" / split / name
            place.mkdir(parents=True)
            for number in range(count):
                pixels = generator.integers(0, 255, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(place / f"{number}.png")
    return str(tmp_path / "photos")


def test_classes_with_a_handful_of_images_are_named(tmp_path, capsys):
    photos = folder(tmp_path, many=12, few=3, nine=9, ten=10)
    run = training.train("mlp", photos, settings=SMALL, runs=tmp_path, report=write_report).run
    sentence = "2 classes have fewer than 10 training images: few (3), nine (9)"
    assert sentence in capsys.readouterr().err
    report = (run.path / "report.md").read_text()
    assert f"{sentence}." in report and "| test balanced accuracy |" in report


def test_validation_images_do_not_count_as_training_images(tmp_path, capsys):
    photos = folder(tmp_path, many=40, some=10)
    how = {**SMALL, "validation_fraction": 0.2}
    training.train("mlp", photos, settings=how, runs=tmp_path)
    assert "1 class has fewer than 10 training images: some (8)" in capsys.readouterr().err
