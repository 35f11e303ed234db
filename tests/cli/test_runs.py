"""zoo runs, as a person types it."""

import json
import os
import subprocess
import sys
import time

from report.made_runs import make_run
from support import environment

from zoo_core.runs.run import Run


def test_runs_are_listed_newest_last(zoo_command, tmp_path):
    root = tmp_path / "runs"
    make_run(root, model="vit", time="20261116T101501Z", done=3, status="interrupted")
    make_run(root, model="cnn", time="20261116T101502Z")
    make_run(root, model="zzz", time="20261115T235959Z", classes=())
    lines = zoo_command("runs").stdout.splitlines()
    titles = ["RUN", "MODEL", "DATASET", "STATUS", "EPOCHS", "LOSS", "ACCURACY", "TIME"]
    assert lines[0].split() == titles  # the loss, because one of them has no accuracy
    assert [line.split()[1] for line in lines[1:]] == ["zzz", "vit", "cnn"]
    assert lines[1].split()[3:5] == ["complete", "12/12"] and lines[1].split()[6] == "-"
    assert lines[2].split()[3:5] == ["interrupted", "3/12"]
    assert lines[3].endswith("%  2 min 30 s")


def test_text_is_a_pattern_or_a_word(zoo_json, tmp_path):
    root = tmp_path / "runs"
    make_run(root, model="cnn")
    make_run(root, model="mlp", dataset="mnist", done=1, status="interrupted")

    def found(*arguments):
        return [row["model"] for row in zoo_json("runs", *arguments)]

    assert found("cnn-*") == ["cnn"]
    assert found("MNIST") == found("interrupted") == ["mlp"]
    assert found("nothing") == []
    assert zoo_json("runs", "--runs", "elsewhere") == []


def test_an_empty_folder_and_a_word_that_is_not_there_are_explained(zoo_command, tmp_path):
    done = zoo_command("runs")
    assert (done.stdout, done.stderr) == (
        "",
        "There are no runs in runs. zoo train MODEL makes one.\n",
    )
    make_run(tmp_path / "runs", done=1, status="interrupted")
    assert "None of the 1 runs" in zoo_command("runs", "xyz").stderr


def test_damaged_failed_and_silent_runs_are_rows_that_say_so(zoo_command, zoo_json, tmp_path):
    root = tmp_path / "runs"
    (root / "not a run").mkdir(parents=True)
    make_run(root, model="bad").settings_file.write_text("{")
    make_run(root, model="nan", done=1, status="failed", error="the loss is NaN")
    silent = make_run(root, model="silent", done=1, status="running")
    long_ago = time.time() - 1000
    for path in silent.path.iterdir():
        os.utime(path, (long_ago, long_ago))
    done = zoo_command("runs")
    rows = {line.split("-")[0]: line for line in done.stdout.splitlines()[1:4]}
    assert "damaged" in rows["bad"]
    assert "failed" in rows["nan"]
    assert "running?" in rows["silent"]
    assert "nan-made_up-20261116T101500Z is failed: the loss is NaN." in done.stdout
    assert "run.json cannot be read" in done.stdout
    assert "nothing was written for 10 minutes" in done.stderr
    assert {row["status"] for row in zoo_json("runs")} == {"damaged", "failed", "running"}


def test_runs_are_removed_when_asked(zoo_command, tmp_path):
    root = tmp_path / "runs"
    run = make_run(root)
    other = make_run(root, model="bad")
    other.settings_file.write_text("{")
    zoo_command("runs", "remove", run.name, status=130)  # nobody answered
    assert run.path.exists()
    done = zoo_command("runs", "remove", run.name, other.name, "--yes")
    assert done.stdout.splitlines() == [f"Deleted runs/{name}." for name in (run.name, other.name)]
    assert list(root.iterdir()) == []
    running = make_run(root, model="going", done=1, status="running")
    done = zoo_command("runs", "remove", "latest", "--yes", status=2)
    assert "is still running" in done.stderr
    assert running.path.exists()


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
