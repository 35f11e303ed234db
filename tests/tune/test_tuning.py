"""`zoo tune` and `zoo sweep` as a person uses them."""

import dataclasses
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from fixtures import kills
from support import environment
from zoo_tune import trials
from zoo_tune.search import Search, SearchSettings, decide
from zoo_tune.tuning import run_search

import zoo
from zoo_core.io import locks
from zoo_core.io.locks import lock_file
from zoo_core.runs.run import Run
from zoo_core.runs.summary import summarize_any

SMALL = [
    "--dataset", "synthetic", "--set", "data.train_size=300", "--set", "data.test_size=60",
    "--set", "model.hidden=16", "--set", "batch_size=50", "--subset", "1",
]  # fmt: skip
QUICK = [  # without torch, and at random
    "fcn_numpy", "--dataset", "synthetic", "--set", "data.train_size=300",
    "--set", "data.test_size=60", "--set", "model.hidden=16", "--searcher", "random",
    "--trials", "2", "--no-prune",
]  # fmt: skip
DRIVER = Path(__file__).with_name("kill_driver.py")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Settings of a small search in this process."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    data = {"train_size": 300, "test_size": 60}
    settings = {"data": data, "model": {"hidden": (16,)}, "batch_size": 50, "subset": 1.0}
    return {"settings": settings, "quiet": True, "runs": tmp_path / "runs"}


def only(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


@pytest.mark.renders
def test_tune_then_train_then_train_the_same_again(zoo_here, tmp_path):
    constant = ("--set", "schedule=constant", "--set", "lr=3e-4")
    done = zoo_here("tune", "mlp", *SMALL, *constant, "--epochs", "4", "--train")
    search = only(tmp_path / "runs", "tune-mlp-synthetic-*")
    trained = only(tmp_path / "runs", "mlp-synthetic-*")
    assert done.stdout.splitlines()[-1] == f"runs/{search.name}"
    assert done.stderr.splitlines()[0] == f"runs/{search.name}"
    assert "trial 1/8  lr=0.0003  loss " in done.stderr

    trials = [json.loads(line) for line in (search / "trials.jsonl").read_text().splitlines()]
    assert [trial["number"] for trial in trials] == list(range(1, 9))
    assert [t["source"] for t in trials] == ["recipe", *["random"] * 4, *["tpe"] * 3]
    for trial in trials:
        assert len(trial["curve"]) == trial["epochs"]
        assert trial["loss"] == min(line["validation_loss"] for line in trial["curve"])
        assert "test_loss" not in trial["curve"][0], "the test set decides nothing"
        folder = search / "trials" / f"{trial['number']:03d}"
        assert json.loads((folder / "run.json").read_text())["status"] == "complete"
        assert not (folder / "model.safetensors").exists()

    best = min(trials, key=lambda trial: trial["loss"])
    document = json.loads((search / "search.json").read_text())
    assert document["status"] == "complete" and document["best"] == best["number"]
    recipe = tomllib.loads((search / "best.toml").read_text())
    assert recipe["lr"] == best["parameters"]["lr"]
    assert recipe["epochs"] == best["epoch"]
    assert recipe["seed"] == 0 and recipe["schedule"] == "constant"
    # What nobody set is left out, and what was set for the trials alone.
    assert not {"subset", "validation_fraction", "patience", "momentum", "init"} & set(recipe)

    run = json.loads((trained / "run.json").read_text())
    assert run["recipe"]["lr"] == recipe["lr"]
    assert run["dataset"]["train"] == 300 and run["dataset"]["validation"] == 0
    assert document["result"]["accuracy"] == run["result"]["test"]["accuracy"]
    again = zoo_here("train", "--config", str(search / "best.toml"), "--json", "--no-report")
    digest = json.loads(again.stdout)["result"]["model"]["sha256"]
    assert digest == run["result"]["model"]["sha256"]

    report = (search / "report.md").read_text()
    assert "1 recipe, 4 random, 3 tpe" in report and "epochs saved" in report
    assert (search / "pictures" / "trials.png").exists()
    assert (search / "pictures" / "curves.png").exists()
    command = f"zoo train --config runs/{search.name}/best.toml"
    assert f"\n{command}\n" in report and f"\n# {command}\n" in report
    listed = json.loads(zoo_here("runs", "--json").stdout)
    # Names have whole seconds, so what begins in one second is listed in any order.
    assert sorted(row["kind"] for row in listed) == ["run", "run", "search"]
    (row,) = (row for row in listed if row["kind"] == "search")
    assert row["best"] == best["parameters"] and row["trials"] == 8
    assert row["loss"] == best["loss"]
    # A complete search is shown again, and nothing is done twice.
    shown = zoo_here("tune", "--resume", "latest", "--json")
    assert len(json.loads(shown.stdout)["trials"]) == 8
    assert len(list((tmp_path / "runs").glob("mlp-*"))) == 2


def test_pruning_stops_trials_and_is_the_same_each_time(small):
    plain = {"optimizer": "adam", "schedule": "constant", "weight_decay": 0.0, "augment": ()}
    small["settings"] |= {"epochs": 8, **plain}
    space = {"lr": [3e-3, 1e-6, 2e-6, 4e-3]}
    one, two = (zoo.tune("mlp", "synthetic", space=space, searcher="grid", **small) for _ in "ab")
    assert [t.status for t in one.trials][1:3] == ["pruned", "pruned"]
    assert [t.epochs for t in one.trials] == [t.epochs for t in two.trials]
    whole = zoo.tune("mlp", "synthetic", space=space, searcher="grid", prune=False, **small)
    assert {t.status for t in whole.trials} == {"complete"}
    assert sum(t.epochs for t in one.trials) < sum(t.epochs for t in whole.trials)
    assert one.best.parameters == whole.best.parameters
    assert "epochs saved: about" in one.report.read_text()
    assert "spared" not in whole.report.read_text()


def test_a_model_without_torch_is_tuned_too(small):
    small["settings"] = {"epochs": 2, "data": {"train_size": 300, "test_size": 60, "channels": 1}}
    small["settings"] |= {"subset": 1.0, "model": {"hidden": (16,)}}
    result = zoo.tune("fcn_numpy", "synthetic", trials=2, train=True, **small)
    assert len(result.trials) == 2 and result.trained.accuracy is not None
    # A notebook shows both, with a plot each.
    html = result._repr_html_()
    assert "2 of 2 trials" in html and "fcn_numpy on synthetic" in html
    assert html.count("src='data:image/png;base64,") == 2
    assert "2 trials, best: " in repr(result) and len(repr(result)) < 400
    assert "curve" not in repr(result.best)


def test_trials_may_start_from_weights_of_the_same_folder(small):
    small["settings"]["epochs"] = 1
    trained = zoo.train("mlp", "synthetic", **{**small, "settings": {**small["settings"]}})
    found = zoo.tune("mlp", "synthetic", trials=1, train=True, init=trained.path.name, **small)
    assert found.trained.run.read()["recipe"]["init"] == trained.path.name


def test_of_few_pictures_the_trials_take_all_and_too_few_judges_are_named(tmp_path, capsys):
    settings = {"data": {"train_size": 60, "test_size": 10}, "model": {"hidden": (4,)}, "epochs": 2}
    found = zoo.tune("mlp", "synthetic", trials=1, settings=settings, runs=tmp_path)
    about = found.search.read()["dataset"]
    assert (about["train"], about["validation"]) == (48, 12)
    assert "only 12 validation images" in capsys.readouterr().err
    # Where the rate falls, the loss of a trial is the one that the final training ends with.
    (trial,) = found.trials
    assert trial.loss == trial.curve[-1]["validation_loss"] and trial.epoch == 2


@pytest.mark.parametrize(
    ("space", "asked", "searcher", "trials"),
    [
        (["batch_size=choice:10,20,30"], {}, "grid", 3),
        (["batch_size=choice:10,20,30"], {"trials": 3}, "grid", 3),
        (["batch_size=choice:10,20,30"], {"trials": 2}, "tpe", 2),
        (["batch_size=choice:10,20,30"], {"searcher": "tpe"}, "tpe", 8),
        (["batch_size=choice:10,20,30", "seed=choice:1,2,3"], {}, "tpe", 8),
        (["batch_size=choice:10,20,30", "lr=log:0.1:1"], {"trials": 30}, "tpe", 30),
    ],
)
def test_choices_are_tried_once_each_where_the_trials_are_enough(space, asked, searcher, trials):
    plan = decide(SearchSettings(model="fcn_numpy", space=space, **asked))
    assert (plan.searcher, plan.trials) == (searcher, trials)


def test_a_complete_search_says_so_when_it_is_resumed(small, capsys):
    asked = SearchSettings(model="fcn_numpy", dataset="synthetic", trials=1, report=False, **small)
    found = run_search(asked)
    again = {"resume": str(found.path), "report": False}
    before = found.search.trials_file.read_bytes()
    assert run_search(SearchSettings(**again)).best.parameters == found.best.parameters
    assert f"{found.path} is complete; there is nothing to resume.\n" == capsys.readouterr().err
    assert found.search.trials_file.read_bytes() == before
    assert zoo.resume(found.path, quiet=True).best.parameters == found.best.parameters
    assert run_search(SearchSettings(**again, train=True)).trained is not None
    assert "nothing to resume" not in capsys.readouterr().err


def test_several_workers_share_the_work(small):
    """That they find the same again and again is tested below, with kills."""
    small["settings"]["epochs"] = 2
    found = zoo.tune("fcn_numpy", "synthetic", trials=5, workers=2, **small)
    assert [t.source for t in found.trials] == ["recipe", *["random"] * 4]
    assert "| workers | 2, local |" in found.report.read_text()


@pytest.mark.renders
def test_a_sweep_is_a_table_where_failures_are_rows(zoo_here, tmp_path):
    grid = ["--grid", "lr=0.01,1e30", "--grid", "optimizer=adam,sgd", "--set", "clip_grad=0"]
    grid += ["--set", "validation_fraction=0.2"]
    done = zoo_here("sweep", "mlp", *SMALL, *grid, "--epochs", "3")
    sweep = only(tmp_path / "runs", "sweep-mlp-*")
    rows = done.stdout.splitlines()
    assert rows[0].split()[:3] == ["RUN", "LR", "OPTIMIZER"]
    assert rows[1].endswith("best") and "failed: the loss was not a finite number" in rows[4]
    assert (sweep / "pictures" / "axes.png").exists()
    assert (sweep / "pictures" / "curves.png").exists()
    html = Search(sweep)._repr_html_()
    assert "failed: the loss was not" in html and html.count("<img") == 1
    # Every run is one: it has weights, and can be evaluated.
    best = tomllib.loads((sweep / "best.toml").read_text())
    assert best["lr"] == 0.01
    number = rows[1].split()[0]
    zoo_here("evaluate", str(sweep / "trials" / f"{int(number):03d}"))
    named = f"{sweep.name}/trials/{int(number):03d}"
    assert json.loads((tmp_path / "runs" / named / "run.json").read_text())["name"] == named
    # Its report can be written again, also when it is not finished.
    (sweep / "report.md").unlink()
    done = zoo_here("report", "latest", "--json")
    assert json.loads(done.stdout)["report"] == f"runs/{sweep.name}/report.md"
    assert "| run | lr | optimizer |" in (sweep / "report.md").read_text()
    assert "| ---: | ---: | --- |" in (sweep / "report.md").read_text()
    search, lines = Search(sweep), (sweep / "trials.jsonl").read_text().splitlines()
    search.best_file.unlink()
    search.update(status="interrupted")
    search.trials_file.write_text(lines[0] + "\n")
    zoo_here("report", sweep.name)
    text = (sweep / "report.md").read_text()
    assert "**Not finished**: interrupted." in text and "best recipe" not in text
    search.trials_file.unlink()
    done = zoo_here("report", sweep.name, status=2)
    assert f"zoo sweep --resume runs/{sweep.name} continues it" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence", "hint"),
    [
        (["tune", "mlp", "--space", "lrr=log:1:2"], "no setting 'lrr'", "did you mean lr?"),
        (["tune", "mlp", "--space", "model.dropuot=uniform:0:1"], "no option 'dropuot'", "dropout"),
        (["tune", "mlp", "--space", "lr=log:1:1"], "the range of lr is empty", ""),
        (["tune", "mlp", "--space", "lr=log:2:1"], "is inverted", "did you mean lr=log:1:2?"),
        (["tune", "mlp", "--space", "lr=log:0:1"], "must begin above 0", "lr=uniform:0:1"),
        (["tune", "mlp", "--resume", "latest"], "settings of the search", ""),
        (["tune", "--resume", "latest"], "there is no search in runs", "zoo tune MODEL"),
        (["tune"], "say which MODEL", ""),
        (["tune", "mlp", "--searcher", "grid"], "lr has a range", "choice"),
        (["sweep", "mlp", "--grid", "lr"], "not a part of a grid", "NAME=A,B,C"),
        (["sweep", "mlp"], "nothing to search", ""),
        (["sweep", "mlp", "--grid", "lr=0.1,-1"], "lr must be", ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_a_sentence_and_changes_nothing(zoo_here, tmp_path, arguments, sentence, hint):
    more = ["--dataset", "synthetic"] if "--resume" not in arguments and len(arguments) > 1 else []
    done = zoo_here(*arguments, *more, status=2)
    assert sentence in done.stderr and hint in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"space": {"model.dropout": "uniform:0:3"}}, "cannot be built with these options"),
        ({"subset": 0.001}, "images leaves no image for validation"),
        ({"device": "tpu"}, "tpu"),
        ({"space": {"task.beta": [1, 2]}, "searcher": "grid"}, "has no option 'beta'"),
        ({"augment": ("flop",)}, "flop"),
    ],
    ids=str,
)
def test_what_only_the_model_or_the_data_can_tell_is_said_before_any_training(
    tmp_path, monkeypatch, asked, sentence
):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    with pytest.raises(zoo.ZooError, match=sentence):
        zoo.tune("mlp", "synthetic", runs=tmp_path / "runs", quiet=True, **asked)
    assert not (tmp_path / "runs").exists()


def test_all_trials_failing_is_a_sentence(small):
    with pytest.raises(zoo.ZooError, match="all 2 trials failed; the first one: the loss was no"):
        zoo.tune("mlp", "synthetic", space={"lr": [1e30, 1e31]}, searcher="grid",
                 optimizer="sgd", **small)  # fmt: skip


def test_a_trial_that_ended_before_it_was_recorded_is_not_trained_again(small, monkeypatch):
    found = zoo.tune("mlp", "synthetic", trials=2, epochs=2, **small)
    monkeypatch.setattr(trials, "execute", None)
    file = found.search.trials_file
    file.write_text(file.read_text().splitlines(keepends=True)[0])
    again = run_search(SearchSettings(resume=str(found.path), quiet=True))
    assert [t.status for t in again.trials] == ["complete", "complete"]
    assert [t.losses for t in again.trials] == [t.losses for t in found.trials]
    assert len(file.read_text().splitlines()) == 2


def test_a_trial_is_sent_without_its_images(tmp_path):
    data = zoo.open_dataset("synthetic", train_size=20, test_size=10)
    sent, arrays = trials.without_arrays(data)
    assert len(pickle.dumps(sent)) < data.train.images.nbytes / 10
    whole = trials.with_arrays(pickle.loads(pickle.dumps(sent)), arrays)
    assert whole.digest == data.digest and whole.classes == data.classes
    for ours, theirs in ((data.train, whole.train), (data.test, whole.test)):
        assert np.array_equal(ours.images, theirs.images)
        assert np.array_equal(ours.labels, theirs.labels)


def task_of(search, number=1):
    """A trial as an engine gets it, and the arrays that it brings."""
    plan = search.plan()
    sent, arrays = trials.without_arrays(zoo.open_dataset("synthetic", **plan.recipe.data))
    suggestion = trials.Suggestion("recipe", {"lr": 1e-3})
    return trials.TrialJob(plan, number, suggestion, (), search.path, sent, 30.0), arrays


def test_on_a_machine_that_does_not_see_the_search_a_trial_works_in_a_folder_of_its_own(small):
    found = zoo.tune("mlp", "synthetic", trials=1, epochs=2, **small)
    task, arrays = task_of(found.search)
    elsewhere = dataclasses.replace(task, search=found.path / "not-there" / "search")
    lines = []
    trial = trials.run_trial(elsewhere, arrays, lines.append)
    assert trial.losses == found.trials[0].losses
    assert [line["epoch"] for line in lines] == [1, 2]
    assert not (found.path / "not-there").exists()


def test_with_a_storage_the_trials_are_there_wherever_the_search_is(small, tmp_path):
    with pytest.raises(zoo.ZooError, match="stored is not a folder on") as caught:
        zoo.tune("mlp", "synthetic", trials=1, epochs=2, storage=tmp_path / "stored", **small)
    assert "--storage FOLDER" in caught.value.hint
    (tmp_path / "stored").mkdir()
    found = zoo.tune("mlp", "synthetic", trials=1, epochs=2, storage=tmp_path / "stored", **small)
    assert (tmp_path / "stored" / found.path.name / "trials" / "001" / "run.json").exists()
    assert not (found.path / "trials").exists()


def test_a_trial_waits_for_a_worker_that_was_given_up_and_has_not_ended(small, monkeypatch):
    found = zoo.tune("mlp", "synthetic", trials=1, epochs=2, **small)
    task, arrays = task_of(found.search, 2)
    run, ended, waits, real = Run(found.path / "trials" / "002"), [], threading.Event(), lock_file
    monkeypatch.setattr(locks, "MOMENT", 0)
    told = lambda path, waiting: real(path, lambda: (waiting(), waits.set()))  # noqa: E731
    run.path.mkdir()
    work = threading.Thread(target=lambda: ended.append(trials.run_trial(task, arrays, print)))
    with run.locked():
        monkeypatch.setattr("zoo_core.runs.run.lock_file", told)
        work.start()
        assert waits.wait(60)
    work.join()
    assert [trial.status for trial in ended] == ["complete"]


def test_pruning_and_patience_are_told_apart_by_the_lines_alone(small):
    task, _ = task_of(zoo.tune("mlp", "synthetic", trials=1, epochs=1, prune=True, **small).search)
    lines = [{"epoch": n, "validation_loss": loss} for n, loss in enumerate((2.0, 2.1, 2.2), 1)]
    for patience, pruned in ((0, True), (2, False)):
        recipe = dataclasses.replace(
            task.plan.recipe, epochs=9, patience=patience, schedule="constant"
        )
        plan = dataclasses.replace(task.plan, recipe=recipe)
        one = dataclasses.replace(task, plan=plan, rivals=((1.0, 0.5),))
        assert one.record(lines, "").status == ("pruned" if pruned else "complete")


def test_a_sweep_needs_a_folder_that_its_workers_see(small):
    found = zoo.sweep("mlp", "synthetic", grid={"lr": [1e-3]}, epochs=1, **small)
    task, arrays = task_of(found.search)
    elsewhere = dataclasses.replace(task, search=found.path / "not-there" / "search")
    with pytest.raises(zoo.ZooError, match="is not on the disk of"):
        trials.run_trial(elsewhere, arrays, print)


def test_an_engine_that_nobody_has_and_resources_that_mean_nothing_are_refused(zoo_here):
    done = zoo_here("tune", "mlp", *SMALL, "--engine", "spark", status=2)
    assert "there is no engine 'spark'" in done.stderr
    assert (
        "zoo list --engines shows what there is; pip install zoo-spark may bring it" in done.stderr
    )
    done = zoo_here("tune", "mlp", *SMALL, "--resources", "tpus=1", status=2)
    assert "--resources has no option 'tpus'" in done.stderr
    done = zoo_here("tune", "mlp", *SMALL, "--resources", "many", status=2)
    assert "must have the form cpus=2,gpus=0.5" in done.stderr
    done = zoo_here("tune", "mlp", *SMALL, "--address", "10.0.0.1:1", status=2)
    assert "engine 'local' has no address" in done.stderr


def test_ctrl_c_ends_the_workers_of_a_search_too(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "zoo", "tune", *QUICK, "--epochs", "4000", "--workers", "2"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(ZOO_CACHE=str(tmp_path / "cache")),
    )
    deadline = time.monotonic() + 300  # so that a test that hangs fails
    while len(list(tmp_path.glob("runs/*/trials/*/metrics.jsonl"))) < 2:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)  # to the search alone, as a scheduler would
    _, stderr = process.communicate(timeout=300)  # ends when no worker holds the pipe any more
    search = only(tmp_path / "runs", "tune-*")
    assert process.returncode == 143, stderr
    assert stderr.splitlines()[-1] == f"Hint: zoo tune --resume runs/{search.name}"
    assert all(list(run.glob("checkpoints/*")) for run in search.glob("trials/*"))


def test_ctrl_c_says_how_to_go_on(tmp_path, zoo_here):
    process = subprocess.Popen(
        [sys.executable, "-m", "zoo", "tune", *QUICK, "--epochs", "4000"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(ZOO_CACHE=str(tmp_path / "cache")),
    )
    deadline = time.monotonic() + 300  # so that a test that hangs fails
    while not list(tmp_path.glob("runs/*/trials/001/metrics.jsonl")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    busy = zoo_here("tune", "--resume", "latest", status=2)
    assert "another process is working on" in busy.stderr
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=300)
    search = only(tmp_path / "runs", "tune-*")
    assert process.returncode == 130, stderr
    assert stderr.splitlines()[-2:] == [
        "Error: the search was stopped after 0 of 2 trials, and saved.",
        f"Hint: zoo tune --resume runs/{search.name}",
    ]
    assert json.loads((search / "search.json").read_text())["status"] == "interrupted"


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks its children")


SLOWLY = pytest.mark.slow
WITH_KILLS = [
    (1, 1, "fcn_numpy", 5),
    pytest.param(4, 1, "mlp", 7, marks=SLOWLY),
    pytest.param(4, 2, "mlp", 7, marks=SLOWLY),
]


@forks
@pytest.mark.parametrize(("count", "workers", "model", "trials"), WITH_KILLS)
def test_killed_and_resumed_it_finds_the_same(tmp_path, count, workers, model, trials):
    """The same suggestions, the same curves to the last digit, the same weights at the end."""
    cache = str(tmp_path / "cache")
    done = kills.drive(DRIVER, tmp_path, count, 1, workers, model, trials, ZOO_CACHE=cache)
    assert done["killed"] == done["whole"]


def test_seeds_are_repetitions_without_a_best(small):
    runs = small["runs"]
    how = {"epochs": 2, "data": {"train_size": 200, "test_size": 100}}
    found = zoo.train(
        "fcn_numpy", "synthetic", seeds=2, seed=5, settings=how, runs=runs, quiet=True
    )
    assert [trial.parameters for trial in found.trials] == [{"seed": 5}, {"seed": 6}]
    assert found.best is None and found.recipe is None and not found.search.best_file.exists()
    page = found.report.read_text()
    assert "2 seeds, mean test accuracy" in page and "best" not in page
    summary = summarize_any(found.search)
    accuracies = [trial.curve[-1]["test_accuracy"] for trial in found.trials]
    assert summary.accuracy == pytest.approx(sum(accuracies) / 2) and summary.best is None
    (group,) = zoo.compare(found.path).groups  # its runs, which differ by the seed alone
    assert len(group.rows) == 2 and [len(team.rows) for team in group.teams] == [2]


def test_a_sweep_without_validation_images_chooses_nothing_by_the_test_set(small):
    settings = {"epochs": 1, "data": {"train_size": 200, "test_size": 100}}
    how = {"grid": {"lr": [0.01, 0.1]}, "settings": settings, "runs": small["runs"], "quiet": True}
    found = zoo.sweep("fcn_numpy", "synthetic", **how)
    assert found.best is None and found.search.read()["best"] is None
    assert "validation_fraction=0.1 keeps some" in found.report.read_text()
    chosen = zoo.sweep("fcn_numpy", "synthetic", validation_fraction=0.3, **how)
    assert chosen.best.accuracy == max(trial.accuracy for trial in chosen.trials)
