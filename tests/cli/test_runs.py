"""zoo runs, as a person types it."""

import io
import json
import os
import subprocess
import sys
import time

import pytest
from report.made_runs import make_run, make_search
from support import environment

from zoo_core.io.errors import UsageError
from zoo_core.runs.run import Run, SearchFolder, find_any
from zoo_core.runs.summary import summarize_search


def test_runs_are_listed_newest_last(zoo_here, tmp_path):
    root = tmp_path / "runs"
    make_run(root, model="vit", time="20261116T101501Z", done=3, status="interrupted")
    make_run(root, model="cnn", time="20261116T101502Z")
    make_run(root, model="zzz", time="20261115T235959Z", classes=())
    lines = zoo_here("runs").stdout.splitlines()
    titles = ["RUN", "MODEL", "DATASET", "STATUS", "EPOCHS", "TIME", "LOSS", "ACCURACY", "INTERVAL"]
    assert lines[0].split() == titles  # the loss, because one of them has no accuracy
    assert [line.split()[1] for line in lines[1:]] == ["zzz", "vit", "cnn"]
    assert lines[1].split()[3:5] == ["complete", "12/12"] and lines[1].split()[-1] == "-"
    assert lines[2].split()[3:5] == ["interrupted", "3/12"]
    assert "  2 min 30 s  " in lines[3] and " % " in lines[3] and " to " in lines[3]


def test_text_is_a_pattern_or_a_word(json_here, tmp_path):
    root = tmp_path / "runs"
    make_run(root, model="cnn")
    make_run(root, model="mlp", dataset="mnist", done=1, status="interrupted")

    def found(*arguments):
        return [row["model"] for row in json_here("runs", *arguments)]

    assert found("cnn-*") == ["cnn"]
    assert found("MNIST") == found("interrupted") == ["mlp"]
    assert found("nothing") == []
    assert json_here("runs", "--runs", "elsewhere") == []


def test_an_empty_folder_and_a_word_that_is_not_there_are_explained(zoo_here, tmp_path):
    done = zoo_here("runs")
    assert (done.stdout, done.stderr) == (
        "",
        "There are no runs in runs. zoo train MODEL makes one.\n",
    )
    make_run(tmp_path / "runs", done=1, status="interrupted")
    assert "None of the 1 runs" in zoo_here("runs", "xyz").stderr


def test_damaged_failed_and_silent_runs_are_rows_that_say_so(zoo_here, json_here, tmp_path):
    root = tmp_path / "runs"
    (root / "not a run").mkdir(parents=True)
    make_run(root, model="bad").settings_file.write_text("{")
    make_run(root, model="nan", done=1, status="failed", error="the loss is NaN")
    silent = make_run(root, model="silent", done=1, status="running")
    long_ago = time.time() - 1000
    for path in silent.path.iterdir():
        os.utime(path, (long_ago, long_ago))
    done = zoo_here("runs")
    rows = {line.split("-")[0]: line for line in done.stdout.splitlines()[1:4]}
    assert "damaged" in rows["bad"]
    assert "failed" in rows["nan"]
    assert "running?" in rows["silent"]
    assert "nan-made_up-20261116T101500Z is failed: the loss is NaN." in done.stdout
    assert "run.json cannot be read" in done.stdout
    assert "nothing was written for 10 minutes" in done.stderr
    assert {row["status"] for row in json_here("runs")} == {"damaged", "failed", "running"}


def test_runs_are_removed_when_asked(zoo_command, zoo_here, tmp_path):
    root = tmp_path / "runs"
    run = make_run(root)
    other = make_run(root, model="bad")
    other.settings_file.write_text("{")
    done = zoo_command("runs", "remove", run.name, status=2)
    assert done.stderr.splitlines()[-2:] == [
        "Error: there is nobody to ask; nothing was deleted.", "Hint: add --yes",
    ]  # fmt: skip
    assert run.path.exists()
    done = zoo_here("runs", "remove", run.name, other.name, "--yes")
    deleted = [line.partition(", ")[0] for line in done.stdout.splitlines()]
    assert deleted == [f"Deleted runs/{name}" for name in (run.name, other.name)]
    assert list(root.iterdir()) == []
    running = make_run(root, model="going", done=1, status="running")
    with running.locked():
        done = zoo_here("runs", "remove", "latest", "--yes", status=2)
    assert f"another process is working on runs/{running.name}" in done.stderr
    assert running.path.exists()
    zoo_here("runs", "remove", "latest", "--yes")  # killed: it says running, and nobody works on it
    assert not running.path.exists()


def test_searches_are_listed_with_trials_status_and_best(zoo_here, tmp_path):
    root = tmp_path / "runs"
    make_run(root, time="20261116T101601Z")
    make_search(root, time="20261116T101600Z")
    make_search(root, kind="sweep", time="20261116T101602Z", ended=1, status="interrupted", best=9)
    make_search(root, time="20261116T101603Z").settings_file.write_text("{")
    shown = zoo_here("runs").stdout
    runs, searches, *_ = shown.split("\n\n")
    assert len(runs.splitlines()) == 2
    titles = "SEARCH MODEL DATASET STATUS TRIALS TIME LOSS ACCURACY BEST"
    assert searches.splitlines()[0].split() == titles.split()
    lines = [line.split() for line in searches.splitlines()[1:]]
    assert lines[0][:5] == [
        "tune-mlp-made_up-20261116T101600Z",
        "mlp",
        "made_up",
        "complete",
        "3/3",
    ]
    assert lines[0][-1] == "lr=0.001"
    assert lines[1][3:5] == ["interrupted", "1/3"] and lines[1][-1] == "-"
    assert lines[2][1:4] == ["-", "-", "damaged"]
    rows = json.loads(zoo_here("runs", "--json").stdout)
    assert [row["kind"] for row in rows] == ["search", "run", "sweep", "search"]
    assert (rows[0]["best"], rows[0]["trials"]) == ({"lr": 0.001}, 3)
    found = json.loads(zoo_here("runs", "sweep", "--json").stdout)
    assert [row["run"] for row in found] == ["sweep-mlp-made_up-20261116T101602Z"]


def test_a_search_that_is_not_complete_shows_its_best_so_far(tmp_path):
    search = make_search(tmp_path, ended=2, status="interrupted", best=None)
    assert summarize_search(search).best == {"lr": 0.001}  # of the smaller loss


def test_latest_is_the_newest_of_what_a_command_is_about(tmp_path):
    search = make_search(tmp_path, time="20261116T101602Z")
    run = make_run(tmp_path, time="20261116T101601Z")
    sweep = make_search(tmp_path, kind="sweep", time="20261116T101600Z")
    assert Run.find("latest", tmp_path) == run  # train --resume, evaluate, compare
    assert find_any("latest", tmp_path) == search  # report, runs remove
    assert SearchFolder.find("latest", tmp_path, "tune") == search
    assert SearchFolder.find("latest", tmp_path, "sweep") == sweep
    with pytest.raises(UsageError, match="is a search, not a run") as raised:
        Run.find(search.name, tmp_path)
    assert raised.value.hint == f"zoo report {search.path} shows it"
    with pytest.raises(UsageError, match="is a run, not a search"):
        SearchFolder.find(run.name, tmp_path, "tune")


def test_a_search_is_removed_with_its_size_and_no_other_is_suggested(
    zoo_here, tmp_path, monkeypatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    root = tmp_path / "runs"
    run, search = make_run(root), make_search(root)
    asked = zoo_here("runs", "remove", search.name, status=2)  # nobody can answer
    assert f"Delete runs/{search.name} (" in asked.stderr and "kB)?" in asked.stderr
    done = zoo_here("runs", "remove", search.name, "--yes", "--json")
    (row,) = json.loads(done.stdout)
    assert row["path"] == f"runs/{search.name}" and row["bytes"] > 1000
    assert run.path.exists() and not search.path.exists()
    refused = zoo_here("runs", "remove", search.name, "--yes", status=2)
    assert f"there is no run or search '{search.name}'" in refused.stderr
    with make_search(root, status="running").locked():
        refused = zoo_here("runs", "remove", "latest", "--yes", status=2)
    assert "another process is working on" in refused.stderr
    assert "Usage: zoo runs remove [OPTIONS] RUN..." in zoo_here("runs", "remove", "-h").stdout


def test_a_trial_is_a_run_whose_name_says_its_search_and_finds_it(tmp_path, monkeypatch):
    search = make_search(tmp_path / "my runs")
    made = make_run(search.path / "trials")
    trial = Run(made.path.rename(search.path / "trials" / "001"))
    assert trial.name == f"{search.name}/trials/001"
    assert Run.find(trial.name, tmp_path / "my runs") == trial
    monkeypatch.chdir(tmp_path)
    place = f"my runs/{trial.name}"
    assert Run.find(place).again == f"zoo train --config '{place}/run.json' --runs 'my runs'"
    monkeypatch.chdir(trial.path)
    assert Run.find(".").name == trial.name


def test_runs_imports_nothing_heavy(tmp_path):
    make_run(tmp_path / "runs")
    make_run(tmp_path / "runs", model="going", done=1, status="running")
    code = (
        "import sys, json\n"
        "from zoo_core.cli.main import main\n"
        "try: main(['runs', '--json'])\n"
        "except SystemExit: pass\n"
        "heavy = ('numpy', 'matplotlib', 'torch', 'safetensors', 'PIL', 'pluggy')\n"
        "print(json.dumps([m for m in heavy if m in sys.modules]), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, cwd=tmp_path, env=environment(), check=True,
    )  # fmt: skip
    assert json.loads(done.stderr.splitlines()[-1]) == []
    assert len(json.loads(done.stdout)) == 2


def test_the_latest_run_with_weights_is_named_where_a_newer_one_has_none(tmp_path, said):
    older = make_run(tmp_path, model="cnn", time="20261116T101501Z")
    newer = make_run(tmp_path, model="cnn", time="20261116T101502Z", done=3, status="interrupted")
    older.model_file.write_bytes(b"weights")
    newer.model_file.unlink(missing_ok=True)
    assert Run.find("latest", tmp_path) == newer and said() == []
    assert Run.find_trained("latest", tmp_path) == older
    assert said() == [f"Taking {older.name}: {newer.name} is newer and has no weights yet"]
