"""zoo report, as a person types it."""

import json
import subprocess
import sys

from report.made_runs import make_run
from support import environment


def test_report_rebuilds_the_report_and_says_where_it_is(zoo_here, json_here, tmp_path):
    run = make_run(tmp_path / "runs", done=2, status="interrupted")
    assert zoo_here("report", "latest").stdout.strip() == f"runs/{run.name}/report.md"
    paths = json_here("report", str(run.path))
    assert paths["report"] == str(run.path / "report.md")
    assert [path.rsplit("/", 1)[-1] for path in paths["plots"]] == ["curves.png", "rate.png"]


def test_report_of_a_run_that_is_not_there_is_a_mistake(zoo_here, tmp_path):
    run = make_run(tmp_path / "other", done=1, status="interrupted")
    done = zoo_here("report", run.name[:-2], "--runs", "other", status=2)
    assert f"Hint: did you mean {run.name}?" in done.stderr
    (run.path / "run.json").write_text("{")
    assert "cannot be read" in zoo_here("report", str(run.path), status=1).stderr


def test_a_report_leaves_matplotlib_as_it_was_and_needs_no_torch(tmp_path):
    run = make_run(tmp_path, done=2, status="interrupted")
    code = (
        "import sys, json, matplotlib\n"
        "before = matplotlib.rcParams.copy()\n"
        "from zoo_core.cli.main import main\n"
        f"try: main(['report', {str(run.path)!r}])\n"
        "except SystemExit: pass\n"
        "heavy = [m for m in ('matplotlib.pyplot', 'torch') if m in sys.modules]\n"
        "print(json.dumps([heavy, before == matplotlib.rcParams.copy()]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [[], True]
