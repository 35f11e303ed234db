"""A trained run, a hub on loopback, and a cache and a manifest of its own for every test."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import httpcore2  # by which the client of the Hub connects
import pytest
from hub.loopback import Hub
from hub.parts import NAME, files_of, small_run

from zoo_core.publish.publish import plan
from zoo_core.runs.run import Run

# Every hub of a test has a client of its own, which reads all certificates of the machine anew.
certificates = functools.cache(httpcore2.default_ssl_context)


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ZOO_MANIFEST", str(tmp_path / "manifest.json"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(httpcore2, "default_ssl_context", certificates)
    # What our own plugins ship is no part of these tests.
    monkeypatch.setattr("zoo_core.weights.manifest.of_plugins", lambda: iter(()))
    monkeypatch.setattr("zoo_core.weights.manifest.core_manifest", lambda: tmp_path / "core.json")
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "ZOO_RUNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A trained mlp of 25,000 parameters. Nothing may be written to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("data")))
        return small_run(tmp_path_factory.mktemp("runs"), "mlp", hidden=(8,))


@pytest.fixture(scope="session")
def numpy_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same without torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("data")))
        return small_run(tmp_path_factory.mktemp("runs"), "fcn_numpy")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


@pytest.fixture
def token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HF_TOKEN", hub.token)
    return hub.token


@pytest.fixture
def online(hub: Hub, run: Run) -> Hub:
    """A hub that holds the run as org/shapes, put there without the client."""
    hub.add(NAME, files_of(plan(run, f"hf:{NAME}")))
    return hub
