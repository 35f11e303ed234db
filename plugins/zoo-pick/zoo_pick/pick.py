"""From somebody's images to a model for them: looks, lets all members race, recommends."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import zoo
from zoo import kit
from zoo_pick.contest import Contest, begun, opened, recorded
from zoo_pick.race import Candidate, Limits, Race, Record
from zoo_pick.verdict import (
    final_settings,
    named,
    ranked,
    recommendation,
    rows,
    table,
    write_recipe,
    write_report,
)

UNITS = {"s": 1, "m": 60, "h": 3600}
LEAST = 20.0  # seconds of a budget
JUDGES = 2000  # images that judge, at most: more tell little more
SHARE = 0.2  # of the training images, where that is fewer
LEARN = 20  # images of which at least so many must be left
RECIPES = ("default", "few_images", "finetune")  # that try; others repeat a figure, say
SET = ("subset", "validation_fraction", "seed")
WORDS = {"class": "one class", "classes": "any number of classes", "numbers": "numbers"}


@dataclass(frozen=True, repr=False)
class Picked:
    """What `zoo.pick` found."""

    path: Path  # its folder
    race: Race
    document: Mapping[str, Any]  # pick.json
    left_out: Mapping[str, str]  # model or candidate -> reason
    trained: Any = None  # the zoo.train result, where it was asked for

    def __repr__(self) -> str:
        best = self.best
        return f"Picked({self.path}: {best.candidate if best else 'nothing'})"

    @property
    def best(self) -> Record | None:
        """The training that is recommended."""
        return next(iter(ranked(self.race)), None)

    @property
    def model(self) -> str:
        """The name of the recommended model; "" where there is none."""
        return self.best.candidate.partition(":")[0] if self.best else ""

    @property
    def recipe(self) -> Path:
        """The file for `zoo train --config`."""
        return self.path / "best.toml"

    @property
    def recommendation(self) -> str:
        return recommendation(self)

    def to_dict(self) -> dict[str, Any]:
        return {
            "pick": self.path,
            "recommended": self.model or None,
            "recommendation": self.recommendation,
            "recipe": self.recipe if self.best else None,
            "images": self.document["images"],
            "seconds": self.document["spent"],
            "candidates": rows(self.race),
            "left_out": dict(self.left_out),
            "trained": self.trained.path if self.trained else None,
        }

    def _repr_html_(self) -> str:
        from zoo_pick.drawing import draw_front

        columns, lines = table(self.race)
        shown: list[Sequence[object]] = [columns, *lines]
        return kit.notebook_html(
            self.recommendation, shown, lambda path: draw_front(self, path), "error against cost"
        )


def pick(
    dataset: Any,
    *,
    budget: str | float = "20m",
    max_ms: float = math.inf,
    max_mb: float = math.inf,
    models: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    train: bool = False,
    name: str = "",
    runs: str | Path | None = None,
    device: str = "auto",
    quiet: bool = False,
    workers: int = 1,
    engine: str = "local",
    address: str = "",
    resources: Mapping[str, float] | None = None,
    retries: int = 3,
) -> Picked:
    """Choose a model for a dataset among all that are installed, within a budget of time.

        found = zoo.pick("./my_photos", budget="20m", max_ms=5)
        found.recommendation, found.model, found.recipe

    budget: seconds, or a text as "20m"; a training afterwards (`train`) is not part of it. max_ms,
    max_mb: what the model may take for an image, and weigh. models: only these; "cnn:paper" names
    the recipe too. settings: subset, validation_fraction, seed, and those of the data,
    `{"data": {...}}`. name: of the folder; the same call goes on with a pick that was stopped.
    workers, engine, address, resources, retries: as for `zoo.tune`.
    """
    seconds, settings = parse_budget(budget), checked(settings or {})
    if workers < 1:
        raise zoo.UsageError("workers must be at least 1")
    say: Callable[[str], None] = (lambda _: None) if quiet else kit.say
    root, started = kit.runs_root(Path(runs) if runs else None), time.monotonic()
    facts, candidates, left_out = look(dataset, settings, models)
    asked = {name: facts[name] for name in ("reference", "digest")}
    asked |= {"settings": settings, "models": [*models]}
    with opened(root, name, facts["name"]) as folder:
        document = {**facts, **begun(folder, asked), "budget": seconds, "status": "running"}
        race = Race(candidates, facts["images"]["learn"], seconds, Limits(max_ms, max_mb), workers)
        race.records.extend(recorded(folder / "trials.jsonl"))
        contest = Contest(folder, race, document, settings, device, say, started, retries)
        say(f"{folder}\n{_told(facts, candidates, left_out)}")
        contest.run(engine, workers, address, resources)
        left_out = {**left_out, **contest.left_out()}
        found = Picked(folder, race, document, left_out)
        if found.best:
            write_recipe(found)
        document["status"] = "complete"
        contest.save()
        write_report(found)
        if train and found.best:
            found = replace(found, trained=_train(found, root, device, quiet, say))
        return found


def parse_budget(budget: str | float) -> float:
    """Seconds of "90s", "20m", "1.5h"."""
    text = str(budget).strip().lower()
    given = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text)
    if not given or (not given[2] and isinstance(budget, str)):
        raise zoo.UsageError(f"a budget cannot be {budget!r}", "write 90s, 20m or 1h")
    seconds = float(given[1]) * UNITS.get(given[2], 1)
    if seconds < LEAST:
        raise zoo.UsageError(f"a budget of {budget} is too short", f"give at least {LEAST:.0f}s")
    return seconds


def checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Only what holds for every model."""
    for name in settings:
        if name not in (*SET, "data"):
            known = f"a pick sets {', '.join(SET)} and data.NAME; zoo tune searches the rest"
            raise zoo.UsageError(f"{name} is not the same for all models", known)
    zoo.Recipe(**settings)
    return dict(settings)


def look(
    dataset: Any, settings: Mapping[str, Any], models: Sequence[str]
) -> tuple[dict[str, Any], list[Candidate], dict[str, str]]:
    """What the data is, who may try, and who cannot and why."""
    if not isinstance(dataset, str | Path):
        what = f"{type(dataset).__name__} is an object of this program, which others cannot open"
        raise zoo.UsageError(what, "save the images to a file or folder, and give its path")
    data = zoo.open_dataset(dataset, settings.get("data", {}))
    if data.train.labels is None:
        raise zoo.DataError(
            f"{data.name} has no labels", "put the images of each class in a folder"
        )
    subset = zoo.Recipe(subset=settings.get("subset", 1.0), seed=settings.get("seed", 0))
    images = len(data.parts(subset)[0])
    fraction = settings.get("validation_fraction") or min(SHARE, JUDGES / max(images, 1))
    whole = replace(subset, validation_fraction=fraction)
    learn, judge = (len(part) for part in data.parts(whole))
    if learn < LEARN or not judge:
        raise zoo.DataError(f"{images} images are too few to choose by", "add images")
    size = data.train.images.shape
    facts = {
        "name": data.name, "reference": data.reference, "digest": data.digest,
        "targets": data.targets.kind, "classes": len(data.classes), "size": [*size[1:3]],
        "channels": size[3], "images": {"learn": learn, "judge": judge, "all": len(data.train)},
        "validation_fraction": fraction,
    }  # fmt: skip
    left_out: dict[str, str] = {}
    candidates: list[tuple[tuple[bool, int], Candidate]] = []
    for name in models or zoo.list_models():
        label, colon, recipe = name.partition(":")
        entry = zoo.info(label)
        if "classification" not in entry.kinds:
            left_out[name] = f"it does {' and '.join(entry.kinds)}, not {_task(facts)}"
            continue
        if colon and recipe not in entry.recipes:
            hint = kit.did_you_mean(recipe, entry.recipes, f"it has: {', '.join(entry.recipes)}")
            raise zoo.OptionError(f"model {label!r} has no recipe {recipe!r}", hint)
        qualified = f"{entry.provider.plugin}/{entry.name}" if entry.provider else entry.name
        frozen, size_ = "backbone" in entry.capabilities, entry.total_parameters or 10**10
        for one in [recipe] if colon else [one for one in RECIPES if one in entry.recipes]:
            shown, planned = label if one == "default" else f"{label}:{one}", entry.recipes[one]
            made = Candidate(shown, qualified, one, planned, entry.trainer)
            candidates.append(((not frozen, size_), made))
    # Frozen backbones first, the small ones first: they cost little, and often win.
    found = [made for _, made in sorted(candidates, key=lambda pair: pair[0])]
    if not found:
        raise zoo.UsageError(f"no installed model does {_task(facts)}", "zoo list shows them")
    return facts, found, left_out


def _task(facts: Mapping[str, Any]) -> str:
    kinds = {"class": "classification", "classes": "multilabel", "numbers": "regression"}
    return kinds[facts["targets"]]


def _told(
    facts: Mapping[str, Any], candidates: Sequence[Candidate], left_out: Mapping[str, str]
) -> str:
    images, models = facts["images"], {candidate.model for candidate in candidates}
    labels = f"{facts['classes']} classes" if facts["classes"] else WORDS[facts["targets"]]
    return (
        f"{facts['name']}: {images['learn']:,} images to learn from and {images['judge']:,} to "
        f"judge by, {labels}, {' x '.join(map(str, facts['size']))} pixels, {facts['channels']} "
        f"channel{'s' * (facts['channels'] != 1)}. Models that try: {len(models)}, with "
        f"{len(candidates)} recipes; that cannot: {len(left_out)}."
    )


def _train(found: Picked, root: Path, device: str, quiet: bool, say: Callable[[str], None]) -> Any:
    """The recommended model, on everything."""
    best = found.best
    assert best is not None
    candidate = named(found.race, best.candidate)
    say(f"Training {candidate.name} on everything.")
    return zoo.train(
        candidate.model, found.document["reference"], recipe=candidate.recipe,
        settings=final_settings(found), device=device, runs=root, quiet=quiet,
        name=f"{found.path.name}-trained",
    )  # fmt: skip
