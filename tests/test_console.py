"""What the library says: through the logger `zoo`, and on standard error for a command line."""

import subprocess
import sys
import threading

import pytest
from hub.parts import small_run
from support import environment

from zoo_core.io import console


@pytest.fixture
def python(tmp_path):
    """Load a run with another number of classes in a Python of its own; what it printed."""
    run = small_run(tmp_path / "runs", "fcn_numpy")

    def load(before=""):
        code = f"import logging, zoo\n{before}\nzoo.load({str(run.path)!r}, num_classes=3)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment(),
            check=True,
        )  # fmt: skip
        return done.stdout + done.stderr

    return load


def test_the_library_configures_nothing_and_can_be_heard_or_silenced(python):
    assert python() == ""
    heard = python("logging.basicConfig(level='INFO')")
    assert heard.startswith("INFO:zoo:") and "tensors; new: " in heard
    silent = "logging.basicConfig(level='INFO'); logging.getLogger('zoo').setLevel('ERROR')"
    assert python(silent) == ""


@pytest.mark.parametrize(
    ("before", "printed"),
    [("", "it is damaged\n"), ("logging.getLogger('zoo').setLevel('ERROR')", "")],
)
def test_a_warning_is_heard_unless_it_is_silenced(before, printed):
    code = f"import logging\nfrom zoo_core.io.console import warn\n{before}\nwarn('it is damaged')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", printed)


def test_the_command_line_shows_every_sentence(capsys):
    console.show_on_stderr()
    console.say("Waiting for another pull")
    console.warn("100 % of it is damaged")
    printed = capsys.readouterr()
    assert printed.err == "Waiting for another pull\nWarning: 100 % of it is damaged\n"
    assert printed.out == ""
    console.show_on_stderr(quiet=True)
    console.warn("100 % of it is damaged")
    assert capsys.readouterr().err == ""
    console.show_on_stderr()
    console.say("Waiting again")
    assert capsys.readouterr().err == "Waiting again\n"


def test_where_there_is_no_terminal_progress_is_a_line_now_and_then(said, monkeypatch):
    monkeypatch.setattr(console, "EVERY", 0.0)
    with console.progress("decoding", 1200) as advance:
        advance(1000)
        advance(100)
    assert said() == ["decoding: 1,000 of 1,200", "decoding: 1,100 of 1,200"]
    asked = threading.Event()

    def measure():
        asked.set()
        return 2_500_000

    with console.progress("x.bin", 0, measure=measure):
        asked.wait(60)
    assert set(said()) == {"x.bin: 2.5 MB"}
    monkeypatch.setattr(console, "EVERY", 1000.0)
    with console.progress("decoding", 10) as advance:
        advance(10)
    assert said() == []


def test_a_command_says_which_run_it_takes(zoo_command, tmp_path):
    run = small_run(tmp_path / "runs", "fcn_numpy")
    newer = tmp_path / "runs" / f"{run.name.rsplit('-', 1)[0]}-20991231T000000Z"
    newer.mkdir()
    (newer / "run.json").write_bytes((run.path / "run.json").read_bytes())
    done = zoo_command("verify", "latest")
    assert done.stderr == f"Taking {run.name}: {newer.name} is newer and has no weights yet\n"
