"""What `zoo tune` and `zoo sweep` are from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo_tune.tuning import SearchResult, search


def tune(
    model: str,
    /,
    dataset: str = "",
    *,
    preset: str = "default",
    space: Mapping[str, Any] | Sequence[str] = (),
    train: bool = False,
    trials: int | None = None,
    at: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    runs: str | Path | None = None,
    quiet: bool = False,
    searcher: str = "",
    startup: int | None = None,
    prune: bool | None = None,
    recipe: str = "",
    workers: int = 1,
    engine: str = "local",
    address: str = "",
    resources: Mapping[str, float] | None = None,
    retries: int = 3,
    storage: str | Path = "",
    device: str = "auto",
    name: str = "",
    **changes: Any,
) -> SearchResult:
    """Search for the settings that train a model best, and train with them where `train` is True.

        found = zoo.tune("cnn", space={"lr": "log:1e-4:1e-2", "batch_size": [64, 128]}, trials=20)
        found.best.parameters, found.recipe, found.path

    space: a range, "log:LOW:HIGH" or "uniform:LOW:HIGH", or a list of values for each setting; the
    learning rate where nothing is said. changes, settings: those of all trials, as for `train`;
    the training with the best uses everything, whatever subset the trials had. docs/search.md
    explains the rest. at: settings of the trials alone. name: of its folder; the same call goes on
    with a search that was stopped.
    """
    return search(
        kind="tune", name=name, model=model, dataset=dataset, preset=preset, space=space,
        train=train, trials=trials, settings={**(settings or {}), **changes}, at=at or {},
        runs=runs,
        quiet=quiet, searcher=searcher, startup=startup, prune=prune, recipe=recipe,
        workers=workers, engine=engine, address=address, resources=resources or {}, device=device,
        retries=retries, storage=storage,
    )  # fmt: skip


def sweep(
    model: str,
    /,
    dataset: str = "",
    *,
    grid: Mapping[str, Sequence[Any]],
    recipe: str = "",
    settings: Mapping[str, Any] | None = None,
    runs: str | Path | None = None,
    quiet: bool = False,
    workers: int = 1,
    engine: str = "local",
    address: str = "",
    resources: Mapping[str, float] | None = None,
    retries: int = 3,
    storage: str | Path = "",
    device: str = "auto",
    name: str = "",
    **changes: Any,
) -> SearchResult:
    """Train a model with every combination of some settings; a run that fails is a row as well.

    `found = zoo.sweep("cnn", grid={"lr": [1e-3, 1e-2], "optimizer": ["adam", "sgd"]}, epochs=3)`
    """
    return search(
        kind="sweep", name=name, model=model, dataset=dataset, space=grid, recipe=recipe, runs=runs,
        settings={**(settings or {}), **changes}, quiet=quiet, workers=workers, engine=engine,
        address=address, resources=resources or {}, device=device, retries=retries, storage=storage,
    )  # fmt: skip
