"""Commands that plugins bring: how they are found and shown, and how a broken one ends."""

import json
import re
import signal
import subprocess
import sys

import pytest
from fixtures.datasets import install_plugin
from support import ROOT, environment

from zoo_core.spec.commands import COMMANDS

TOOL = "plugin 'tool' (fixture-tool 1.2.3)"
RIVAL = "plugin 'tool-rival' (fixture-tool-rival 1.2.3)"


@pytest.fixture
def here(plugin_site):
    return {"PYTHONPATH": str(plugin_site), "ZOO_PLUGINS": "tool"}


@pytest.fixture
def both(here):
    return here | {"ZOO_PLUGINS": "tool,tool-rival"}


def words(text):
    return " ".join(text.split())


def test_the_help_shows_them_in_a_section_of_their_own_and_imports_none(zoo_command, here):
    done = zoo_command("--help", **here)
    own, section = done.stdout.split("Commands from plugins:\n")
    assert "greet Help of greet. [plugin tool]" in words(section)
    assert "greet" not in own and "train " in own
    assert done.stderr == ""
    alone = zoo_command("--help", ZOO_PLUGINS="cnn")
    assert "from plugins" not in alone.stdout and alone.stderr == ""


def test_a_command_runs_by_its_name_and_by_its_full_name(zoo_command, zoo_json, here):
    assert zoo_command("greet", "you", **here).stdout == "hello you\n"
    assert zoo_command("tool/greet", **here).stdout == "hello world\n"
    assert zoo_json("greet", "you", **here) == {"name": "you"}
    assert zoo_command("several", "inner", **here).stdout == "inside\n"


def test_a_command_explains_itself(zoo_command, here):
    text = zoo_command("greet", "--help", **here).stdout
    assert text.startswith("Usage: zoo greet [OPTIONS] [NAME]")
    assert "Greet somebody." in text and "  zoo greet you" in text and "--json" in text
    assert "Usage: zoo tool/plain" in zoo_command("tool/plain", "--help", **here).stdout


def test_the_exit_code_is_what_a_command_exits_with_not_what_it_returns(zoo_command, here):
    zoo_command("plain", **here)
    zoo_command("greet", "--fail", status=1, **here)
    zoo_command("refuses", "exit", status=7, **here)


@pytest.mark.parametrize("arguments", [["train", "--help"], ["cache"], ["runs"], ["--version"]])
def test_the_zoos_own_commands_are_found_without_loading_a_plugin(
    zoo_command, plugin_site, arguments
):
    # The plugin `prints` prints while it is imported.
    assert zoo_command(*arguments, PYTHONPATH=str(plugin_site)).stderr.count("hello") == 0


def test_a_command_joins_a_group_of_the_zoo(zoo_command, zoo_json, here):
    assert zoo_command("data", "count", "you", **here).stdout == "hello you\n"
    assert "Usage: zoo data count" in zoo_command("data", "count", "--help", **here).stdout
    own, section = zoo_command("data", "--help", **here).stdout.split("Commands from plugins:\n")
    assert "count Help of data count. [plugin tool]" in words(section) and "fetch" in own
    assert "data count" not in zoo_command("--help", **here).stdout
    assert "NAME" in zoo_command("data", "list", **here).stdout  # not the plugin's
    alone = zoo_command("data", "count", status=2, ZOO_PLUGINS="cnn")
    assert "No such command 'count'" in alone.stderr


def test_what_a_command_does_is_a_function_of_zoo(tmp_path, here):
    code = """
import sys, zoo
print(zoo.greeting("you"), "fixture_tool_rival_commands" in sys.modules)
try:
    zoo.nothing
except AttributeError as error:
    print(error)
try:
    zoo.shared_greeting
except AttributeError as error:
    print(error)
"""
    names = here | {"ZOO_PLUGINS": "tool,tool-rival"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(**names), text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    known, unknown, ambiguous = done.stdout.splitlines()
    assert known == "hello you False"
    assert unknown == "module 'zoo' has no attribute 'nothing'"
    assert ambiguous == f"zoo.shared_greeting is provided by {TOOL} and by {RIVAL}"


def test_an_unknown_name_is_compared_with_all_commands(zoo_command, here):
    done = zoo_command("gret", status=2, **here)
    assert done.stderr.startswith("Error: there is no command 'gret'.\nHint: did you mean greet")
    assert "did you mean train?" in zoo_command("trian", status=2, **here).stderr
    done = zoo_command("tool/gret", status=2, **here)
    assert "did you mean tool/greet" in done.stderr
    assert "zoo --help shows what there is" in zoo_command("xyzzy", status=2, **here).stderr


def test_a_command_never_replaces_one_of_the_zoo(zoo_command, zoo_json, here):
    assert "python" in json.dumps(zoo_json("doctor", "--offline", **here)).lower()
    assert "plain from" in zoo_command("tool/doctor", **here).stdout
    shown = zoo_command("--help", **here).stdout
    assert "tool/doctor Help of doctor." in words(shown)
    sentence = (
        f"Command 'doctor' is provided by plugin 'builtin' (zoo-core 0.1.0) and by {TOOL}: "
        "zoo doctor runs the built-in one; write zoo tool/doctor."
    )
    assert sentence in words(shown)
    assert sentence + "\n" in zoo_command("plugins", **here).stderr


def test_of_two_plugins_with_one_name_neither_wins(zoo_command, here, both):
    zoo_command("shared", **here)
    done = zoo_command("shared", status=2, **both)
    assert f"command 'shared' is provided by {TOOL} and by {RIVAL}" in done.stderr
    assert "Hint: choose one: tool/shared or tool-rival/shared" in done.stderr
    rival = zoo_command("tool-rival/shared", **both)
    assert rival.stdout == "plain from fixture_tool_rival_commands\n"
    shown = words(zoo_command("--help", **both).stdout)
    assert "tool/shared Help of shared." in shown and "tool-rival/shared Help of" in shown
    sentence = (
        f"Command 'shared' is provided by {TOOL} and by {RIVAL}: zoo shared runs none of them; "
        "write zoo tool/shared or zoo tool-rival/shared."
    )
    assert sentence in shown and sentence in zoo_command("plugins", **both).stderr


@pytest.mark.parametrize(
    ("name", "sentence", "hint"),
    [
        ("lost", "names 'fixture_tool_lost:command', which does not exist", ""),
        ("needy", "needs package_that_is_not_there, which is not installed",
         "pip install package_that_is_not_there"),
        ("explodes", "raised ZeroDivisionError: division by zero", "--debug"),
        ("absent", "has no attribute 'absent'", "--debug"),
        ("number", "names 'fixture_tool_commands:NUMBER', which is not a click command",
         "@zoo.kit.command()"),
        ("exits", "raised SystemExit: 5", "--debug"),
        ("words", "it returned str, not zoo.kit.Answer", "--debug"),
        ("silent", "it returned NoneType, not zoo.kit.Answer", "--debug"),
        ("fails", "raised ValueError: two lines", "has the traceback; --debug shows it here"),
    ],
)  # fmt: skip
def test_a_broken_command_is_a_sentence_and_a_hint(zoo_command, here, name, sentence, hint):
    done = zoo_command(name, status=1, **here)
    error = done.stderr[done.stderr.index("Error: ") :]
    assert f"command {name!r} of {TOOL}" in error and sentence in error
    assert "Traceback" not in done.stderr and error.count("\n") == 1 + bool(hint)
    assert hint in error


def test_debug_shows_the_traceback_of_a_command_that_raised(zoo_command, here):
    done = zoo_command("fails", "--debug", status=1, **here)
    assert 'in fails\n    raise ValueError("two\\nlines")' in done.stderr


def test_expected_errors_pass_as_they_do_for_the_zoos_own_commands(zoo_command, here):
    done = zoo_command("refuses", "zoo", status=1, **here)
    assert done.stderr.endswith("Error: not today.\nHint: try tomorrow\n")
    done = zoo_command("refuses", "click", status=2, **here)
    assert "Error: Invalid value: not this.\nHint: zoo refuses --help" in done.stderr
    assert "Missing argument 'HOW'" in zoo_command("refuses", status=2, **here).stderr


def test_ctrl_c_ends_a_command(here):
    process = subprocess.Popen(
        [sys.executable, "-m", "zoo", "waits"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment(**here),
    )  # fmt: skip
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 130 and stderr.endswith("Error: interrupted.\n")


def test_a_broken_plugin_is_a_remark_in_the_help(zoo_command, here):
    some = here | {"ZOO_PLUGINS": "tool,exits"}
    shown = zoo_command("--help", **some).stdout
    assert "1 plugin could not be loaded (exits): zoo plugins says why\n" in shown
    assert "greet" in shown and "Examples:" in shown
    done = zoo_command("xyzzy", status=2, **some)
    assert "a plugin that could not be loaded may provide it (exits): zoo plugins" in done.stderr


def test_the_help_is_there_whatever_the_environment_says(zoo_command, here):
    strict = zoo_command("--help", **here | {"ZOO_PLUGINS": "tool,exits", "ZOO_STRICT": "1"})
    said = "Plugins cannot be loaded: plugin 'exits' (fixture-exits 1.2.3) is"
    assert said in words(strict.stdout)
    wrong = zoo_command("--help", ZOO_PLUGINS="nope").stdout
    assert "ZOO_PLUGINS names nope, which is not installed." in words(wrong)
    assert "doctor" in wrong and "ZOO_STRICT=1" in wrong


def test_the_shell_completes_commands_and_imports_none(zoo_command, here):
    def completed(line, index, **env):
        more = {"_ZOO_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": index}
        done = zoo_command(**here | more | env)
        return [text.partition(",")[2] for text in done.stdout.split()], done.stderr

    names, said = completed("zoo ", "1")
    assert {*COMMANDS, "greet", "tool/doctor"} <= set(names) and said == ""
    assert completed("zoo tr", "1")[0] == ["train"]
    assert completed("zoo --d", "1")[0] == ["--debug"]
    assert completed("zoo greet --f", "2")[0] == ["--fail"]


def test_plugin_check_reports_refused_names_and_broken_commands(plugin_site):
    code = (
        "from zoo_author.checks import *\n"
        "def said(check, given):\n"
        "    try: check(given)\n"
        "    except Finding as finding: return f'{finding.what} | {finding.why} | {finding.fix}'\n"
        "print(*(said(*case) for case in ["
        "(check_names, record_of('tool')), (check_names, record_of('tool-rival')),"
        "(check_targets, record_of('tool')),"
        "(check_command, 'tool/number'), (check_command, 'tool/silent'),"
        "(check_command, 'tool/greet'), (check_light, record_of('eager')),"
        "(check_light, record_of('tool'))]), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env=environment(PYTHONPATH=str(plugin_site), ZOO_PLUGINS="tool,tool-rival,eager"),
    )  # fmt: skip
    builtin, rival, target, number, silent, *fine, eager, light = done.stdout.splitlines()
    assert "zoo-core has commands of the same name: doctor | `zoo doctor` stays" in builtin
    assert "fixture-tool has commands of the same name: shared | neither wins" in rival
    assert "for absent raised AttributeError" in target
    assert "fixture_tool_commands:NUMBER is not a click command" in number
    assert "has no help" in silent and "docstring" in silent
    assert [*fine, light] == ["None", "None"]
    assert "imports fixture_eager_commands, the code of command 'eager'" in eager


def test_the_example_of_the_docs_works(zoo_command, zoo_json, tmp_path):
    page = (ROOT / "docs" / "hooks.md").read_text().partition("### `zoo_commands()`")[2]
    (first, plugin), (second, module) = re.findall(r"```python\n# (\S+)\n(.*?)```", page, re.S)[:2]
    assert (first, second) == ("zoo_tiny/plugin.py", "zoo_tiny/commands.py")
    site = install_plugin(tmp_path / "site", "tiny", plugin)
    (site / "zoo_tiny").mkdir()
    (site / "zoo_tiny" / "commands.py").write_text(module)
    env = {"PYTHONPATH": str(site), "ZOO_RUNS": str(tmp_path / "runs")}
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "run.json").write_text('{"version": 1, "command": "train"}')
    (tmp_path / "runs" / "one" / "metrics.jsonl").write_text('{"epoch": 1}\n{"epoch": 2}\n')
    assert zoo_command("epochs", **env).stdout == "RUN  EPOCHS\none       2\n"
    assert zoo_json("epochs", **env) == {"one": 2}
    assert "Show how many epochs each run has." in zoo_command("--help", **env).stdout
