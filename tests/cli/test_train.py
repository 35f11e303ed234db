"""`zoo train`, `evaluate` and `predict` as a person uses them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from support import environment

SMALL = [
    "--dataset", "synthetic", "--set", "data.train_size=300", "--set", "data.test_size=60",
    "--set", "model.hidden=16", "--set", "batch_size=50",
]  # fmt: skip


def start(tmp_path, *arguments, **env):
    return subprocess.Popen(
        [sys.executable, "-m", "zoo", "train", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(ZOO_CACHE=str(tmp_path / "cache"), **env),
    )


def only_run(tmp_path):
    (run,) = (tmp_path / "runs").iterdir()
    return run


def wait_for_epochs(tmp_path, process, count=2):
    deadline = time.monotonic() + 300  # so that a test that hangs fails
    while time.monotonic() < deadline:
        files = list((tmp_path / "runs").glob("*/metrics.jsonl"))
        if files and len(files[0].read_text().splitlines()) >= count:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("no epoch ended")


def test_train_evaluate_predict_and_train_the_same_again(zoo_here, json_here, tmp_path):
    done = zoo_here("train", "mlp", *SMALL, "--epochs", "2", "--seed", "5")
    run = only_run(tmp_path)
    lines = done.stdout.splitlines()
    assert lines[-1] == f"runs/{run.name}"
    assert done.stderr.splitlines()[0] == f"runs/{run.name}"
    assert "epoch 1/2  train loss " in done.stderr
    assert run.name.startswith("mlp-synthetic-20")

    document = json.loads((run / "run.json").read_text())
    assert document["status"] == "complete"
    assert document["recipe"]["seed"] == 5
    assert document["model"]["config"]["hidden"] == [16]
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 2
    assert not (run / "checkpoints").exists()
    assert (run / "report.md").exists()

    figures = json_here("evaluate", "latest")
    assert figures["accuracy"] == document["result"]["test"]["accuracy"]
    assert figures["images"] == 60
    assert "accuracy" in zoo_here("evaluate", run.name, "--split", "train").stdout

    picture = tmp_path / "picture.png"
    Image.fromarray(np.full((40, 50, 3), 200, np.uint8)).save(picture)
    (prediction,) = json_here("predict", "latest", str(picture), "--top", "2")
    assert len(prediction["classes"]) == 2
    assert "picture.png" in zoo_here("predict", str(run), str(tmp_path / "picture.png")).stdout

    settings = "--config", str(run / "run.json"), "--quiet", "--no-report", "--json"
    again = json.loads(zoo_here("train", *settings).stdout)
    assert again["result"]["model"]["sha256"] == document["result"]["model"]["sha256"]


@pytest.mark.parametrize(
    ("model", "number", "status"),
    [
        ("fcn_numpy", signal.SIGINT, 130),
        ("fcn_numpy", signal.SIGTERM, 143),
        pytest.param("mlp", signal.SIGINT, 130, marks=pytest.mark.slow),
    ],
)
def test_the_first_signal_saves_and_says_how_to_resume(tmp_path, model, number, status):
    process = start(tmp_path, model, *SMALL, "--epochs", "4000", "--no-report")
    wait_for_epochs(tmp_path, process)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=300)
    run = only_run(tmp_path)
    assert process.returncode == status, stderr
    assert "and saved.\n" in stderr
    assert stderr.splitlines()[-1] == f"Hint: zoo train --resume runs/{run.name}"
    document = json.loads((run / "run.json").read_text())
    assert document["status"] == "interrupted"
    assert document["command"].startswith(f"zoo train {model} --dataset synthetic")
    assert len(list((run / "checkpoints").glob("*.json"))) == 1


@pytest.mark.slow
def test_two_signals_at_once_do_not_wait_and_leave_a_good_checkpoint(tmp_path, zoo_here):
    process = start(tmp_path, "mlp", *SMALL, "--epochs", "4000", "--no-report")
    wait_for_epochs(tmp_path, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    run = only_run(tmp_path)
    process = start(tmp_path, "--resume", "latest", "--no-report")
    epochs = len((run / "metrics.jsonl").read_text().splitlines())
    wait_for_epochs(tmp_path, process, epochs + 2)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130
    assert list((run / "checkpoints").glob("*.json"))
    again = zoo_here("runs", "--json")
    assert json.loads(again.stdout)[0]["status"] == "interrupted"


def test_a_complete_run_is_not_resumed_and_a_busy_one_is_left_alone(tmp_path, zoo_here):
    process = start(tmp_path, "fcn_numpy", *SMALL, "--epochs", "4000", "--no-report")
    wait_for_epochs(tmp_path, process)
    done = zoo_here("train", "--resume", "latest", status=2)
    assert "another process is working on" in done.stderr
    process.kill()
    process.communicate()
    # A killed process holds no lock.
    (only_run(tmp_path) / "run.json").write_text(
        (only_run(tmp_path) / "run.json").read_text().replace('"epochs": 4000', '"epochs": 3')
    )
    zoo_here("train", "--resume", "latest", "--no-report")
    done = zoo_here("train", "--resume", "latest")
    run = f"runs/{only_run(tmp_path).name}"
    assert done.stderr.splitlines() == [
        f"{run} is complete; there is nothing to resume.",
        f"zoo train fcn_numpy --init {run} --dataset synthetic --set data.train_size=300 "
        "--set data.test_size=60 trains it further; zoo runs lists other runs.",
    ]
    assert done.stdout.splitlines()[-1] == run
    # As after a kill while the report was written.
    assert f"Report: {run}/report.md" in done.stdout.splitlines()
    assert (only_run(tmp_path) / "report.md").exists()


def test_hooks_hear_of_the_run_and_a_logger_that_raises_is_dropped(
    zoo_command, plugin_site, tmp_path
):
    env = {
        "PYTHONPATH": str(plugin_site),
        "ZOO_PLUGINS": "numpy,logger,raising-logger",
    }
    done = zoo_command("train", "fcn_numpy", *SMALL, "--epochs", "2", "--no-report", **env)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("epoch 1/2")]
    heard = [line.split()[0] for line in lines if line.split()[0] in ("started", "epoch", "ended")]
    assert heard.count("started") == heard.count("ended") == 1
    assert sum(line.startswith("epoch ") and "train_loss" in line for line in lines) == 2
    warnings = [line for line in lines if line.startswith("Warning: ")]
    assert warnings == [
        "Warning: plugin 'raising-logger' raised ValueError: no disk in zoo_epoch_ended; "
        "it is not called again in this run"
    ]
    done = zoo_command(
        "train", "fcn_numpy", *SMALL, "--lr", "1e30", "--set", "optimizer=sgd", status=1, **env
    )
    assert "\nfailed the loss was not a finite number" in done.stderr
    assert "Error: the loss was not a finite number in epoch 1" in done.stderr


@pytest.fixture
def pictures(tmp_path):
    random = np.random.default_rng(0)
    for name, colour in (("red", 0), ("green", 1), ("blue", 2)):
        folder = tmp_path / "my_pictures" / name
        folder.mkdir(parents=True)
        for number in range(20):
            picture = random.integers(0, 100, (24, 30, 3), dtype=np.uint8)
            picture[..., colour] += 150
            Image.fromarray(picture).save(folder / f"{number}.png")
    return tmp_path / "my_pictures"


@pytest.mark.slow
def test_a_folder_of_pictures_is_enough(zoo_command, zoo_json, pictures, tmp_path):
    zoo_command("train", "cnn", "--dataset", "./my_pictures", "--epochs", "12", "--no-report")
    run = only_run(tmp_path)
    document = json.loads((run / "run.json").read_text())
    config = document["model"]["config"]
    assert (config["num_classes"], config["in_channels"], config["image_size"]) == (3, 3, 24)
    assert document["dataset"]["classes"] == ["blue", "green", "red"]
    assert document["result"]["test"]["accuracy"] > 0.9
    found = zoo_json("predict", "latest", "my_pictures/red", "--top", "1")
    assert len(found) == 20
    assert sum(p["classes"][0]["name"] == "red" for p in found) > 15

    # A new head on the old body: two classes instead of three.
    for path in (pictures / "blue").iterdir():
        path.unlink()
    (pictures / "blue").rmdir()
    done = zoo_command(
        "train", "cnn", "--dataset", "./my_pictures", "--init", run.name, "--epochs", "1",
        "--no-report",
    )  # fmt: skip
    assert f"Starting from runs/{run.name}: " in done.stderr
    assert "new: head.4.weight, head.4.bias." in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Error: say which MODEL to train"),
        (["cnnn"], "Error: there is no model 'cnnn'.\nHint: did you mean cnn?"),
        (["cnn", "--recipe", "best"], "Error: model 'cnn' has no recipe 'best'.\nHint: it has: "),
        (["cnn", "--set", "lr=x"], "Error: lr must be a number, not 'x'."),
        (["cnn", "--epochs", "0"], "Error: epochs must be a whole number, 1 to 1000000000, not 0."),
        (["cnn", "--set", "patience=3"], "Error: patience and restore_best need a validation"),
        (["cnn", "--dataset", "cifar"], "Error: there is no dataset 'cifar'.\nHint: did you mean "),
        (
            ["cnn", "--resume", "latest", "--recipe", "paper", "--compile", "--tune"],
            "Error: --resume keeps the settings of the run; "
            "leave out MODEL, --recipe, --tune, --compile.",
        ),
        (["--resume", "latest"], "Error: there is no run in runs."),
        (["--resume", "nothing"], "Error: there is no run 'nothing' in runs."),
        (["cnn", "--config", "no.toml"], "Error: no.toml cannot be read: No such file"),
        (["cnn", "--dataset", "synthetic", "--device", "tpu"], "Error: there is no device 'tpu'"),
        (
            ["cnn", "--dataset", "synthetic", "--set", "augment=flop"],
            "Error: there is no augmentation",
        ),
        (
            ["cnn", "--dataset", "synthetic", "--init", "nothing"],
            "Error: there is no model and no run ",
        ),
        (
            ["cnn", "--dataset", "synthetic", "--set", "model.image_size=4"],
            "Error: model 'cnn' cannot be built with these options: 3 blocks",
        ),
    ],
)
def test_mistakes_get_a_sentence_and_leave_no_run(zoo_here, tmp_path, arguments, sentence):
    done = zoo_here("train", *arguments, status=2)
    assert done.stderr.startswith(sentence), done.stderr
    assert not (tmp_path / "runs").exists()


def test_figures_of_training_images_are_never_taken_for_those_of_a_test(
    zoo_here, pictures, tmp_path
):
    how = "--epochs", "1", "--no-report", "--set", "data.test_fraction=0"
    done = zoo_here("train", "fcn_numpy", "--dataset", "./my_pictures", *how)
    assert ": train loss " in done.stdout and ", train accuracy " in done.stdout
    run = only_run(tmp_path)
    # Of the finished weights, as evaluating again finds, not of those on the way.
    kept = json.loads((run / "run.json").read_text())["result"]["train"]
    again = json.loads(zoo_here("evaluate", run.name, "--split", "train", "--json").stdout)
    assert (kept["accuracy"], kept["loss"]) == (again["accuracy"], pytest.approx(again["loss"]))
    assert "% (train)  " in zoo_here("runs").stdout.splitlines()[1]
    done = zoo_here("evaluate", run.name, status=2)
    assert done.stderr.splitlines()[-2:] == [
        "Error: my_pictures has no labelled test split.",
        "Hint: --split train measures the images that it was trained on",
    ]
    shutil.rmtree(tmp_path / "cache")
    done = zoo_here("evaluate", run.name, "--split", "train")
    assert "train accuracy" in done.stdout and "CLASS  TRAIN ACCURACY" in done.stdout
    assert ": decoding " in done.stderr  # what takes long is said


@pytest.mark.parametrize("command", ["train", "tune"])
def test_two_values_for_one_setting_are_refused(zoo_here, command, tmp_path):
    words = (command, "mlp", "--dataset", "synthetic", "--epochs", "1")
    done = zoo_here(*words, "--set", "epochs=0", status=2)
    assert "--epochs 1 and --set epochs=0 contradict each other" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_mistakes_of_evaluate_and_predict(zoo_here, tmp_path):
    done = zoo_here("train", "cnn", "--dataset", "./nowhere", status=1)
    assert "Error: there is no folder" in done.stderr
    (tmp_path / "empty").mkdir()
    Image.new("L", (8, 8)).save(tmp_path / "x.png")
    assert "there is no run in runs" in zoo_here("evaluate", "latest", status=2).stderr
    assert "is not a run" in zoo_here("predict", "empty", "x.png", status=2).stderr


NUMPY = ["fcn_numpy", *SMALL, "--epochs", "1", "--quiet"]


def test_quiet_prints_the_result_alone(zoo_here, tmp_path):
    grid = ["--grid", "lr=0.1,0.01"]
    for arguments in (["train", *NUMPY, "--no-report"], ["tune", *NUMPY, "--trials", "1"],
                      ["sweep", *NUMPY, *grid], ["train", *NUMPY, "--tune", "--no-report"],
                      ["train", "--resume", "latest", "--quiet"]):  # fmt: skip
        done = zoo_here(*arguments)
        assert done.stderr == ""
        (line,) = done.stdout.splitlines()
        assert (tmp_path / line).is_dir()


def test_what_is_set_holds_for_the_training_after_a_search(zoo_here, tmp_path):
    """And --no-report for both."""
    settings = ["--set", "subset=0.5", "--set", "validation_fraction=0.3", "--set", "patience=3"]
    zoo_here("train", *NUMPY, *settings, "--set", "schedule=constant", "--tune", "--no-report",
             "--epochs", "4")  # fmt: skip
    (run,) = (tmp_path / "runs").glob("fcn_numpy-*")
    recipe = json.loads((run / "run.json").read_text())["recipe"]
    kept = {name: recipe[name] for name in ("subset", "validation_fraction", "patience", "epochs")}
    assert kept == {"subset": 0.5, "validation_fraction": 0.3, "patience": 3, "epochs": 4}
    assert not list((tmp_path / "runs").glob("*/report.md"))


def torchrun(tmp_path, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone",
         "-m", "zoo", "train", *arguments],
        capture_output=True, text=True, cwd=tmp_path, timeout=300,
        env=environment(ZOO_CACHE=str(tmp_path / "cache"), OMP_NUM_THREADS="1"),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="gloo on this platform is not tested")
def test_pairs_of_processes_end_well(tmp_path):
    """PAIRS=200 pytest -m slow -k pairs: one of 60 aborted while nobody closed their group."""
    settings = ["mlp", *SMALL, "--epochs", "1", "--no-report", "--device", "cpu", "--quiet"]
    for number in range(int(os.environ.get("PAIRS", "6"))):
        done = torchrun(tmp_path, *settings)
        assert done.returncode == 0, f"pair {number + 1}: {done.stderr}"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="gloo on this platform is not tested")
def test_two_processes_do_what_one_does(zoo_json, tmp_path):
    """The same global batches: the same weights, to rounding; evaluation counts nobody twice."""
    settings = [*SMALL, "--epochs", "2", "--no-report", "--device", "cpu", "--quiet"]
    settings += ["--set", "data.train_size=301", "--set", "data.test_size=61"]
    one = zoo_json("train", "mlp", *settings)
    done = torchrun(tmp_path, "mlp", *settings, "--json")
    assert done.returncode == 0, done.stderr
    two = json.loads(done.stdout)
    runs = sorted((tmp_path / "runs").iterdir())
    assert len(runs) == 2, "only the first process makes a run"

    from safetensors.numpy import load_file

    first, second = (load_file(tmp_path / r["run"] / "model.safetensors") for r in (one, two))
    for name, array in first.items():
        assert np.allclose(array, second[name], atol=1e-5), name
    lines = [
        [json.loads(line) for line in (tmp_path / r["run"] / "metrics.jsonl").open()]
        for r in (one, two)
    ]
    for alone, together in zip(*lines, strict=True):
        for name in ("train_loss", "train_accuracy", "test_loss", "test_accuracy"):
            assert alone[name] == pytest.approx(together[name], abs=1e-5), name
