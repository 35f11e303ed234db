"""A Ray of two nodes on this machine, one of which is taken away in the middle of the work."""

import hashlib
import json
import os
import subprocess
import sys
import time

import pytest
import ray
from ray.cluster_utils import Cluster

pytestmark = pytest.mark.slow
DEADLINE = 900  # seconds, so that a test that hangs fails
SEARCH = (
    "tune", "mlp", "--dataset", "synthetic", "--set", "data.train_size=400", "--set",
    "data.test_size=50", "--set", "model.hidden=16", "--epochs", "40", "--set",
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


def test_a_trial_whose_node_is_taken_away_goes_on_from_its_checkpoint_on_another(cluster, tmp_path):
    whole, _ = end(begin(tmp_path, *SEARCH, "--runs", "local"))
    node, storage = cluster.add_node(num_cpus=1), tmp_path / "storage"
    storage.mkdir()
    process = begin(
        tmp_path, *SEARCH, "--engine", "ray", "--address", cluster.address, "--storage", storage
    )

    def both():
        """The lines of two trials, both in the middle; one of them is on the node."""
        files = sorted(storage.glob("it/trials/*/metrics.jsonl"))
        lines = {file: file.read_text().splitlines(keepends=True) for file in files}
        atwork = len(lines) == 2 and all(3 < len(some) < 35 for some in lines.values())
        return lines if atwork else None

    before = until(both, process)
    cluster.remove_node(node, allow_graceful=False)
    printed, said = end(process)
    assert "another one goes on with its work" in said
    assert trials(json.loads(printed)) == trials(json.loads(whole))
    for file, lines in before.items():  # with the seconds of each: none of them was done again
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
