"""Two processes that need the same features: each computes a part of them."""

import hashlib
import json
import subprocess
import sys

import pytest
from features.parts import CHANNELS
from support import environment

from zoo_core.io.blocks import BLOCK

COMPUTE = """
import json, sys, time
from pathlib import Path
from zoo.testing import main
from zoo_core.io.blocks import Writer

folder, mine, others, *command = Path(sys.argv[1]), *sys.argv[2:]
commit, computed = Writer.commit, []

def told(self, block, *content):
    computed.append([self._store.id, block])
    (folder / mine).touch()
    # Neither ends a block before the other one has begun its first.
    while others != "nobody" and not (folder / others).exists():
        time.sleep(0.01)
    commit(self, block, *content)

Writer.commit = told
try:
    main(command)
except SystemExit as end:
    print(json.dumps(computed))
    sys.exit(end.code)
"""


@pytest.fixture
def compute(tmp_path, weights):
    """Begin `zoo features compute` in a process of its own, with this cache."""

    def begin(cache, mine, others):
        chosen = {
            "data.train_size": 3 * BLOCK + 9, "data.test_size": BLOCK + 1, "preprocess.size": 32,
            "model.channels": ",".join(map(str, CHANNELS)), "model.backbone_weights": weights,
        }  # fmt: skip
        words = [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
        command = ["features", "compute", "resnet18_features", "--dataset", "synthetic", *words]
        here = environment(ZOO_CACHE=str(tmp_path / cache), OMP_NUM_THREADS="1")
        return subprocess.Popen(
            [sys.executable, "-c", COMPUTE, str(tmp_path), mine, others, *command, "--quiet"],
            stdout=subprocess.PIPE, text=True, env=here,
        )  # fmt: skip

    return begin


def finished(process) -> list[tuple[str, int]]:
    printed = process.communicate(timeout=300)[0]
    assert process.returncode == 0
    return [tuple(block) for block in json.loads(printed.splitlines()[-1])]


def digests(folder) -> dict[str, str]:
    found = (folder / "features").glob("*.safetensors")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


@pytest.mark.slow
def test_two_commands_at_once_compute_each_block_once_and_the_same_bytes(compute, tmp_path):
    alone = finished(compute("alone", "one", "nobody"))
    assert len(alone) == len(set(alone)) == 4 + 2
    shares = [finished(p) for p in [compute("both", "a", "b"), compute("both", "b", "a")]]
    assert all(shares)
    assert sorted(shares[0] + shares[1]) == sorted(alone)
    assert digests(tmp_path / "both") == digests(tmp_path / "alone")
