"""A search space is understood, or refused with a sentence, before anything is trained."""

import json
from dataclasses import replace

import pytest
from zoo_tune.search import SearchPlan, SearchSettings, decide
from zoo_tune.searcher import Grid, first_guess
from zoo_tune.space import (
    Axis,
    as_settings,
    axis_texts,
    grid_size,
    parse_space,
)

import zoo
from zoo_core.io.errors import OptionError


def parse(*texts, model="cnn"):
    return parse_space(texts, zoo.info(model), zoo.Recipe(validation_fraction=0.2))


def test_ranges_and_choices_have_the_types_of_their_settings():
    axes = parse(
        "lr=log:4.5e-5:1.8e-2", "batch_size=choice:64,128", "model.dropout=uniform:0:0.6",
        "epochs=uniform:2:9", "model.channels=choice:16,32/32,64,128",
        "model.batch_norm=choice:true,false", "augment=choice:flip/flip,crop:4",
        "optimizer=choice:adam,sgd",
    )  # fmt: skip
    assert axes[0] == Axis("lr", "log", 4.5e-5, 1.8e-2)
    assert axes[1].values == (64, 128)
    assert axes[2] == Axis("model.dropout", "uniform", 0.0, 0.6)
    assert axes[3].whole and axes[3].ends == (2, 9)
    assert axes[4].values == ((16, 32), (32, 64, 128))
    assert axes[5].values == (True, False)
    assert axes[6].values == (("flip",), ("flip", "crop:4"))
    assert axes[7].values == ("adam", "sgd")


@pytest.mark.parametrize(
    ("text", "sentence", "hint"),
    [
        ("lrr=log:1:2", "no setting 'lrr'", "did you mean lr?"),
        ("model.dropuot=uniform:0:1", "no option 'dropuot'", "did you mean dropout?"),
        ("dropout=uniform:0:1", "dropout is an option of the model", "write model.dropout=1"),
        ("lr=log:1e-2:1e-4", "inverted: 0.01 to 0.0001", "did you mean lr=log:0.0001:0.01?"),
        ("lr=log:1e-2:1e-2", "the range of lr is empty", ""),
        ("lr=log:0:1", "must begin above 0, and that of lr begins at 0", "lr=uniform:0:1"),
        ("lr=uniform:0:1", "lr must be a number above 0", ""),
        ("lr=log:1", "lr=log:1 is not a range", "NAME=log:LOW:HIGH"),
        ("lr=log:a:b", "is not a range", "NAME=log:LOW:HIGH"),
        ("lr=log:1:inf", "finite ends", ""),
        ("lr", "is not a part of a search space", "NAME=log:LOW:HIGH"),
        ("lr=0.1,0.2", "is not a part of a search space", "NAME=choice:A,B,C"),
        ("lr=choice:", "has no values", ""),
        ("lr=choice:0.1,0.1", "names a value twice", ""),
        ("lr=choice:0.1,fast", "lr must be a number, not 'fast'", ""),
        ("optimizer=uniform:0:1", "is not a number and has no range", "optimizer=choice:"),
        ("model.batch_norm=uniform:0:1", "must be true or false", ""),
        ("subset=uniform:0.1:1", "subset cannot be searched", "--set"),
        ("data.train_size=choice:10,20", "data.train_size cannot be searched", "--set"),
    ],
)
def test_what_cannot_be_meant_is_a_sentence(text, sentence, hint):
    with pytest.raises(OptionError, match=sentence.replace("(", "\\(")) as caught:
        parse(text)
    assert hint in caught.value.hint


def test_a_setting_twice_and_nothing_at_all():
    with pytest.raises(OptionError, match="lr is in the space twice"):
        parse("lr=log:1e-4:1e-2", "lr=choice:0.1,0.2")
    with pytest.raises(OptionError, match="nothing to search"):
        parse()
    with pytest.raises(OptionError, match="is not a part of a grid") as caught:
        axis_texts(["lr"], grid=True)
    assert caught.value.hint == "write NAME=A,B,C"


def test_a_space_from_python_keeps_every_digit():
    texts = axis_texts({"lr": [0.1 + 0.2, 1e-7], "model.channels": [(8,), (8, 16)]})
    axes = parse(*texts)
    assert axes[0].values == (0.1 + 0.2, 1e-7)
    assert axes[1].values == ((8,), (8, 16))
    assert as_settings({"lr": 1.0, "model.dropout": 0.5}) == {"lr": 1.0, "model": {"dropout": 0.5}}


def test_the_recipes_own_place_is_known_where_it_is_inside():
    space = {"lr": "log:1e-4:1e-2", "model.dropout": "uniform:0:0.6"}
    settings = {"lr": 1e-3, "model": {"dropout": 0.5}}
    inside = tune_plan("cnn", settings=settings, space=space)
    assert first_guess(inside) == {"lr": 1e-3, "model.dropout": 0.5}
    assert first_guess(replace(inside, guess=False)) is None
    outside = tune_plan("cnn", settings=settings, space={**space, "lr": "log:1e-2:1e-1"})
    assert first_guess(outside) is None


def test_a_grid_has_every_combination_once():
    axes = parse("lr=choice:0.1,0.2,0.3", "optimizer=choice:adam,sgd")
    grid = Grid(axes)
    found = [tuple(grid.suggest(n, []).parameters.values()) for n in range(1, grid_size(axes) + 1)]
    assert found[:3] == [(0.1, "adam"), (0.1, "sgd"), (0.2, "adam")]
    assert len(set(found)) == 6
    with pytest.raises(OptionError, match="lr has a range"):
        grid_size(parse("lr=log:0.1:1"))


def tune_plan(model, **asked):
    return decide(SearchSettings(model=model, **asked))


def test_the_paper_preset_is_the_published_search():
    plan = tune_plan("mlp", preset="paper")
    assert plan.space == ("lr=log:4.5399929762484854e-05:0.01831563888873418",)  # e^-10, e^-4
    recipe = plan.recipe
    assert (recipe.subset, recipe.validation_fraction) == (0.2, 0.2)
    assert (recipe.epochs, recipe.patience, recipe.seed) == (50, 5, 3407)
    assert (recipe.optimizer, recipe.batch_size, recipe.augment) == ("adam", 128, ())
    # hyperopt's twenty random trials are all of them.
    assert (plan.searcher, plan.trials, plan.startup, plan.prune) == ("tpe", 20, 20, False)
    assert not plan.guess


def test_the_default_preset_follows_the_recipe():
    plan = tune_plan("mlp", settings={"schedule": "constant"})
    assert plan.prune and plan.startup == 5
    assert (plan.recipe.epochs, plan.recipe.patience) == (50, 2)
    # Where the rate falls, the number of epochs belongs to the recipe.
    fashion = tune_plan("fashion_cnn")
    assert fashion.recipe.epochs == zoo.info("fashion_cnn").recipes["default"].epochs
    assert fashion.recipe.patience == 0
    sgd = tune_plan("fcn_numpy")
    assert sgd.space == ("lr=log:0.001:1.0",)
    assert tune_plan("mlp", settings={"epochs": 3}).recipe.epochs == 3


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"preset": "papr"}, "no preset 'papr'"),
        ({"searcher": "bayes"}, "no searcher 'bayes'"),
        ({"trials": 0}, "trials must be a whole number of at least 1"),
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"recipe": "best"}, "no recipe 'best'"),
        ({"settings": {"validation_fraction": 0.0, "patience": 0}}, "needs validation images"),
    ],
)
def test_a_plan_that_cannot_work_is_a_sentence(asked, sentence):
    with pytest.raises(zoo.ZooError, match=sentence):
        tune_plan("mlp", **asked)


def test_a_sweep_is_the_whole_grid():
    grid = ["lr=0.001,0.01,0.1", "optimizer=adam,sgd", "model.activation=relu,leaky_relu"]
    plan = decide(SearchSettings(kind="sweep", model="fashion_cnn", recipe="paper", space=grid))
    assert plan.trials == 12 and plan.kind == "sweep" and not plan.prune
    assert plan.dataset == "fashion_mnist" and plan.preset == ""


def test_a_plan_that_was_kept_is_the_same_again():
    asked = {"space": {"lr": "log:1e-4:1e-2", "model.hidden": [(16,), (16, 8)]}, "trials": 3}
    plan = tune_plan("mlp", settings={"augment": ("flip",)}, **asked)
    kept = json.loads(json.dumps(plan.to_dict()))
    assert SearchPlan.from_dict(kept) == plan
    assert [axis.name for axis in plan.axes] == ["lr", "model.hidden"]
