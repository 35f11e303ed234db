"""A Ray of two nodes on this machine, one of which is taken away in the middle of the work."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

pytestmark = pytest.mark.slow
DEADLINE = 900  # seconds, so that a test that hangs fails
SEARCH = (
    "tune", "mlp", "--dataset", "synthetic", "--set", "data.train_size=400", "--set",
    "data.test_size=50", "--set", "model.hidden=16", "--epochs", "60", "--set",
    "schedule=constant", "--patience", "0", "--no-prune", "--trials", "4", "--startup", "2",
    "--workers", "2", "--device", "cpu", "--checkpoint-every", "1e-9", "--name", "it", "--json",
)  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield made
    if ray.is_initialized():
        ray.shutdown()
    made.shutdown()


def begin(folder, *arguments, **environment):
    """`zoo ARGUMENTS` in a process of its own, with a thread for each worker."""
    given = os.environ | {"OMP_NUM_THREADS": "1", "ZOO_CACHE": str(folder / "cache")} | environment
    return subprocess.Popen(
        [sys.executable, "-m", "zoo", *arguments],
        cwd=folder, env=given, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def end(process):
    """What it printed, and what it said."""
    printed, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, said
    return printed, said


def until(found, process):
    """What `found` gives once that is something; the process must still be at work."""
    for _ in range(DEADLINE * 20):
        if result := found():
            return result
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("nothing happened")


def trials(document):
    """What a search found, but how long it took."""
    for trial in document["trials"]:
        del trial["seconds"]
        for line in trial["curve"]:
            del line["seconds"], line["images_per_second"]
    return document["trials"]


def test_a_trial_whose_node_is_taken_away_goes_on_from_its_checkpoint(cluster, tmp_path, kills=3):
    whole, _ = end(begin(tmp_path, *SEARCH, "--runs", "local"))
    storage = tmp_path / "storage"
    storage.mkdir()
    process = begin(
        tmp_path, *SEARCH, "--engine", "ray", "--address", cluster.address, "--storage", storage
    )

    before: dict[Path, list[str]] = {}

    def both():
        """The lines of two trials that went on since the last look; one of them is on the node."""
        files = storage.glob("it/trials/*/metrics.jsonl")
        lines = {file: file.read_text().splitlines(keepends=True) for file in files}
        moved = (len(before.get(file, ())) + 3 < len(some) < 55 for file, some in lines.items())
        return lines if sum(moved) == 2 else None

    for _ in range(kills):
        node = cluster.add_node(num_cpus=1)
        found = until(both, process)
        for file, lines in before.items():  # with the seconds of each: none was done again
            assert found[file][: len(lines) - 1] == lines[:-1]
        before = found
        cluster.remove_node(node, allow_graceful=False)
    printed, said = end(process)
    assert said.count("another one goes on with its work") == kills
    assert trials(json.loads(printed)) == trials(json.loads(whole))
    for file, lines in before.items():
        assert file.read_text().startswith("".join(lines[:-1]))
    assert not list(storage.glob("it/trials/*/checkpoints/*"))
    assert not (tmp_path / "runs" / "it" / "trials").exists()


BLOCKS = {
    "predictions": (
        "predict", "cnn.cifar10", "synthetic", "--set", "train_size=30000", "--set",
        "test_size=100", "--out", "out.csv", "--batch", "256",
    ),
    "features": (
        "features", "compute", "efficientnet_lite0_finetune", "--dataset", "synthetic", "--set",
        "data.train_size=1500", "--set", "data.test_size=100", "--set", "preprocess.size=64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_lose_nothing_with_a_node(cluster, tmp_path, kind):
    def files(place):
        found = [*place.glob("out.csv"), *place.glob("cache/features/*.safetensors")]
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}

    homes = [tmp_path / name for name in ("whole", "cluster")]
    for home in homes:
        home.mkdir()
    command = (*BLOCKS[kind], "--device", "cpu", "--workers", "2")
    end(begin(homes[0], *command))
    node = cluster.add_node(num_cpus=1)
    process = begin(homes[1], *command, "--engine", "ray", "--address", cluster.address)

    def at_work():
        """A block is there, and two others have begun."""
        records = [
            *homes[1].glob(".out.csv.zoo/scores.json"),
            *homes[1].glob("cache/features/*.json"),
        ]
        done = any(any(json.loads(record.read_text())["blocks"]) for record in records)
        return done and len([*homes[1].rglob(".*.claim")]) == 2

    until(at_work, process)
    cluster.remove_node(node, allow_graceful=False)
    _, said = end(process)
    assert "another one goes on with its work" in said
    assert files(homes[1]) == files(homes[0]) != {}
