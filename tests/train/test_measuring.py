"""When and on how many images a training is measured: evaluate_every, evaluate_subset."""

import numpy as np
import pytest
from zoo_tune.trials import TrialJob

import zoo
from zoo_core.report.write import write_report
from zoo_core.runs.run import Run
from zoo_core.runs.summary import summarize
from zoo_core.torch.learner import TorchLearner
from zoo_core.train import runner as training
from zoo_core.train.loop import Loop

SMALL = {"batch_size": 20, "model": {"hidden": (8,)}}
DATA = {"train_size": 60, "test_size": 40}


@pytest.fixture
def evaluated(monkeypatch):
    """How many images each evaluation of the loop was of."""
    seen, evaluate = [], TorchLearner.evaluate

    def counted(self, loader):
        seen.append(len(loader.indices))
        return evaluate(self, loader)

    monkeypatch.setattr(TorchLearner, "evaluate", counted)
    return seen


def train(tmp_path, *, quiet=True, report=None, **changes):
    how = {**SMALL, "data": DATA, **changes}
    return training.train(
        "mlp", "synthetic", settings=how, runs=tmp_path, quiet=quiet, report=report, device="cpu"
    )


def measured(result, split):
    return [line["epoch"] for line in result.run.metrics() if f"{split}_loss" in line]


@pytest.mark.parametrize(
    ("every", "epochs"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (7, [5]), (0, [5])]
)
def test_every_so_many_epochs_and_the_last_one(tmp_path, evaluated, every, epochs):
    result = train(tmp_path, epochs=5, validation_fraction=0.2, evaluate_every=every)
    assert measured(result, "test") == measured(result, "validation") == epochs
    assert measured(result, "train") == [1, 2, 3, 4, 5]
    assert evaluated == [12, 40] * len(epochs)


@pytest.mark.parametrize(("subset", "images"), [(0.25, 10), (7, 7), (1, 40), (100, 40)])
def test_before_the_last_epoch_a_part_of_the_test_images_and_then_all(
    tmp_path, evaluated, subset, images
):
    result = train(tmp_path, epochs=3, validation_fraction=0.2, evaluate_subset=subset)
    assert evaluated == [12, images, 12, images, 12, 40]
    assert zoo.evaluate(result.path)["accuracy"] == result.accuracy
    assert result.run.metrics()[-1]["test_accuracy"] == result.accuracy


def test_what_is_measured_changes_no_weight(tmp_path):
    digests = {
        train(tmp_path, epochs=3, **how).run.read()["result"]["model"]["sha256"]
        for how in ({}, {"evaluate_every": 0}, {"evaluate_subset": 0.1, "evaluate_every": 2})
    }
    assert len(digests) == 1


def test_the_part_has_its_share_of_every_class(make_job, small_mlp):
    job = make_job(small_mlp, evaluate_subset=0.3, data={"train_size": 50, "test_size": 200})
    part = Loop(TorchLearner(job, job.trainer.build(job.entry, job.config)), job).part
    labels = job.dataset.test.labels
    found, whole = (np.bincount(some, minlength=10) for some in (labels[part.indices], labels))
    assert np.abs(found - 0.3 * whole).max() <= 1


@pytest.mark.parametrize(
    ("changes", "in_the_loop"),
    [
        ({}, [40, 40, 40]),
        ({"precision": "bfloat16"}, [40, 40]),
        ({"validation_fraction": 0.2, "restore_best": True}, [12, 40, 12, 40, 12]),
        ({"validation_fraction": 0.2, "patience": 1, "lr": 0.8}, None),
    ],
)
def test_the_end_is_measured_once_on_all_test_images(tmp_path, evaluated, changes, in_the_loop):
    result = train(tmp_path, epochs=3, **changes)
    assert in_the_loop is None or evaluated == in_the_loop
    document, lines = result.run.read(), result.run.metrics()
    last_is_kept = document["result"]["best_epoch"] in (None, len(lines))
    if last_is_kept or "patience" in changes:
        assert lines[-1]["test_accuracy"] == document["result"]["test"]["accuracy"]
    assert zoo.evaluate(result.path)["accuracy"] == result.accuracy


def test_a_run_that_patience_ends_is_measured_on_all_images_then(tmp_path, evaluated):
    how = {"epochs": 40, "patience": 1, "validation_fraction": 0.3, "lr": 0.5}
    result = train(tmp_path, **how, evaluate_subset=5)
    document = result.run.read()["result"]
    assert document["stopped_early"] and evaluated[-3:] == [5, 18, 40]
    assert result.run.metrics()[-1]["test_loss"] == document["test"]["loss"]


def test_patience_counts_epochs_and_looks_when_there_is_a_measurement(tmp_path):
    how = {"epochs": 40, "patience": 3, "validation_fraction": 0.3, "lr": 0.5, "evaluate_every": 2}
    document = train(tmp_path, **how).run.read()["result"]
    assert document["stopped_early"] and document["epochs"] % 2 == 0
    assert document["epochs"] - document["best_epoch"] >= 3


def test_a_run_that_was_stopped_goes_on_to_the_same_lines_and_bytes(tmp_path, monkeypatch):
    how = {"epochs": 5, "validation_fraction": 0.2, "evaluate_every": 2, "evaluate_subset": 9}
    how |= {"class_weights": "balanced", "precision": "bfloat16"}
    whole, step = train(tmp_path, **how), TorchLearner.step

    def stopped(self, batch, place):
        if place.step == 10:
            raise KeyboardInterrupt
        step(self, batch, place)

    monkeypatch.setattr(TorchLearner, "step", stopped)
    with pytest.raises(zoo.Interrupted):
        train(tmp_path, **how)
    monkeypatch.setattr(TorchLearner, "step", step)
    (begun,) = (run for run in Run.every(tmp_path) if run.read()["status"] == "interrupted")
    training.resume(str(begun.path), quiet=True)
    times = ("seconds", "images_per_second")
    one, other = (
        [{k: v for k, v in line.items() if k not in times} for line in run.metrics()]
        for run in (whole.run, begun)
    )
    assert one == other
    assert begun.model_file.read_bytes() == whole.run.model_file.read_bytes()


def test_without_measurements_nothing_can_be_patient():
    with pytest.raises(zoo.ZooError, match="and an evaluate_every above 0"):
        zoo.Recipe(patience=2, validation_fraction=0.1, evaluate_every=0)


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "many"])
def test_a_subset_is_a_share_or_a_number(bad):
    with pytest.raises(zoo.ZooError, match="a share above 0 and at most 1, or a whole number"):
        zoo.Recipe(evaluate_subset=bad)


def test_few_training_images_are_not_outweighed_by_the_test_set(tmp_path, evaluated, capsys):
    few = {"train_size": 30, "test_size": 200}
    result = train(tmp_path, epochs=3, quiet=False, data=few, report=write_report)
    assert evaluated == [30, 30, 200]
    told = "Test figures before the last epoch are those of 30 images."
    assert told in result.report.read_text()
    assert result.run.read()["recipe"]["evaluate_subset"] == 30
    assert "Epochs are measured on 30 of 200 test images" in capsys.readouterr().err
    evaluated.clear()
    train(tmp_path, epochs=3, data=few, evaluate_subset=1)
    train(tmp_path, epochs=1, data=few)
    assert evaluated == [200] * 4


def test_a_sweep_spares_the_test_set_too(tmp_path, evaluated):
    few = {"train_size": 30, "test_size": 90}
    zoo.sweep("mlp", "synthetic", grid={"lr": [0.1, 0.01]}, settings={**SMALL, "data": few},
              epochs=2, runs=tmp_path, quiet=True)  # fmt: skip
    assert evaluated == [30, 90] * 2


def test_a_running_run_tells_what_was_measured_last(tmp_path):
    run = Run(tmp_path / "run")
    run.path.mkdir()
    run.write({"format": 1, "status": "running", "model": {"name": "m"}, "recipe": {"epochs": 9},
               "dataset": {"name": "d", "reference": "d"}, "preprocess": {},
               "environment": {}})  # fmt: skip
    run.append_metrics({"epoch": 1, "train_loss": 3.0, "test_loss": 2.0, "test_accuracy": 0.5})
    run.append_metrics({"epoch": 2, "train_loss": 1.0})
    found = summarize(run)
    assert (found.split, found.accuracy, found.epochs) == ("test", 0.5, 2)


def test_a_trial_that_is_measured_rarely_is_judged_by_its_measurements():
    class Plan:
        prune = True
        recipe = zoo.Recipe(epochs=30, evaluate_every=10, schedule="cosine")

        def tried(parameters):
            return Plan.recipe

    class Suggestion:
        parameters: dict[str, float] = {}

    rivals = ((1.0, 0.9, 0.8),) * 3
    job = TrialJob(Plan, 1, Suggestion, rivals, None, None, 30.0)
    lines = [{"epoch": epoch} for epoch in range(1, 31)]
    assert not job.hopeless(lines[:9])  # nothing was measured yet
    lines[9]["validation_loss"] = 1.5
    assert job.hopeless(lines[:10])
    lines[9]["validation_loss"] = 0.5
    assert not job.hopeless(lines[:10])


@pytest.mark.parametrize("model", ["fcn_numpy"])
def test_another_framework_has_it_from_the_loop(tmp_path, model):
    how = {"epochs": 3, "batch_size": 30, "data": DATA, "evaluate_every": 2, "evaluate_subset": 9}
    result = training.train(model, "synthetic", settings=how, runs=tmp_path, quiet=True)
    assert measured(result, "test") == [2, 3]
    assert result.run.metrics()[-1]["test_accuracy"] == result.accuracy


def test_a_trainer_without_epochs_refuses_them():
    assert not {"evaluate_every", "evaluate_subset", "class_weights"} & zoo.Trainer.honours
