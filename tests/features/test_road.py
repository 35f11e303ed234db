"""`task.finetune=auto`, the default: the head, and more where that is cheap."""

import shlex
import time as clock

import pytest
from features.parts import settings
from zoo_frozen.torch import finetune
from zoo_tune.search import SearchSettings, decide

import zoo
from zoo.testing import main
from zoo_core.train import runner as training

SIZES = {"train_size": 120, "test_size": 20}


@pytest.fixture
def train(tmp_path, weights, monkeypatch):
    """Train the small frozen model with nothing set but its size; keywords are settings."""

    monkeypatch.setattr(finetune, "JUDGES", 10)

    def run(**changes):
        small = settings(weights, **{"data": SIZES, **changes})
        left_open = {n: v for n, v in small.items() if n in changes or n not in OPEN}
        return training.train(
            "resnet18_features", "synthetic", settings=left_open, runs=tmp_path / "runs",
        )  # fmt: skip

    return run


OPEN = ("epochs", "batch_size")


@pytest.fixture
def allowed(monkeypatch):
    """How many passes fine-tuning may cost."""
    return lambda passes: monkeypatch.setattr(finetune, "DEAREST", passes)


def test_what_is_cheap_is_fine_tuned_and_said_in_one_line(train, allowed, capsys):
    allowed(1e9)
    document = train().run.read()
    assert document["recipe_name"] == "finetune"
    assert document["recipe"]["task"] == {"finetune": "last:2"}
    assert document["recipe"]["epochs"] == finetune.EPOCHS
    assert document["result"]["finetune"]["way"] == "last:2"
    (said,) = (line for line in capsys.readouterr().err.splitlines() if "Training" in line)
    assert said.startswith("Training the head first, then more: fine-tuning last:2 takes about ")
    assert "times the feature pass" in said


def test_what_is_dear_stays_a_head_with_a_command_that_goes_on(
    train, allowed, capsys, tmp_path, monkeypatch
):
    allowed(0)
    kept = train(seed=3)
    document = kept.run.read()
    assert document["recipe_name"] == "few_images"
    assert document["recipe"]["task"] == {"finetune": "head"}
    alone = train(seed=3, task={"finetune": "head"})
    assert kept.run.model_file.read_bytes() == alone.run.model_file.read_bytes()
    said = capsys.readouterr().err
    command = said.partition("To fine-tune: zoo ")[2].splitlines()[0]
    assert "--set task.finetune=last:2" in command
    monkeypatch.setenv("ZOO_RUNS", str(tmp_path / "more"))
    with pytest.raises(SystemExit, match="0"):
        main([*shlex.split(command), "--epochs", "1", "--no-report", "--quiet"])
    (longer,) = (tmp_path / "more").iterdir()
    again = training.Run(longer).read()
    assert again["result"]["finetune"]["way"] == "last:2" and again["recipe"]["seed"] == 3
    assert again["recipe"]["data"] == document["recipe"]["data"]


def test_few_validation_images_judge_nothing(train, allowed, capsys):
    allowed(1e9)
    document = train(data={"train_size": 40, "test_size": 20}).run.read()
    assert document["recipe"]["task"] == {"finetune": "head"}
    assert "4 validation images are too few to judge fine-tuning" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes, way",
    [
        ({"epochs": 1}, None),  # meant for the head, as ever
        ({"task": {"dtype": "float32"}}, None),
        ({"task": {"finetune": "head"}}, "head"),
        ({"epochs": 1, "task": {"finetune": "auto"}}, "last:2"),
        ({"task": {"finetune": "auto", "layer_decay": 0.9}}, "last:2"),
    ],
    ids=str,
)
def test_settings_for_training_are_for_the_head_unless_auto_is_said(train, allowed, changes, way):
    allowed(1e9)
    recipe = train(**changes).run.read()["recipe"]
    assert recipe["task"].get("finetune") == way
    assert recipe["epochs"] == changes.get("epochs", recipe["epochs"])


def test_auto_that_stays_with_the_head_drops_what_is_for_fine_tuning(train, allowed):
    allowed(0)
    result = train(task={"finetune": "auto", "layer_decay": 0.9, "dtype": "float32"})
    assert result.run.read()["recipe"]["task"] == {"dtype": "float32", "finetune": "head"}


def test_a_named_recipe_decides_by_itself(tmp_path, weights, allowed):
    allowed(1e9)
    how = {"settings": settings(weights, data=SIZES), "runs": tmp_path / "runs", "quiet": True}
    result = training.train("resnet18_features", "synthetic", recipe="few_images", **how)
    assert "finetune" not in result.run.read()["recipe"]["task"]


@pytest.mark.parametrize("task", [{}, {"finetune": "auto"}], ids=str)
def test_a_search_tries_heads(task):
    asked = SearchSettings(model="resnet18_features", dataset="synthetic", settings={"task": task})
    plan = decide(asked)
    assert plan.recipe_name == "default" and finetune.asked_for(plan.recipe) is None


@pytest.mark.parametrize("passes", [0, 1e9], ids=["head", "last:2"])
def test_a_run_that_was_stopped_never_decides_anew(train, allowed, monkeypatch, passes):
    allowed(passes)
    whole = train()
    fit = training.Job.training_loader

    def stopped(self, **how):
        if self.run:  # not where it is measured
            raise KeyboardInterrupt
        return fit(self, **how)

    monkeypatch.setattr(training.Job, "training_loader", stopped)
    with pytest.raises(zoo.Interrupted):
        train()
    monkeypatch.setattr(training.Job, "training_loader", fit)
    allowed(1e9 - passes)
    monkeypatch.setattr(finetune, "price", None)
    (half,) = (path for path in whole.path.parent.iterdir() if path != whole.path)
    resumed = training.resume(str(half), quiet=True)
    assert resumed.run.model_file.read_bytes() == whole.run.model_file.read_bytes()


def test_the_price_counts_all_epochs_all_images_and_the_judging(train, allowed, monkeypatch):
    """A clock that ticks 2 seconds for an image that is learned, and 1 for one that is seen."""
    now, prices = [0.0], []
    extract, learn, price = finetune.Extractor.__call__, finetune.Finetuner.step, finetune.price

    def seen(self, images):
        now[0] += len(images)
        return extract(self, images)

    def learned(self, batch, place):
        now[0] += 2 * len(batch)
        return learn(self, batch, place)

    monkeypatch.setattr(clock, "perf_counter", lambda: now[0])
    monkeypatch.setattr(finetune.Extractor, "__call__", seen)
    monkeypatch.setattr(finetune.Finetuner, "step", learned)
    monkeypatch.setattr(
        finetune, "price", lambda *given: (prices.append(price(*given)), prices[-1])[1]
    )
    allowed(0)
    train()
    epochs, (found,) = finetune.EPOCHS, prices
    assert found.finetuning == pytest.approx(epochs * 108 * 2 + (epochs + 1) * 12)
    assert found.feature_pass == pytest.approx(140)
