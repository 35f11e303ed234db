"""The weights in our plugins: what they say of themselves, measured again on the real test sets."""

import functools
import subprocess
import sys

import pytest
from filelock import FileLock
from support import ROOT, environment

import zoo
from zoo_core.publish.publish import shipped
from zoo_core.use.evaluate import measure

OURS = {path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml")}
WEIGHTS = [weights for weights in shipped() if weights.distribution in OURS]
QUICK = {"mlp", "fashion_vit", "mnist_cnn2", "lenet_numpy"}  # seconds each
LARGEST, LARGEST_BODIES, LARGEST_OF_ALL = 8_000_000, 14_000_000, 40_000_000  # bytes
DATA = ROOT / ".venv" / "test-data"  # kept: it is fetched once, and goes with `make clean`


CASES = [
    pytest.param(weights, id=weights.name, marks=() if weights.model in QUICK else pytest.mark.slow)
    for weights in WEIGHTS
]


@functools.cache
def fetch(dataset):
    """Real images, once for all processes that test and for the next time."""
    DATA.mkdir(parents=True, exist_ok=True)
    with FileLock(DATA / f"{dataset}.lock"):
        done = subprocess.run(
            [sys.executable, "-m", "zoo", "data", "fetch", dataset],
            capture_output=True, text=True, timeout=500, env=environment(ZOO_CACHE=str(DATA)),
        )  # fmt: skip
    if "could not be fetched" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("weights", CASES)
def test_shipped_weights_score_what_their_manifest_says(weights, monkeypatch):
    fetch(weights.dataset)
    monkeypatch.setenv("ZOO_CACHE", str(DATA))
    figures = measure(zoo.load(weights.name), weights.dataset, {}, {})
    assert figures["accuracy"] == pytest.approx(weights.metrics["test_accuracy"], abs=0.001)


def test_shipped_weights_are_small_and_licensed():
    assert WEIGHTS
    assert max(weights.bytes for weights in WEIGHTS) <= LARGEST
    bodies = sum(path.stat().st_size for path in ROOT.glob("plugins/*-weights/*/*.safetensors"))
    assert 0 < bodies <= LARGEST_BODIES
    assert sum(weights.bytes for weights in WEIGHTS) + bodies <= LARGEST_OF_ALL
    assert all(weights.license for weights in WEIGHTS)
