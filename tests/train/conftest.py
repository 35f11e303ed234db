"""A small training job, made without the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import zoo


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def make_job(tmp_path: Path) -> Callable[..., Any]:
    """A Job for an entry on a small synthetic dataset; keywords are recipe settings."""
    from zoo_core.data.datasets import open_dataset
    from zoo_core.runs.run import new_run
    from zoo_core.spec.settings import override
    from zoo_core.train.builder import fit_to_data
    from zoo_core.train.display import Display
    from zoo_core.train.job import Events, Job, trainer_of

    def make(entry: zoo.ModelEntry, *, display: Any = None, **settings: Any) -> Job:
        display = display or Display(quiet=True)
        small = {"epochs": 2, "batch_size": 64, "data": {"train_size": 400, "test_size": 100}}
        recipe = override(zoo.Recipe(), {**small, **settings})
        data = open_dataset("synthetic", **recipe.data)
        config, preprocess = fit_to_data(entry, recipe, data)
        with new_run(tmp_path / "runs", entry.name, data.name) as run:
            run.write({"format": 1, "status": "running"})
        return Job(
            entry, trainer_of(entry), config, data, data.parts(recipe), recipe, preprocess,
            Events(display.warn), display, "cpu", run=run,
        )  # fmt: skip

    return make


@pytest.fixture
def small_cnn() -> zoo.ModelEntry:
    options = {"channels": (8, 16), "kernel_size": 3, "hidden": 32, "dropout": 0.5}
    return replace(zoo.info("cnn"), config={**options, "batch_norm": True}, width="")


@pytest.fixture
def small_mlp() -> zoo.ModelEntry:
    return replace(zoo.info("mlp"), config={"hidden": (32,), "dropout": 0.0}, width="")
