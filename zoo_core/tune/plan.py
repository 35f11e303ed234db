"""Everything that decides a search, and the presets that it usually comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from zoo_core.io.errors import OptionError, did_you_mean
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import qualified_name
from zoo_core.spec.settings import choose_recipe, merge, override
from zoo_core.train.job import trainer_of
from zoo_core.tune.searcher import SEARCHERS, Grid
from zoo_core.tune.space import Axis, parse_space

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Preset:
    """A way of searching that has a name."""

    recipe: str  # of the model, that the trials start from
    settings: Mapping[str, Any]  # of the trials
    searcher: str
    trials: int
    startup: int  # trials before TPE begins to learn, drawn at random
    guess: bool  # the first of them is the recipe's own values
    prune: bool


PART = {"subset": 0.2, "validation_fraction": 0.2}

PRESETS = {
    # A fifth of the pictures, few trials, and those that cannot win end early.
    "default": Preset("default", PART, "tpe", trials=8, startup=5, guess=True, prune=True),
    # The published search to the letter. hyperopt draws its first 20 trials at random, so this one
    # is a random search, as the original was.
    "paper": Preset(
        "paper",
        {
            **PART, "optimizer": "adam", "schedule": "constant", "warmup": 0.0, "augment": (),
            "batch_size": 128, "weight_decay": 0.0, "epochs": 50, "patience": 5, "seed": 3407,
        },
        "tpe", trials=20, startup=20, guess=False, prune=False,
    ),
}  # fmt: skip
MOST_EPOCHS, PATIENCE = 50, 2  # of trials whose rate is constant


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """A search, fully decided."""

    model: str  # plugin/name
    dataset: str
    recipe: Recipe  # of the trials; the space replaces some of it
    recipe_name: str
    space: tuple[str, ...]  # as typed
    kind: str = "tune"  # or sweep: whole runs, measured on the test set too, their weights kept
    preset: str = ""
    searcher: str = "tpe"
    trials: int
    startup: int = 0
    guess: bool = False
    prune: bool = False
    workers: int = 1
    engine: str = "local"
    address: str = ""  # of a Ray cluster that runs already
    device: str = "auto"
    train: bool = False  # the best one on everything, afterwards

    def __post_init__(self) -> None:
        for name, least in (("trials", 1), ("workers", 1), ("startup", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise OptionError(f"{name} must be a whole number of at least {least}, not {value}")
        for name, allowed in (("searcher", SEARCHERS), ("engine", ENGINES)):
            if getattr(self, name) not in allowed:
                raise OptionError(
                    f"there is no {name} {getattr(self, name)!r}", f"it is: {' or '.join(allowed)}"
                )

    @property
    def lag(self) -> int:
        """How many of the trials before it a trial does not know of.

        With several workers a trial starts before its predecessors have ended. Which of them it
        knows is fixed, and not a matter of who is quicker: so the search can be repeated.
        """
        if self.searcher == "grid" and not self.prune:
            return self.trials  # nothing that it could learn from them
        return 2 * (self.workers - 1)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> SearchPlan:
        known = {spec.name for spec in fields(cls)}
        values = {name: value for name, value in document.items() if name in known}
        return cls(
            **{**values, "recipe": Recipe(**values["recipe"]), "space": tuple(values["space"])}
        )


def tune_plan(
    entry: ModelEntry,
    dataset: str,
    *,
    preset: str = "default",
    recipe: str = "",
    settings: Mapping[str, Any] | None = None,
    space: Iterable[str] = (),
    searcher: str = "",
    trials: int | None = None,
    startup: int | None = None,
    prune: bool | None = None,
    **how: Any,
) -> SearchPlan:
    """What a person left open comes from the preset, and from the model's recipe before that."""
    if preset not in PRESETS:
        known = f"it is: {' or '.join(PRESETS)}"
        raise OptionError(f"there is no preset {preset!r}", did_you_mean(preset, PRESETS, known))
    chosen = PRESETS[preset]
    name = recipe or (chosen.recipe if chosen.recipe in entry.recipes else "default")
    base = choose_recipe(entry, name)
    asked = merge(chosen.settings, settings or {})
    if preset == "default" and (settings or {}).get("schedule", base.schedule) == "constant":
        # A rate that does not fall may train too long: the validation loss says when to stop.
        # Where it falls, the recipe's number of epochs belongs to it.
        asked = {"epochs": MOST_EPOCHS, "patience": PATIENCE, **asked}
    base = override(base, asked)
    texts = tuple(space) or (_searched(entry, base),)
    axes = parse_space(texts, entry, base)
    if not base.validation_fraction:
        raise OptionError(
            "a search needs pictures to judge by, and validation_fraction is 0",
            "leave it out, or --set validation_fraction=0.2",
        )
    searcher = searcher or chosen.searcher
    count = trials if trials is not None else chosen.trials
    if searcher == "grid":
        count = min(count, len(Grid(axes))) if trials is not None else len(Grid(axes))
    return SearchPlan(
        model=qualified_name(entry), dataset=dataset, recipe=base, recipe_name=name, space=texts,
        preset=preset, searcher=searcher, trials=count,
        startup=chosen.startup if startup is None else startup, guess=chosen.guess,
        prune=chosen.prune if prune is None else prune, **how,
    )  # fmt: skip


def sweep_plan(
    entry: ModelEntry,
    dataset: str,
    *,
    recipe: str = "default",
    settings: Mapping[str, Any] | None = None,
    grid: Iterable[str],
    **how: Any,
) -> SearchPlan:
    """Whole runs, one for each combination."""
    base = override(choose_recipe(entry, recipe), settings or {})
    texts = tuple(grid)
    axes = parse_space(texts, entry, base)
    return SearchPlan(
        kind="sweep", model=qualified_name(entry), dataset=dataset, recipe=base,
        recipe_name=recipe, space=texts, searcher="grid", trials=len(Grid(axes)), **how,
    )  # fmt: skip


def axes_of(plan: SearchPlan, entry: ModelEntry) -> tuple[Axis, ...]:
    return parse_space(plan.space, entry, plan.recipe)


def _searched(entry: ModelEntry, recipe: Recipe) -> str:
    """What to vary where nobody says: the model's trainer knows it of each of its optimisers."""
    known = trainer_of(entry).optimizers
    return known.get(recipe.optimizer) or next(iter(known.values()))
