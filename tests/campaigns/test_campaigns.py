"""The campaigns: each for a handful of attempts, and each notices a fault that is planted."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns import calls, record, worker
from campaigns.faults import BrokenPlugins, HubFaults
from campaigns.kills import SCENARIOS
from campaigns.tally import Tally
from fixtures import kills
from support import ROOT, environment

DRIVER = Path(__file__).with_name("quick_driver.py")
CASES = sorted(worker.CASES.glob("*.json"))
pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the campaigns need Linux")


STORIES = [("", [name, "1"]) for name in ("train fcn_numpy", "plugin new", "data fetch")]
LINES = [
    ["list", "--json"], ["list", "\x1b]0;x\x07"], ["predict", "latest", "pipe.png", "--json"],
    ["train", "--config", "deep.toml"], ["info", "x" * 5000], ["evaluate", "runs/RUN"],
    ["HF_ENDPOINT=http://a:99999", "pull", "hf:org/name"], [">/dev/full", "list"], [">&-", "list"],
    ["runs", "remove", "latest", "--yes"], ["plugin", "new", "mixer", "--to", ".."],
]  # fmt: skip
PLANTED = {
    "raises": "an unexpected error",
    "prints": "not one JSON document",
    "writes": "written outside",
    "hangs": "did not end",
}


def drive(folder, campaign, subjects):
    return kills.drive(DRIVER, folder / "work", campaign, json.dumps(subjects))


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """What became of commands that were killed; the last one forgot its checkpoint."""
    subjects = [*STORIES, ("forgets", STORIES[0][1])]
    return drive(tmp_path_factory.mktemp("kills"), "kills", subjects)


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """What became of calls, and of some with a fault that was planted."""
    subjects = [("", line) for line in LINES] + [(fault, LINES[0]) for fault in PLANTED]
    return drive(tmp_path_factory.mktemp("calls"), "calls", subjects)


def test_commands_that_are_killed_end_as_those_that_are_not(stories):
    found = stories[: len(STORIES)]
    assert not any(problem for _, problem in found), found
    assert sum(count for count, _ in found) >= len(STORIES)


def test_kills_notice_a_checkpoint_that_is_not_restored(stories):
    _, problem = stories[-1]
    assert problem.startswith("train fcn_numpy: after ") and ", not '" in problem, problem


def test_calls_of_every_sort_keep_their_promises(called):
    assert called[: len(LINES)] == [[1, ""]] * len(LINES)


def test_calls_notice_what_breaks_a_promise(called):
    for (fault, words), (_, problem) in zip(PLANTED.items(), called[len(LINES) :], strict=True):
        assert words in problem and problem.startswith("zoo list --json: "), fault


def test_calls_are_drawn_from_every_command_and_the_same_seed_draws_the_same():
    known = calls.commands()
    assert {("train",), ("runs", "remove"), ("cache",), ("features", "compute")} <= set(known)
    draw = lambda: [calls.drawn(random.Random(n), known) for n in range(3000)]  # noqa: E731
    made = draw()
    assert made == draw()
    assert {call.path for call in made} == set(known)
    typed = {word.partition("=")[0] for call in made for word in call.arguments}
    options = {
        option
        for path, command in known.items()
        if calls.RARE.get(path, 1) == 1
        for param in command.params
        for option in param.opts
        if option.startswith("--") and option != "--help"
    }
    assert options <= typed, options - typed


def test_every_command_that_writes_is_killed():
    first = {scenario.command[0] for scenario in SCENARIOS.values()}
    writes = {"blend", "train", "tune", "sweep", "features", "data", "publish", "pull", "report",
              "export", "predict", "plugin", "cache", "runs", "remove"}  # fmt: skip
    assert first == writes


def test_hub_faults_are_drawn_from_the_whole_table_and_then_on(tmp_path):
    with HubFaults(tmp_path / "hub") as campaign:
        count = len(campaign._faults.FAULTS)
        drawn = {tuple(campaign.draw(1, number)) for number in range(count)}
        assert len(drawn) == count >= 100
        assert campaign.draw(1, count + 5) == campaign.draw(1, count + 5)
        assert campaign.attempt(["pull | weights | truncated | 0 | 0"]) == (1, "")


def test_broken_plugins_are_drawn_with_every_command(tmp_path):
    with BrokenPlugins(tmp_path / "plugins") as campaign:
        drawn = {tuple(campaign.draw(1, number)) for number in range(10_000)}
        plugins, commands = ({pair[part] for pair in drawn} for part in (0, 1))
        assert len(plugins) >= 60 and len(drawn) == len(plugins) * len(commands)
        assert campaign.attempt(["raises", "info"]) == (1, "")


def test_what_failed_is_kept_and_can_be_tried_again(tmp_path, monkeypatch):
    class Campaign:
        def __init__(self, folder):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def draw(self, seed, number):
            return ["\udcff", str(seed * number)]

        def attempt(self, subject):
            return 1, "broken" if subject == ["\udcff", "14"] else ""

    monkeypatch.setattr(worker, "CASES", tmp_path)
    monkeypatch.setitem(worker.OPEN, "calls", Campaign)
    tallies = worker.tallies("calls", 7, 60, tmp_path)
    counted = [next(tallies) for _ in range(4)]
    assert [one.tried for one in counted] == [1] * 4
    assert [one.failed for one in counted] == [[], [], ["broken"], []]
    (kept,) = tmp_path.glob("*.json")
    assert kept.name == "calls-7-2.json"
    assert worker.replay([kept], tmp_path) == {"calls-7-2.json": "broken"}


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_failed_once_holds_now(slow):
    """Kills need torch, and two undisturbed runs first."""
    chosen = [file for file in CASES if file.name.startswith("kills") == slow]
    if not chosen:
        pytest.skip("no case is kept")
    command = [sys.executable, "-m", "campaigns", "--replay", *map(str, chosen)]
    env = environment(PYTHONPATH=str(ROOT / "tests"))
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600)
    assert done.returncode == 0, done.stderr
    assert {file: what for file, what in json.loads(done.stdout).items() if what} == {}


def test_the_counts_of_all_runs_add_up(tmp_path):
    file = tmp_path / "reliability.md"
    file.write_text(f"Before\n{record.BEGIN}\n{record.END}\nAfter\n")
    record.record(file, "2026-01-02", 5, 60.2, {"kills": Tally(1200, 1199, ["x"])})
    record.record(file, "2026-01-03", 6, 2, {"kills": Tally(3, 3, []), "calls": Tally(4, 4, [])})
    lines = file.read_text().splitlines()
    assert lines[0] == "Before" and lines[-1] == "After"
    assert lines[4:7] == [
        "| 2026-01-02 | 5 | 60 | 1,200 / 1,199 / 1 | - | - | - | - |",
        "| 2026-01-03 | 6 | 2 | 3 / 3 / 0 | 4 / 4 / 0 | - | - | - |",
        "| all | | 62 | 1,203 / 1,202 / 1 | 4 / 4 / 0 | 0 / 0 / 0 | 0 / 0 / 0 | 0 / 0 / 0 |",
    ]


def test_ctrl_c_ends_a_campaign_with_the_counts_so_far():
    process = subprocess.Popen(
        [sys.executable, "-m", "campaigns", "--minutes", "60", "--only", "plugins", "--seed", "1"],
        stdout=subprocess.PIPE, text=True, env=environment(PYTHONPATH=str(ROOT / "tests")),
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout.readline().startswith("Seed 1, 60 minutes: plugins")
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert "Interrupted." in out and "0 failed" in out.splitlines()[-1]
    assert process.returncode == 0
