"""Features that a training of a frozen model would need, computed here or by an engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zoo import Job, Resources, UsageError
from zoo.kit import (
    Display,
    Reporting,
    build_job,
    cache_dir,
    check_shared,
    choose_recipe,
    fill_together,
    lasting,
    named_or,
    open_data,
    open_display,
    open_engine,
    override,
    registry,
)


def compute_features(
    model: str,
    dataset: str = "",
    *,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    quiet: bool = False,
    workers: int = 1,
    engine: str = "local",
    address: str = "",
    resources: Mapping[str, float] | None = None,
    retries: int = 3,
) -> list[Path]:
    """Compute the features that a training of a frozen model would need; the files in the cache.

    model, dataset, settings: as for `train`. Features in the cache are not computed again. workers,
    engine, address, resources, retries: as for `tune`; workers on other machines share the cache.
    """
    if workers < 1:
        raise UsageError("workers must be at least 1")
    job = _job_of_features(open_display(quiet), model, dataset, settings, device)
    if workers > 1 or engine != "local":
        given = model, lasting(named_or(dataset, job.entry.dataset)), settings, device
        train, test = job.dataset.train, job.dataset.test or ()
        images = len(train) * len({"plain", *job.recipe.augment}) + len(test)
        how = {"resources": Resources.of(resources), "retries": retries}
        what = f"{__name__}:compute_piece", given, cache_dir("features") / "workers"
        fill_together(open_engine(engine, workers, address), *what, how, "computing", images)
    return list(job.trainer.prepare(job))


def compute_piece(given: Any, arrays: Any, report: Callable[[int], None]) -> None:
    """A piece of work of an engine: compute blocks of features until none is left."""
    what, mark = given
    check_shared(mark)
    os.environ["ZOO_CACHE"] = str(mark.parent.parent)  # of whoever waits
    job = _job_of_features(Reporting(report), *what)
    job.trainer.prepare(job)


def _job_of_features(
    display: Display, model: str, dataset: Any, settings: Mapping[str, Any] | None, device: str
) -> Job:
    entry = registry().models.get(model)
    if "backbone" not in entry.capabilities:
        able = [one.name for one in registry().models if "backbone" in one.capabilities]
        raise UsageError(f"model {model!r} has no frozen backbone", f"these do: {', '.join(able)}")
    recipe = override(choose_recipe(entry, "default"), settings or {})
    data, recipe = open_data(entry, recipe, named_or(dataset, entry.dataset), display.say)
    return build_job(entry, recipe, data, display, device=device)
