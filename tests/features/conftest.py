"""A frozen model that is small: ResNet-18 with few channels, on images of 32 pixels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ZOO_MANIFEST", str(tmp_path / "manifest.json"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from features.parts import write_weights

    return write_weights(tmp_path_factory.mktemp("weights") / "backbone.safetensors", seed=1)


@pytest.fixture
def train(tmp_path: Path, weights: Path) -> Callable[..., Any]:
    """Train the small frozen model; keywords are recipe settings."""
    from features.parts import settings

    from zoo_core.train import runner as training

    def run(dataset: str = "synthetic", **changes: Any) -> training.Result:
        return training.train(
            "resnet18_features", dataset, settings=settings(weights, **changes),
            runs=tmp_path / "runs", quiet=True,
        )  # fmt: skip

    return run
