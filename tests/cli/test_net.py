"""The net under the command line: whatever is typed or fails, one sentence and no traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from zoo_core.cli import main as command_line
from zoo_core.cli import output
from zoo_core.io.console import LONGEST, plain
from zoo_core.io.errors import EntryError, UsageError
from zoo_core.io.process import process
from zoo_core.spec.entries import DatasetEntry
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.settings import read_request

LONG = "x" * 5000
HOSTILE = "\x1b]0;title\x07 \x9b2J \r \u202e\u2066 cat"
SHOWN = r"\x1b]0;title\x07 \x9b2J \r \u202e\u2066 cat"


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        command_line.main(arguments)
    return ended.value.code, *capsys.readouterr()


def zoo(*arguments, **how):
    command = [sys.executable, "-m", "zoo", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, **how)


# ---------------------------------------------------------------- strangers' text


def test_nothing_in_a_strangers_text_reaches_the_terminal_as_a_command(capsys):
    assert plain(HOSTILE) == SHOWN
    output.note(HOSTILE)
    output.print_fields({"class": HOSTILE})
    output.print_table(["name", "what"], [[HOSTILE, "a\nb\tc"]])
    said = "".join(capsys.readouterr())
    assert said.count(SHOWN) == 3 and r"a\nb\tc" in said
    assert not set("\x07\x9b\r\u202e\u2066") & set(said)


def test_names_of_files_that_are_not_utf8_can_be_shown():
    """Python reads them as halves of letters, which no stream takes."""
    assert plain(os.fsdecode(b"a\xff.png")).encode() == rb"a\udcff.png"


def test_lines_stay_and_long_ones_are_cut():
    assert plain("one\ntwo\tthree") == "one\ntwo\tthree"
    assert plain(f"a\n{LONG}\nb") == f"a\n{LONG[:LONGEST]} ...\nb"


def test_our_own_styles_stay(monkeypatch):
    printed = []
    monkeypatch.setattr(click, "echo", lambda text, **how: printed.append(text))
    output.echo(click.style("NAME", bold=True) + "\x1b[8mhidden")
    assert printed == ["\x1b[1mNAME\x1b[0m\\x1b[8mhidden"]


@pytest.mark.parametrize("summary", [HOSTILE, LONG, "two\nlines"])
def test_an_entry_with_an_unprintable_or_endless_summary_is_refused(summary):
    with pytest.raises(EntryError, match="summary"):
        DatasetEntry(name="mine", target="a.b:c", summary=summary)


# ---------------------------------------------------------------- what people type


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", LONG], ["report", LONG], ["verify", LONG], ["generate", LONG],
        ["evaluate", LONG], ["pull", LONG], ["info", LONG], ["plugin", "new", LONG],
        ["train", "mlp", "--dataset", LONG], ["train", "--resume", LONG], ["publish", LONG],
    ],
)  # fmt: skip
def test_a_name_without_end_is_one_sentence(capsys, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, said = run(capsys, *arguments)
    assert code in (1, 2)
    assert said.startswith("Error: ") and "Traceback" not in said and "raised" not in said
    assert len(said) < 3 * LONGEST


def test_numbers_that_nothing_can_hold_are_refused():
    for settings in ({"seed": 2**63}, {"seed": 10**30}, {"epochs": 10**20}, {"batch_size": 10**12}):
        with pytest.raises(EntryError, match="must be a whole number"):
            Recipe(**settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["--epochs", "1", "--set", "epochs=nan"], "contradict each other"),
        (["--epochs", "9" * 400], "epochs must be a whole number"),
        (["--set", "epochs=inf"], "epochs must be a whole number"),
        (["--set", "preprocess.size=100000"], "preprocess: size must be"),
    ],
)
def test_a_setting_that_nothing_can_hold_is_refused_before_it_is_used(capsys, settings, words):
    code, _, said = run(capsys, "train", "mlp", "--dataset", "synthetic", *settings)
    assert code == 2 and said.startswith("Error: ") and words in said, said


def test_an_option_that_is_nan_contradicts_nobody_and_is_refused(capsys):
    code, _, said = run(capsys, "tune", "mlp", "--dataset", "synthetic", "--subset", "nan")
    assert code == 2 and said.startswith("Error: subset must be a number above 0"), said


@pytest.mark.parametrize(("rank", "size"), [("x", "2"), ("-1", "2"), ("2", "2"), ("0", "9" * 5000)])
def test_a_number_of_processes_that_nobody_set_well_is_one_sentence(monkeypatch, rank, size):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    with pytest.raises(UsageError, match="do not number processes that train together"):
        process()


@pytest.mark.parametrize("kind, start", [("json", "["), ("toml", "a=" + "[")])
def test_a_config_that_is_nested_without_end_is_refused(tmp_path, kind, start):
    path = tmp_path / f"deep.{kind}"
    path.write_text(start + "[" * 100_000)
    with pytest.raises(UsageError, match="nested too deeply"):
        read_request(path)


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of Unix")
def test_a_config_or_an_image_that_is_not_a_file_is_refused_at_once(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.jpg")
    for path in ("/dev/zero", str(tmp_path / "pipe.jpg")):
        code, _, said = run(capsys, "train", "mlp", "--config", path)
        assert code == 2 and "not a regular file" in said
    code, _, said = run(capsys, "predict", "mlp.cifar10", str(tmp_path / "pipe.jpg"))
    assert code == 1 and "not a regular file" in said


# ---------------------------------------------------------------- what fails below


class Odd(Exception):
    def __str__(self):
        raise ValueError("no words")


@pytest.mark.parametrize(
    "error", [KeyError("gone"), RecursionError(), MemoryError(), Odd(), OSError(5, "a disk", "x")]
)
def test_whatever_a_command_raises_is_one_sentence(capsys, monkeypatch, error, tmp_path):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(command_line.cli, "main", fail)
    code, _, said = run(capsys, "list")
    assert code == 1 and said.startswith("Error: ") and "Traceback" not in said
    files = list((tmp_path / "cache" / "errors").glob("*.txt"))
    assert len(files) == (not isinstance(error, MemoryError))
    for file in files:  # with all that a maintainer asks for
        assert "Traceback" in file.read_text() and "zoo list" in file.read_text()
        assert str(file) in said


def test_files_with_tracebacks_do_not_pile_up(capsys, monkeypatch, tmp_path):
    def fail(*arguments, **options):
        raise KeyError("again")

    monkeypatch.setattr(command_line.cli, "main", fail)
    for _ in range(command_line.KEPT_ERRORS + 5):
        run(capsys, "list")
    found = list((tmp_path / "cache" / "errors").glob("*.txt"))
    assert len(found) == command_line.KEPT_ERRORS


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_under_the_output_is_one_sentence():
    with Path("/dev/full").open("w") as full:
        done = zoo("list", stdout=full)
    assert done.returncode == 1
    assert done.stderr == "Error: the output cannot be written: No space left on device.\n"


@pytest.mark.skipif(os.name != "posix", reason="a shell closes the stream")
def test_output_that_is_closed_or_knows_few_letters_is_no_error():
    closed = subprocess.run(
        ["sh", "-c", '"$0" -m zoo list >&-', sys.executable], stderr=subprocess.PIPE, text=True
    )
    assert (closed.returncode, closed.stderr) == (0, "")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = zoo("info", "ä\u4e2d", env=environment)
    assert done.returncode == 2 and "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
def test_an_interruption_of_the_first_imports_is_one_sentence():
    """The signal comes while click is imported: the finder sends it."""
    code = (
        "import sys, os, signal\n"
        "class Finder:\n"
        "    def find_spec(name, path=None, target=None):\n"
        f"        if name == 'click': os.kill(os.getpid(), {int(signal.SIGINT)})\n"
        "sys.meta_path.insert(0, Finder)\n"
        "from zoo_core.cli.start import main\n"
        "main(['list'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Error: interrupted.\n")


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_that_python_cannot_raise_still_ends_the_command(number, code, slow):
    """It comes while a weak reference calls back, as many do while torch is imported.

    slow: a machine that is so busy that a thread starts long before the main one goes on.
    """
    script = (
        "import sys, os, signal, threading, time, weakref\n"
        "start = threading.Thread.start\n"
        f"threading.Thread.start = lambda self: (start(self), time.sleep({0.3 if slow else 0}))\n"
        "class Finder:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'zoo_core.cli.catalog':\n"
        "            gone = Finder()\n"
        f"            kept = weakref.ref(gone, lambda _: os.kill(os.getpid(), {int(number)}))\n"
        "            del gone\n"
        "            time.sleep(60)\n"
        "            sys.exit('it was lost')\n"
        "sys.meta_path.insert(0, Finder)\n"
        "from zoo_core.cli.start import main\n"
        "main(['list'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.strip() == "Error: interrupted."
