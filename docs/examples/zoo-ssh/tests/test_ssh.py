"""Protocol and workers are real; only `ssh` is a script that stays on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from zoo_ssh.engine import SshEngine

import zoo

STAY = '#!/bin/sh\nwhile [ "$1" = -o ]; do shift 2; done\nhost=$1; shift\n' + (
    '[ "$host" != nowhere ] || { echo "ssh: Could not resolve hostname nowhere" >&2; exit 255; }\n'
    'exec sh -c "$*"\n'
)
PIECES = """
import os

def double(given, arrays, report):
    report(given)
    print("a model that prints")
    return 2 * given + int(arrays["numbers"].sum())

def fail(given, arrays, report):
    raise ValueError(given)

def die(given, arrays, report):
    os._exit(3)
"""


@pytest.fixture(autouse=True)
def hosts(tmp_path, monkeypatch):
    script = tmp_path / "bin" / "ssh"
    script.parent.mkdir()
    script.write_text(STAY)
    script.chmod(0o755)
    (tmp_path / "pieces_for_ssh.py").write_text(PIECES)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setenv("ZOO_SSH_PYTHON", sys.executable)


def outcomes(engine, *made, told=lambda piece, value: None):
    waiting = [
        zoo.Piece(number, f"pieces_for_ssh:{name}", given)
        for number, (name, given) in enumerate(made, 1)
    ]
    pull = iter(waiting)
    ended = engine.run(lambda: next(pull, None), {"numbers": np.arange(4)}, told)
    return {outcome.piece.key: outcome for outcome in ended}


def test_pieces_run_on_the_hosts_and_fail_alone():
    told = []
    work = [("double", 1), ("fail", "why"), ("die", 0), ("double", 2)]
    ended = outcomes(SshEngine(2, "one,two"), *work, told=lambda piece, value: told.append(value))
    assert (ended[1].value, ended[4].value) == (8, 10)
    assert isinstance(ended[2].value, ValueError) and isinstance(ended[3].value, zoo.WorkerDied)
    assert set(told) == {1, 2}


def test_hosts_that_cannot_be_used_are_a_sentence():
    with pytest.raises(zoo.UsageError, match="needs hosts"):
        SshEngine(2, "").check()
    with pytest.raises(zoo.ZooError, match="host nowhere cannot be used: ssh: Could not resolve"):
        SshEngine(2, "one,nowhere").check()


def test_a_search_finds_what_the_local_engine_finds(tmp_path):
    found = {}
    for engine in ("local", "ssh"):
        where = ("--engine", engine, *(["--address", "one,two"] if engine == "ssh" else []))
        done = subprocess.run(
            [sys.executable, "-m", "zoo", "tune", "fcn_numpy", "--dataset", "synthetic",
             "--set", "data.train_size=200", "--set", "data.test_size=20", "--epochs", "2",
             "--trials", "3", "--searcher", "random", "--workers", "2", "--quiet", "--json",
             *where],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        found[engine] = [(trial["parameters"], trial["loss"]) for trial in document["trials"]]
        assert list((Path(tmp_path) / document["search"]).glob("trials/*/run.json"))
    assert found["ssh"] == found["local"]
