"""Suggestions: inside the space, a function of what was seen, and better than chance."""

import math
import random
import statistics
import subprocess
import sys
from dataclasses import asdict

from support import environment
from zoo_tune.search import SearchPlan, Trial
from zoo_tune.searcher import make_searcher
from zoo_tune.space import parse_space
from zoo_tune.trials import above_the_median, cannot_catch_up

import zoo
from zoo_core.spec.recipe import freeze

SPACE = ("lr=log:1e-5:1e-1", "batch_size=log:16:256", "model.dropout=uniform:0:0.6",
         "optimizer=choice:adam,sgd", "model.channels=choice:8,16/16")  # fmt: skip


def axes(*texts):
    return parse_space(texts or SPACE, zoo.info("cnn"), zoo.Recipe())


def searcher(name, axes, seed, startup, guess=None):
    """guess: a recipe's learning rate, which is the first suggestion."""
    recipe = zoo.Recipe(seed=seed, lr=guess or 1e-3)
    plan = SearchPlan(
        model="cnn", dataset="", recipe=recipe, recipe_name="", space=(), axes=axes, trials=1,
        searcher=name, startup=startup, guess=guess is not None,
    )  # fmt: skip
    return make_searcher(plan)


def trial(number, suggestion, loss):
    return Trial(
        number=number, parameters=suggestion.parameters, source=suggestion.source,
        status="failed" if loss is None else "complete", loss=loss, epoch=1, epochs=1, seconds=0,
        curve=[{"epoch": 1, "validation_loss": loss}],
    )  # fmt: skip


def search(source, loss, trials):
    seen = []
    for number in range(1, trials + 1):
        suggestion = source.suggest(number, seen)
        seen.append(trial(number, suggestion, loss(suggestion.parameters)))
    return seen


def test_suggestions_stay_in_the_space_and_have_its_types():
    def loss(p):
        return None if p["optimizer"] == "sgd" else abs(math.log(p["lr"] / 1e-3))

    for seen in search(searcher("tpe", axes(), 0, 5), loss, 15):
        p = seen.parameters
        assert 1e-5 <= p["lr"] <= 1e-1 and 0 <= p["model.dropout"] <= 0.6
        assert isinstance(p["batch_size"], int) and 16 <= p["batch_size"] <= 256
        assert p["optimizer"] in ("adam", "sgd") and p["model.channels"] in ((8, 16), (16,))
        assert list(p) == [text.partition("=")[0] for text in SPACE]


def test_a_searcher_that_is_made_anew_says_the_same(tmp_path):
    def loss(p):
        return abs(math.log(p["lr"] / 1e-3)) + p["model.dropout"]

    whole = search(searcher("tpe", axes(), 7, 4), loss, 9)
    # As after a kill: every trial has gone through JSON, and the searcher knows nothing.
    import json

    again = [Trial(**freeze(json.loads(json.dumps(asdict(t))))) for t in whole[:8]]
    suggestion = searcher("tpe", axes(), 7, 4).suggest(9, again)
    assert suggestion.parameters == whole[8].parameters
    other = searcher("tpe", axes(), 8, 4).suggest(9, again)
    assert other.parameters != whole[8].parameters


def test_it_says_where_each_suggestion_comes_from():
    rates = axes("lr=log:1e-5:1e-1")
    found = search(searcher("tpe", rates, 0, 3, guess=2e-3), lambda p: p["lr"], 5)
    assert found[0].parameters == {"lr": 2e-3}
    assert [t.source for t in found] == ["recipe", "random", "random", "tpe", "tpe"]
    found = search(searcher("random", rates, 0, 3), lambda p: p["lr"], 5)
    assert {t.source for t in found} == {"random"}


def test_tpe_learns():
    rates = axes("lr=log:1e-6:1")

    def loss(p):
        return abs(math.log10(p["lr"]) + 3)

    def mean(name):
        found = (search(searcher(name, rates, s, 5), loss, 20) for s in range(8))
        return statistics.mean(trial.loss for trials in found for trial in trials[10:])

    assert mean("tpe") < 0.9 * mean("random")


def test_without_hyperopt_it_says_how_to_get_it():
    code = (
        "import sys; sys.modules['hyperopt'] = None\n"
        "from zoo_core.cli.main import main\n"
        "main(['tune', 'fcn_numpy', '--dataset', 'synthetic', '--runs', 'nowhere'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 1
    assert "needs hyperopt, which is not installed" in done.stderr
    assert "pip install hyperopt" in done.stderr


# ---------------------------------------------------------------- pruning


def test_a_trial_that_cannot_catch_up_is_ended():
    lead = [1.8, 1.7, 1.65, 1.63, 1.62, 1.64]
    assert not cannot_catch_up([2.3], [lead]), "one epoch says nothing about how it falls"
    assert not cannot_catch_up([2.3, 2.2], []), "nobody to lose against"
    assert not cannot_catch_up([2.0, 1.85], [lead])
    assert cannot_catch_up([1.80, 1.79], [lead])
    assert cannot_catch_up([1.80, 1.85], [lead])
    assert not cannot_catch_up([1.7, 1.61, 1.65], [lead]), "it leads; patience decides"


def test_where_the_rate_changes_only_the_same_epoch_compares():
    rivals = [[2.0, 1.8, 1.6], [2.0, 1.7, 1.5], [2.0, 1.9, 1.7]]
    assert above_the_median([2.0, 1.85], rivals, 6)
    assert not above_the_median([2.0, 1.75], rivals, 6)
    assert not above_the_median([2.9], rivals, 6), "too early"
    assert not above_the_median([2.0, 1.85], rivals[:2], 6), "too few"


def test_pruning_never_ends_the_one_that_would_have_won():
    """Curves whose falls shrink by a third an epoch or more, and that rise again some day."""
    draw = random.Random(0)
    for _ in range(300):
        curves = []
        for _ in range(8):
            floor, speed, rise = draw.uniform(1, 2), draw.uniform(0.2, 0.67), draw.uniform(0, 0.02)
            curves.append([floor + speed**e + rise * e for e in range(1, 25)])
        kept = []
        for curve in curves:
            ends = (e for e in range(1, 25) if cannot_catch_up(curve[:e], kept))
            kept.append(curve[: next(ends, 24)])
        assert min(map(min, kept)) == min(map(min, curves))
