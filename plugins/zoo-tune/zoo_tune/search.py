"""A search or a sweep: what a person asks for, what is decided, and the directory that keeps it.

docs/search.md describes the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import Engine, ModelEntry, OptionError, Recipe, Resources, ZooError
from zoo.kit import (
    FORMAT,
    Displayed,
    SearchFolder,
    asked,
    atomic_write,
    choose_recipe,
    describe,
    did_you_mean,
    final_scores,
    freeze,
    honoured,
    lasting,
    merge,
    named_or,
    number,
    open_engine,
    override,
    qualified_name,
    registry,
    trainer_of,
)
from zoo_tune.space import SHARED, Axis, as_settings, axis_texts, grid_size, parse_space

if TYPE_CHECKING:
    from zoo.kit import Report
    from zoo_tune.report import SearchFacts
    from zoo_tune.tuning import SearchResult

SEARCHERS = ("tpe", "random", "grid")
# The results do not depend on them.
CIRCUMSTANCES = ("engine", "address", "resources", "retries", "storage", "device")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is asked of a search and decided about it in the same words."""

    kind: str = "tune"  # or sweep: whole runs, measured on the test set too, their weights kept
    model: str = ""  # decided: plugin/name
    dataset: str = ""  # decided: a reference that means the same in other folders
    preset: str = "default"  # decided: "" for a sweep
    workers: int = 1
    engine: str = "local"  # one of zoo list --engines
    address: str = ""  # of a cluster, for an engine that has one
    resources: Mapping[str, float] = field(default_factory=dict)  # of a trial: cpus, gpus, memory
    retries: int = 3  # of a trial whose worker dies
    storage: str = ""  # a folder that all workers reach, for the trials; "": that of the search
    device: str = "auto"
    train: bool = False  # the best one on everything, afterwards
    kept: tuple[str, ...] = ()  # settings of the trials that hold for that training too
    at: Mapping[str, Any] = field(default_factory=dict)  # settings of the trials alone


@dataclass(frozen=True, kw_only=True)
class SearchSettings(Terms):
    """Everything that a person can ask of a search or a sweep; the preset decides what is open."""

    recipe: str = ""  # of the model, that the trials start from
    settings: Mapping[str, Any] = field(default_factory=dict)  # of all trials, for `override`
    space: Mapping[str, Any] | Iterable[str] = ()  # of a sweep its grid; as axis_texts takes it
    searcher: str = ""  # one of SEARCHERS
    trials: int | None = None
    startup: int | None = None  # trials before TPE begins to learn, drawn at random
    prune: bool | None = None
    resume: str = ""  # go on with this search: a path, a name or latest
    name: str = ""  # of the search: goes on with it where it has begun
    runs: Path | None = None
    quiet: bool = False
    checkpoint_seconds: float = 30.0
    command: str = ""  # how it was started, for search.json
    report: bool = True


PART = {"subset": 0.2, "validation_fraction": 0.2}
PRESETS = {
    # A fifth of the images, few trials, and those that cannot win end early.
    "default": SearchSettings(
        settings=PART, searcher="tpe", trials=8, startup=5, prune=True
    ),
    # The published search to the letter. hyperopt draws its first 20 trials at random, so this one
    # is a random search, as the original was.
    "paper": SearchSettings(
        recipe="paper",
        settings={
            **PART, "optimizer": "adam", "schedule": "constant", "warmup": 0.0, "augment": (),
            "batch_size": 128, "weight_decay": 0.0, "epochs": 50, "patience": 5, "seed": 3407,
        },
        searcher="tpe", trials=20, startup=20, prune=False,
    ),
}  # fmt: skip
SWEEP = SearchSettings(searcher="grid", startup=0, prune=False)
MOST_EPOCHS, PATIENCE = 50, 2  # of trials whose rate is constant


@dataclass(frozen=True, kw_only=True)
class SearchPlan(Terms):
    """A search, fully decided; search.json keeps all of it but the axes."""

    recipe: Recipe  # of the trials; the space replaces some of it
    recipe_name: str
    space: tuple[str, ...]  # as typed
    axes: tuple[Axis, ...]  # the space, parsed
    searcher: str = "tpe"
    trials: int
    startup: int = 0
    guess: bool = False  # the recipe's own values are the first trial
    prune: bool = False

    def __post_init__(self) -> None:
        for name, least in (("trials", 1), ("workers", 1), ("startup", 0), ("retries", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise OptionError(f"{name} must be a whole number of at least {least}, not {value}")
        if self.searcher not in SEARCHERS:
            known = " or ".join(SEARCHERS)
            raise OptionError(f"there is no searcher {self.searcher!r}", f"it is: {known}")
        Resources.of(self.resources)

    @property
    def entry(self) -> ModelEntry:
        return registry().models.get(self.model)

    def tried(self, parameters: Mapping[str, Any]) -> Recipe:
        """The recipe of a trial."""
        return override(override(self.recipe, self.at), as_settings(parameters))

    def make_engine(self) -> Engine:
        """Where the trials run."""
        made: Engine = open_engine(self.engine, self.workers, self.address)
        return made

    @property
    def repeats(self) -> bool:
        """Whether it is one training with several seeds, of which none is the best."""
        return self.kind == "sweep" and all(axis.name == "seed" for axis in self.axes)

    @property
    def chooses(self) -> bool:
        """Whether it names a best one: by validation images, never by the test set."""
        return not self.repeats and bool(self.recipe.validation_fraction)

    @property
    def lag(self) -> int:
        """How many of the trials before it a trial ignores: fixed, so a search can be repeated.

        Twice the other workers: while one trial is slow, each of them can do two more.
        """
        if self.searcher == "grid" and not self.prune:
            return self.trials  # nothing that it could learn from them
        return 2 * (self.workers - 1)

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "axes"}

    def asked(self) -> dict[str, Any]:
        """What the results depend on, by the names that one types; search.json keeps it."""
        left_out = ("recipe", "recipe_name", *CIRCUMSTANCES)
        terms = {name: value for name, value in self.to_dict().items() if name not in left_out}
        return {**json.loads(json.dumps(terms)), **asked(asdict(self.recipe))}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> SearchPlan:
        known = {spec.name for spec in fields(cls)}
        values = {name: value for name, value in document.items() if name in known}
        recipe, space = Recipe(**values.pop("recipe")), tuple(values.pop("space"))
        values["kept"] = tuple(values.get("kept", ()))
        axes = parse_space(space, registry().models.get(values["model"]), recipe)
        return cls(**values, recipe=recipe, space=space, axes=axes)


def decide(asked: SearchSettings) -> SearchPlan:
    """What a person left open comes from the preset, and from the model's recipe before that."""
    entry = registry().models.get(asked.model)
    sweep = asked.kind == "sweep"
    if asked.preset not in PRESETS:
        known = f"it is: {' or '.join(PRESETS)}"
        hint = did_you_mean(asked.preset, PRESETS, known)
        raise OptionError(f"there is no preset {asked.preset!r}", hint)
    preset = SWEEP if sweep else PRESETS[asked.preset]
    trainer = trainer_of(entry)
    recipe_name = asked.recipe or (preset.recipe if preset.recipe in entry.recipes else "")
    recipe_name = recipe_name or trainer.default_recipe(entry, asked.settings)
    recipe = choose_recipe(entry, recipe_name)
    settings = merge(preset.settings, asked.settings)
    if preset is PRESETS["default"] and settings.get("schedule", recipe.schedule) == "constant":
        # A rate that does not fall may train too long: the validation loss says when to stop.
        # Where it falls, the recipe's number of epochs belongs to it.
        settings = {"epochs": MOST_EPOCHS, "patience": PATIENCE, **settings}
    used, ranges = honoured(trainer), trainer.optimizers
    # What nobody asked for, the epochs of the preset say, is left out where it changes nothing.
    settings = {k: v for k, v in settings.items() if k in asked.settings or k in used}
    recipe = override(recipe, settings)
    space = axis_texts(asked.space, grid=sweep)
    if not space and not sweep:  # the model's trainer knows what to vary with each optimiser
        if "optimizer" not in used or not ranges:
            raise OptionError(
                f"the trainer of model {entry.name!r}, {entry.trainer}, has no optimizer: "
                "say what the search varies",
                f"for example: zoo tune {entry.name} --space "
                + next((f"model.{o}=choice:A,B,C" for o in entry.config), "NAME=choice:A,B,C"),
            )
        space = (ranges.get(recipe.optimizer) or next(iter(ranges.values())),)
    axes = parse_space(space, entry, recipe)
    _check_at(asked.at, recipe, axes)
    if not sweep and not recipe.validation_fraction:
        raise OptionError(
            "a search needs validation images, and validation_fraction is 0",
            "leave it out, or --set validation_fraction=0.2",
        )
    terms: dict[str, Any] = {spec.name: getattr(asked, spec.name) for spec in fields(Terms)}
    for name in ("searcher", "trials", "startup", "prune"):
        given = getattr(asked, name)
        terms[name] = getattr(preset, name) if given in (None, "") else given
    choices = not sweep and all(axis.kind == "choice" for axis in axes)
    if choices and not asked.searcher and grid_size(axes) <= terms["trials"]:
        terms["searcher"] = "grid"  # the others draw some combinations twice
    if terms["searcher"] == "grid":
        size = grid_size(axes)
        terms["trials"] = size if asked.trials is None else min(size, asked.trials)
    terms |= {
        "model": qualified_name(entry),
        "dataset": lasting(named_or(asked.dataset, entry.dataset)),
        "preset": "" if sweep else asked.preset,
        "guess": preset is PRESETS["default"],
    }
    return SearchPlan(recipe=recipe, recipe_name=recipe_name, space=space, axes=axes, **terms)


def _check_at(at: Mapping[str, Any], recipe: Recipe, axes: Sequence[Axis]) -> None:
    """Settings of the trials alone must leave the images and what is searched as they are."""
    override(recipe, at)
    for axis in axes:
        section, dot, option = axis.name.partition(".")
        if option in at.get(section, ()) if dot else section in at:
            what = f"--at {axis.name} contradicts the search, which varies it"
            raise OptionError(what, "leave it out of one of them")
    for name in SHARED:
        if name in at:
            what = (
                f"--at {name} cannot hold for the trials alone: it decides which images there are"
            )
            raise OptionError(what, "set it for all, with --set")


CHANCE = 1.5  # times a blind guess: a classifier below that has learnt nothing
Lines = Sequence[Mapping[str, Any]]  # of metrics.jsonl


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What was tried and what came of it: one line of trials.jsonl."""

    number: int  # from 1
    parameters: Mapping[str, Any]  # names as after --set
    source: str  # of the parameters: recipe, random, tpe or grid
    status: str  # complete, pruned or failed
    loss: float | None  # the best on the validation images; None: it failed
    epoch: int | None  # that had it
    epochs: int  # done
    seconds: float
    curve: Lines = field(repr=False)
    error: str = ""

    @property
    def losses(self) -> list[float]:
        return validation_losses(self.curve)

    @property
    def accuracy(self) -> float | None:
        """The held-out accuracy at the end."""
        split, scores = last_scores(self.curve)
        return None if split == "train" else number(scores.get("accuracy"))

    def collapsed(self, classes: int) -> bool:
        """Whether it ended, and knows no more than a blind guess."""
        if self.status == "failed" or self.accuracy is None:
            return False
        return classes > 0 and self.accuracy * classes < CHANCE


def validation_losses(lines: Lines) -> list[float]:
    return [line["validation_loss"] for line in lines if "validation_loss" in line]


def last_scores(lines: Lines) -> tuple[str, Mapping[str, Any]]:
    """The split that trials are compared by and its last scores: test only without validation."""
    last = lines[-1] if lines else {}
    if any(key.startswith("validation_") for key in last):
        last = {key: value for key, value in last.items() if not key.startswith("test_")}
    return final_scores({}, [last])


@dataclass(frozen=True)
class Search(SearchFolder, Displayed):
    """One search directory, for those that work in it."""

    _html = "zoo_tune.report:search_html"

    def resume(self, quiet: bool = False) -> SearchResult:
        """Go on with it to its end; a complete one is given back as it is."""
        from zoo_tune.tuning import search

        return search(kind=self.plan().kind, resume=str(self.path.absolute()), quiet=quiet)

    def facts(self) -> SearchFacts:
        """All that its files say."""
        from zoo_tune.report import read_search

        return read_search(self)

    def report(self) -> Report:
        """Write its report again."""
        from zoo_tune.report import write_search_report

        return write_search_report(self)

    def plan(self) -> SearchPlan:
        try:
            return SearchPlan.from_dict(self.read()["plan"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ZooError(f"{self.settings_file} is damaged: {describe(error)}") from error

    def trials(self) -> dict[int, Trial]:
        """The trials that have ended, by number."""
        try:
            found = [Trial(**freeze(line)) for line in self.trial_lines()]
        except TypeError as error:  # a key that a trial does not have
            raise ZooError(f"{self.trials_file} is damaged: {error}") from error
        return {trial.number: trial for trial in sorted(found, key=lambda trial: trial.number)}

    def append(self, trial: Trial) -> None:
        """Replace the file as a whole: a kill leaves no half line in it."""
        text = self.trials_file.read_text(encoding="utf-8") if self.trials_file.exists() else ""
        with atomic_write(self.trials_file) as temporary:
            temporary.write_text(text + json.dumps(asdict(trial)) + "\n", encoding="utf-8")

    def begin(self, plan: SearchPlan, about: Mapping[str, Any]) -> None:
        """Write the document of a new search."""
        head = {"format": FORMAT, "name": self.name, "status": "running"}
        self.write({**head, **about, "plan": plan.to_dict()})


def open_search(path: Path) -> Search:
    """A search or a sweep by its folder: its trials, its report, and how to go on with it."""
    return Search(path)
