"""Plugins that hang, die or change the process: named, undone, and easy to leave out."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fixtures.broken_plugins import BROKEN, COMMANDS, Zoo, attempt, write
from support import environment

import zoo
from zoo_core.io.targets import describe
from zoo_core.spec.discovery import disabled_plugins, find_plugins
from zoo_core.spec.guard import Guard, time_limit
from zoo_core.spec.notes import left_behind
from zoo_core.spec.plugins import load, load_plugins
from zoo_core.spec.probe import probe

HARMLESS = [name for name, broken in BROKEN.items() if broken.how in ("failed", "ok")]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """One command with all broken plugins that a process survives, and all plugins of the zoo."""
    folder = tmp_path_factory.mktemp("together")
    for name in HARMLESS:
        write(folder / "site", name)
    env = Zoo(folder, "raises").environment | {"ZOO_DISABLE_PLUGINS": ""}
    command = [sys.executable, "-m", "zoo", "plugins", "--json"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def test_there_are_many_broken_plugins_of_every_kind():
    kinds = [broken.how for broken in BROKEN.values()]
    assert len(kinds) >= 60
    assert set(kinds) == {"failed", "ok", "dies", "stops", "hangs", "stuck", "late"}


def test_a_hundred_broken_plugins_at_once_fail_for_their_own_reasons_and_hurt_nobody(together):
    assert together.returncode == 0, together.stderr
    records = {record["id"]: record for record in json.loads(together.stdout)}
    for name in HARMLESS:
        broken, record = BROKEN[name], records.pop(name)
        if broken.how == "ok":
            assert record["state"] == "ok", record
        else:
            assert record["state"] in ("failed", "incompatible"), record
            assert broken.says in record["reason"] and record["reason"], record
            assert "\n" not in record["reason"] and not record["models"], record
    assert {record["state"] for record in records.values()} == {"ok"}
    assert {"builtin", "cnn", "vit"} <= set(records)
    assert "Traceback" not in together.stderr


@pytest.mark.parametrize(
    "name", ["os-exit", "segfault", "closes-all", "goes-away", "sigterm-itself", "keeps-the-lock"]
)
def test_a_plugin_that_ends_the_process_is_named_and_can_be_disabled(name, tmp_path):
    assert attempt(name, "list", tmp_path) == []


def test_a_plugin_that_hangs_is_named_and_the_command_continues_without_it(tmp_path):
    assert attempt("sleeps", "list", tmp_path) == []


def test_what_plugins_print_or_close_does_not_reach_the_answer(tmp_path):
    for name in ("prints-to-1", "prints-in-child", "closes-1-2"):
        assert attempt(name, "info", tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_every_command_keeps_its_promises_about_every_broken_plugin(name, tmp_path):
    assert [problem for command in COMMANDS for problem in attempt(name, command, tmp_path)] == []


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """Have this process find broken plugins, and of the others cnn alone; loads none of them."""

    def find(*names):
        load_plugins()  # all of them, for the tests that come later in this process
        others = {record.id for record in find_plugins()} - {"cnn", "builtin"}
        monkeypatch.setenv("ZOO_DISABLE_PLUGINS", ",".join(others))
        for name in names:
            write(tmp_path / "site", name)
        monkeypatch.syspath_prepend(tmp_path / "site")
        return {record.id: record for record in find_plugins()}

    return find


def test_the_doctor_finds_what_no_command_survives_and_says_how_to_disable_it(
    beside, zoo_here, monkeypatch
):
    beside("os-exit", "segfault", "exits-late", "raises")
    monkeypatch.setenv("ZOO_PLUGIN_TIMEOUT", "300")
    told = json.loads(zoo_here("doctor", "--offline", "--json", status=1).stdout)["findings"]
    plugins = [one for one in told if one["about"] == "plugins"]
    assert plugins[0]["state"] == "ok" and len(plugins) == 5
    for one in plugins[1:]:
        name = one["words"].split("'")[1]
        assert f"'{name}' (broken-{name} 1.0): " in one["words"]
        assert BROKEN[name].says in one["words"], one
        assert f"zoo plugins disable {name}" in one["hint"]


def test_the_doctor_does_not_wait_for_a_plugin_that_hangs(beside, monkeypatch):
    monkeypatch.setenv("ZOO_PLUGIN_TIMEOUT", "1")
    for name in ("loops", "keeps-the-lock"):
        words, deadly = probe(beside(name)[name])
        assert deadly and words.startswith("loading it does not end within 1 s")


def test_a_good_plugin_that_is_probed_is_well_and_leaves_no_note(beside, tmp_path):
    assert probe(beside()["cnn"]) == ("", False)
    assert not (tmp_path / "cache").exists()


def test_the_same_is_true_from_python(beside):
    beside("raises", "chdir", "prints")
    folder = Path.cwd()
    states = {r.id: r.state for r in load(find_plugins()).records if r.state != "disabled"}
    assert states == {
        "builtin": "ok", "cnn": "ok", "raises": "failed", "chdir": "failed", "prints": "ok",
    }  # fmt: skip
    assert Path.cwd() == folder


HOLDER = """
import sys
from zoo_core.spec.notes import Note
note = Note()
note.name("a-long-name-before")
note.name("cnn")
print("noted", flush=True)
sys.stdin.read()
"""


def test_the_note_of_a_process_that_lives_is_not_a_death(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(ZOO_CACHE=str(tmp_path / "cache")),
    )
    with holder:
        assert holder.stdout.readline() == "noted\n"
        assert left_behind() == []
        holder.kill()
        holder.wait()
        assert left_behind() == ["cnn"]
        assert left_behind() == [], "it is told once"


def test_a_cache_that_cannot_be_written_does_not_matter(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file")
    assert left_behind() == []
    assert load(find_plugins()[:1]).records[0].state == "ok"
    monkeypatch.setenv("ZOO_CACHE", "/proc/nowhere")
    assert load(find_plugins()[:1]).records[0].state == "ok"


def test_other_threads_keep_their_input_and_output_while_plugins_load(monkeypatch):
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    before = [os.fstat(number) for number in (0, 1, 2)]
    try:
        with Guard(note=False) as guard:
            during, error, changes = guard.run(
                "x", "x", lambda: [os.fstat(number) for number in (0, 1, 2)]
            )
    finally:
        stop.set()
        other.join()
    assert (during, error, changes) == (before, None, [])


def test_plugins_load_in_a_thread_too():
    found = []
    thread = threading.Thread(target=lambda: found.append(load(find_plugins()[:1]).records[0]))
    thread.start()
    thread.join()
    assert found[0].state == "ok"


def test_a_person_disables_a_plugin_and_enables_it_again(zoo_command, tmp_path):
    def state(**env):
        (record,) = json.loads(zoo_command("plugins", "cnn", "--json", **env).stdout)
        return record["state"], record["reason"]

    # None of these commands loads a plugin: this one would end them.
    write(tmp_path / "site", "os-exit")
    here = {"PYTHONPATH": str(tmp_path / "site")}
    done = zoo_command("plugins", "disable", "os-exit", **here)
    assert done.stdout == "Disabled os-exit. To undo it: zoo plugins enable os-exit\n"
    shown = zoo_command("plugins", "disable", "cnn", "--json", **here).stdout
    assert json.loads(shown) == {"disabled": ["cnn", "os-exit"]}
    zoo_command("plugins", "disable", "cnn", **here)
    reason = "you disabled it; zoo plugins enable cnn loads it again"
    assert state(**here) == ("disabled", reason)
    assert reason in zoo_command("plugins", "cnn", **here).stdout
    assert reason in zoo_command("info", "cnn.cifar10", **here).stderr
    assert state(ZOO_PLUGINS="cnn")[0] == "ok", "the environment wins"
    assert state(ZOO_DISABLE_PLUGINS="cnn") == ("disabled", "ZOO_DISABLE_PLUGINS names it")
    zoo_command("plugins", "enable", "cnn", **here)
    assert state(**here)[0] == "ok"
    zoo_command("plugins", "enable", "os-exit")  # which is not installed here
    assert not list((tmp_path / "config" / "disabled-plugins").iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("disable", "cnnn"), "no plugin 'cnnn' is installed.\nHint: did you mean cnn?"),
        (("enable", "cnnn"), "no plugin 'cnnn' is installed.\nHint: did you mean cnn?"),
        (("disable", "../cnn"), "no plugin '../cnn' is installed"),
        (("disable", "builtin"), "is the zoo itself and is always loaded"),
        (("disable",), "Missing argument 'NAME'"),
    ],
)
def test_a_plugin_that_cannot_be_disabled_gets_a_sentence(arguments, said, zoo_here, tmp_path):
    assert said in zoo_here("plugins", *arguments, status=2).stderr
    assert not (tmp_path / "config").exists()


def test_a_config_folder_that_cannot_be_written_gets_a_sentence(zoo_here, tmp_path):
    (tmp_path / "config").write_text("a file")
    said = zoo_here("plugins", "disable", "cnn", status=1).stderr
    assert "plugin 'cnn' could not be disabled: " in said and "ZOO_DISABLE_PLUGINS" in said


def test_python_disables_and_enables_too():
    zoo.disable_plugin("cnn")
    assert disabled_plugins() == ["cnn"]
    (cnn,) = [record for record in find_plugins() if record.id == "cnn"]
    assert cnn.state == "disabled" and "zoo plugins enable cnn" in cnn.reason
    zoo.enable_plugin("cnn")
    zoo.enable_plugin("cnn")
    assert disabled_plugins() == []
    with pytest.raises(zoo.UsageError):
        zoo.disable_plugin("nothing")


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan"])
def test_a_time_limit_that_is_not_a_number_gets_a_sentence(text, monkeypatch):
    monkeypatch.setenv("ZOO_PLUGIN_TIMEOUT", text)
    with pytest.raises(zoo.UsageError, match="must be a number of seconds"):
        time_limit()


def test_an_error_without_a_text_has_a_name():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert describe(Mute()) == "Mute: its text cannot be shown (RuntimeError)"
    assert len(describe(ValueError("x" * 10**6))) < 2000


def test_the_folders_of_a_user_are_those_of_platformdirs(monkeypatch):
    import platformdirs

    from zoo_core.io.folders import user_folder

    for variable in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        for value in ("", "/somewhere", "relative", " "):
            monkeypatch.setenv(variable, value)
            for kind in ("cache", "config", "data"):
                wanted = getattr(platformdirs, f"user_{kind}_dir")("zoo", appauthor=False)
                assert user_folder(kind) == wanted, (variable, value)
