"""Commands as a person types them: tables, JSON, mistakes."""

import importlib
import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest
from support import ROOT, environment

from zoo_core.io.errors import ZooError
from zoo_core.spec.commands import COMMANDS


def test_the_help_lists_every_command_with_its_own_first_line(zoo_command):
    text = " ".join(zoo_command("--help").stdout.split())
    for name, (module, summary) in COMMANDS.items():
        command = getattr(importlib.import_module(f"zoo_core.cli.{module}"), f"{name}_command")
        assert command.help.split("\n\n")[0].replace("\n", " ") == summary
        assert f"{name} {summary}" in text
    assert "_ZOO_COMPLETE=bash_source" in text
    assert zoo_command("-h").stdout == zoo_command("--help").stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_examples(zoo_here, name):
    assert f"  zoo {name}" in zoo_here(name, "--help").stdout


def test_version(zoo_command):
    import zoo

    assert zoo_command("--version").stdout == f"zoo {zoo.__version__}\n"


def test_list_is_plain_text_in_a_pipe(zoo_command):
    lines = zoo_command("list", "*n*").stdout.splitlines()
    assert lines[0].split()[:3] == ["NAME", "KIND", "PARAMETERS"]
    assert any(line.startswith("cnn ") and "1,147,914" in line for line in lines)


def on_terminal(columns: int, *words: str) -> list[str]:
    """The lines that a command prints on a terminal of this width."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "zoo", *words],
        stdout=theirs,
        env=environment(TERM="xterm-256color", COLUMNS=str(columns)),
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:
        pass
    os.close(ours)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_list_fits_the_terminal(columns):
    lines = on_terminal(columns, "list")
    assert max(map(len, lines)) <= columns
    assert any(line.startswith("resnet18_finetune ") and "11,173,962" in line for line in lines)
    said = " ".join(" ".join(lines).split())
    assert "DATASET" in said and ("FRAMEWORK" in said) == (columns == 200)
    # A summary that needs several lines is whole: its words follow each other in the last column.
    start = lines[0].index("SUMMARY")
    first = next(i for i, line in enumerate(lines) if line.startswith("resnet18_finetune "))
    rest = [line for line in lines[first + 1 : first + 3] if not line[:start].strip()]
    summary = " ".join(line[start:].strip() for line in (lines[first], *rest))
    assert summary == "ResNet-18 from ImageNet weights, all layers trained"


def test_list_as_json_has_everything(json_here):
    cnn = next(model for model in json_here("list") if model["name"] == "cnn")
    assert cnn["parameters"] == 1_147_914
    assert cnn["kinds"] == ["classification"]
    assert (cnn["plugin"], cnn["distribution"]) == ("cnn", "zoo-cnn")
    assert json_here("list", "no such thing") == []
    assert json_here("list", "--kind", "classification", "--plugin", "mlp")[0]["name"] == "mlp"


def test_parameters_mean_the_same_in_every_list(zoo_here):
    name = "efficientnet_lite0_finetune"
    (model,) = json.loads(zoo_here("list", name, "--json").stdout)
    (weights,) = json.loads(zoo_here("list", "--weights", name, "--json").stdout)
    assert model["parameters"] == weights["parameters"] > model["trainable"]
    assert f"{model['trainable']:,}" in zoo_here("info", name).stdout


def test_list_says_when_nothing_matches(zoo_here):
    done = zoo_here("list", "no such thing")
    assert done.stdout == ""
    assert "matches" in done.stderr


def test_info_shows_options_recipes_and_where_it_comes_from(zoo_here, json_here):
    text = zoo_here("info", "cnn").stdout
    for part in ("dropout", "0.5", "paper", "lr=0.000199", "zoo-cnn 0.1.0", "zoo_cnn.cnn:CNN"):
        assert part in text
    entry = json_here("info", "cnn")
    assert entry["recipes"]["paper"]["lr"] == 1.99e-4
    assert zoo_here("info", "cnn/cnn").stdout == text


def test_an_ambiguous_name_says_how_to_choose(zoo_command, plugin_site):
    done = zoo_command("info", "rival_net", status=2, PYTHONPATH=str(plugin_site))
    assert "Hint: choose one: rival-a/rival_net or rival-b/rival_net" in done.stderr
    zoo_command("info", "rival-b/rival_net", PYTHONPATH=str(plugin_site))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["info", "cn"], "Error: there is no model 'cn'.\nHint: did you mean cnn?\n"),
        (["lst"], "Error: there is no command 'lst'.\nHint: did you mean list?\n"),
        (["info"], "Error: Missing argument 'NAME'.\nHint: zoo info --help explains the usage\n"),
        (["plugins", "nope"], "Error: there is no plugin 'nope'.\nHint: installed: builtin,"),
        (["list", "--datasets", "--tag", "x"], "Error: --kind, --tag and --dataset filter models"),
    ],
)
def test_a_mistake_gets_one_sentence_and_a_hint_and_exit_code_2(zoo_here, arguments, sentence):
    done = zoo_here(*arguments, status=2)
    assert done.stderr.startswith(sentence)
    assert done.stdout == ""


def test_debug_shows_the_traceback_wherever_it_stands(zoo_command):
    assert "Traceback" in zoo_command("info", "cn", "--debug", status=1).stderr
    assert "Traceback" in zoo_command("--debug", "info", "cn", status=1).stderr


def test_no_arguments_show_the_help(zoo_command):
    done = zoo_command(status=2)
    assert "Commands:" in done.stdout + done.stderr


def test_output_into_a_closed_pipe_is_no_error(tmp_path):
    command = f"{sys.executable} -m zoo list | true"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, env=environment(), cwd=tmp_path
    )
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_completion_knows_commands_and_models(tmp_path):
    def complete(words, index):
        done = subprocess.run(
            [sys.executable, "-m", "zoo"],
            capture_output=True,
            text=True,
            env=environment(_ZOO_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(index)),
        )
        return done.stdout

    assert "plugins" in complete("zoo pl", 1)
    assert "cnn" in complete("zoo info c", 2)


def test_cache_shows_and_clears_what_is_there(zoo_command, zoo_here, json_here, tmp_path):
    root = tmp_path / "cache"
    assert {c["bytes"] for c in json_here("cache")["caches"]} == {0}
    for kind, used in (("data", 1500), ("features", 10)):
        (root / kind).mkdir(parents=True)
        (root / kind / "file").write_bytes(b"x" * used)
    (root / "not-ours").write_text("keep")
    assert "1.5 kB" in zoo_here("cache").stdout
    # Without an answer nothing is deleted.
    assert "--yes" in zoo_command("cache", "clear", "data", status=2).stderr
    assert (root / "data" / "file").exists()
    assert zoo_here("cache", "clear", "data", "--yes").stdout == "Deleted 1.5 kB.\n"
    assert not (root / "data").exists()
    assert (root / "features" / "file").exists()
    zoo_here("cache", "clear", "--yes")
    assert [path.name for path in root.iterdir()] == ["not-ours"]
    assert "Nothing to clear" in zoo_here("cache", "clear").stderr
    zoo_here("cache", "clear", "everything", status=2)


def test_json_is_the_only_thing_on_standard_output(zoo_command, plugin_site):
    for arguments in (["list"], ["plugins"], ["info", "cnn"], ["cache"]):
        json.loads(zoo_command(*arguments, "--json", PYTHONPATH=str(plugin_site)).stdout)


def test_exit_codes_are_those_of_the_docs(zoo_here, monkeypatch):
    page = (ROOT / "docs" / "runs.md").read_text().partition("## Use zoo in scripts")[2]
    documented = re.findall(r"^\| (\d+) \|", page.partition("\n## ")[0], re.MULTILINE)
    seen = set()

    def ends(status, *arguments):
        seen.add(str(status))
        return zoo_here(*arguments, status=status).stderr

    ends(0, "list")
    ends(1, "data", "verify", "cifar10")
    for wrong in ("info nothing", "nothing", "list --nothing", "train", "train --resume latest"):
        assert ends(2, *wrong.split()).startswith("Error: ")
    from zoo_core.cli.catalog import list_command

    for status, arguments in ((130, ()), (143, (143,))):

        def stop(*, arguments=arguments, **_):
            raise KeyboardInterrupt(*arguments)

        monkeypatch.setattr(list_command, "callback", stop)
        assert ends(status, "list") == "\nError: interrupted.\n"
    assert sorted(seen, key=int) == documented
    kinds, waiting = set(), [ZooError]
    while waiting:
        kinds.add(waiting[-1])
        waiting += waiting.pop().__subclasses__()
    codes = {k.exit_code for k in kinds if k.__module__ == ZooError.__module__}
    assert codes == {1, 2}


def test_sigterm_ends_a_command_as_ctrl_c_does():
    code = (
        "import time, zoo_core.cli.catalog as one\n"
        "one.list_command.callback = lambda **_: (print('begun', flush=True), time.sleep(60))\n"
        "from zoo_core.cli.main import main\nmain(['list'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(),
    )  # fmt: skip
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 143 and stderr.splitlines()[-1] == "Error: interrupted."
