"""Ray really runs here: the same trials as on the local engine, and what an engine promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import zoo

pytestmark = pytest.mark.slow
SMALL = (
    "--dataset", "synthetic", "--set", "data.train_size=400", "--set", "data.test_size=50",
    "--set", "model.hidden=16", "--epochs", "3", "--quiet", "--device", "cpu",
)  # fmt: skip


def run(folder, *arguments, status=0, timeout=600):
    done = subprocess.run(
        [sys.executable, "-m", "zoo", *arguments],
        cwd=folder, capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done


def trials(document):
    """What a search found, but how long it took."""
    for trial in document["trials"]:
        del trial["seconds"]
        for line in trial["curve"]:
            del line["seconds"], line["images_per_second"]
    return document["trials"]


def test_a_search_on_ray_finds_what_two_local_workers_find(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = {}
    for engine in ("local", "ray"):
        asked = ("--trials", "6", "--startup", "3", "--workers", "2", "--engine", engine, "--json")
        found[engine] = json.loads(run(tmp_path, "tune", "mlp", *SMALL, *asked).stdout)
    assert trials(found["ray"]) == trials(found["local"])
    assert (Path(tmp_path) / found["ray"]["search"] / "trials" / "006" / "run.json").exists()


def test_trials_on_ray_start_from_a_run_that_is_named_as_on_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    trained = Path(run(tmp_path, "train", "mlp", *SMALL, "--no-report").stdout.split()[-1]).name
    asked = ("--trials", "2", "--searcher", "random", "--workers", "2", "--json")
    found = {}
    for engine, init in (("local", trained), ("ray", trained), ("local", "")):
        words = (*asked, "--engine", engine, *(("--set", f"init={init}") if init else ()))
        document = json.loads(run(tmp_path, "tune", "mlp", *SMALL, *words).stdout)
        found[engine, init] = trials(document)
    assert found["ray", trained] == found["local", trained] != found["local", ""]


def test_a_sweep_on_ray_keeps_its_weights_and_goes_on_after_a_stop(tmp_path):
    asked = ("--grid", "lr=0.001,0.01", "--workers", "2", "--engine", "ray", "--json")
    done = json.loads(run(tmp_path, "sweep", "mlp", *SMALL, *asked).stdout)
    folder = Path(tmp_path) / done["search"]
    assert len(list(folder.glob("trials/*/model.safetensors"))) == 2
    lines = (folder / "trials.jsonl").read_text().splitlines(keepends=True)
    (folder / "trials.jsonl").write_text(lines[0])
    again = json.loads(run(tmp_path, "sweep", "--resume", "latest", "--json").stdout)
    assert [t["loss"] for t in again["trials"]] == [t["loss"] for t in done["trials"]]


def test_a_cluster_that_is_not_there_is_a_sentence_and_leaves_nothing(tmp_path):
    asked = ("--engine", "ray", "--address", "127.0.0.1:1")
    done = run(tmp_path, "tune", "mlp", *SMALL, *asked, status=1)
    assert "Error: Ray at 127.0.0.1:1 cannot be reached: ConnectionRefusedError" in done.stderr
    assert not (tmp_path / "runs").exists()


# What the pieces do: a module that Ray's workers can import.
PIECES = """
import os

def double(given, arrays, report):
    report(given)
    return 2 * given + int(arrays["numbers"].sum())

def fail(given, arrays, report):
    raise ValueError(given)

def die(given, arrays, report):
    os._exit(3)
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """A Ray of two workers that several engines use, one after the other."""
    import ray
    from zoo_ray.engine import RayEngine

    folder = tmp_path_factory.mktemp("pieces")
    (folder / "pieces_for_ray.py").write_text(PIECES)
    path = os.pathsep.join([str(folder), *sys.path])
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": path}},
    )  # fmt: skip
    yield lambda: RayEngine(2)
    ray.shutdown()


def outcomes(engine, *made, told=lambda piece, value: None, **resources):
    waiting = [
        zoo.Piece(number, f"pieces_for_ray:{name}", given, zoo.Resources(**resources))
        for number, (name, given) in enumerate(made, 1)
    ]
    ended = engine.run(lambda: waiting.pop(0) if waiting else None, {"numbers": np.arange(4)}, told)
    return {outcome.piece.key: outcome for outcome in ended}


def test_pieces_see_the_arrays_report_and_return(engine):
    told = []
    ended = outcomes(
        engine(), ("double", 1), ("double", 2), ("double", 3), told=lambda p, v: told.append(v)
    )
    assert {key: one.value for key, one in ended.items()} == {1: 8, 2: 10, 3: 12}
    assert sorted(told) == [1, 2, 3]


def test_failures_belong_to_their_piece(engine):
    ended = outcomes(engine(), ("fail", "why"), ("die", 0), ("double", 1))
    assert isinstance(ended[1].value, ValueError) and str(ended[1].value) == "why"
    assert ended[2].state == "failed" and isinstance(ended[2].value, zoo.WorkerDied)
    assert ended[3].value == 8


def test_a_piece_that_asks_for_more_than_the_cluster_has_says_so(engine):
    (outcome,) = outcomes(engine(), ("double", 1), gpus=2).values()
    assert str(outcome.value) == (
        "a piece of work asks for 2 gpus, and no machine of the cluster has that"
    )
    (outcome,) = outcomes(engine(), ("double", 1), cpus=2).values()
    assert outcome.value == 8


def test_it_keeps_its_promises():
    run(Path.cwd(), "plugin", "check", "zoo-ray")
