"""Who is shown: all trained weights, or the weights and runs that somebody names.

Reads lists, records and run.json; neither weights nor data are opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zoo
from zoo import kit

MOST_EPOCHS = 2000


@dataclass(frozen=True)
class Subject:
    """A trained model, as its page tells it before anything is computed."""

    reference: str  # for zoo.load
    slug: str  # the name of its page
    located: Any  # as zoo.kit.locate gives it
    entry: zoo.ModelEntry
    license: str
    parameters: int | None
    recipe: Mapping[str, Any]
    training: Mapping[str, Any]  # sections as in run.json; {} where there is no record
    curves: Sequence[Mapping[str, Any]]  # epochs as in metrics.jsonl; [] where there are none

    @property
    def title(self) -> str:
        return str(Path(self.reference).name)

    @property
    def typed(self) -> str:
        """What one types to use it; pages tell nobody where things are on this disk."""
        return self.title if self.located.run else self.reference

    @property
    def dataset(self) -> str:
        recorded = (self.training.get("dataset") or {}).get("name")
        return str(recorded or Path(self.located.dataset).name)

    @property
    def classifies(self) -> bool:
        targets = self.located.targets or {}
        return bool(self.located.classes) and targets.get("kind", "class") == "class"

    @property
    def draws(self) -> bool:
        return "generate" in self.entry.capabilities

    @property
    def minutes(self) -> float | None:
        """How long the training took; None where nobody wrote it down."""
        seconds = (self.training.get("result") or {}).get("seconds")
        return seconds / 60 if isinstance(seconds, int | float) and seconds > 0 else None

    @property
    def test_images(self) -> int:
        return int((self.training.get("dataset") or {}).get("test") or 0)

    def key(self) -> dict[str, Any]:
        """All that decides what is computed for it; nothing of it needs a file to be opened."""
        place, provider = self.located, self.entry.provider
        assert provider is not None
        return {
            "sha256": place.sha256,
            "model": place.model,
            "version": f"{provider.distribution} {provider.version}",
            "zoo": zoo.__version__,
            "dataset": place.dataset,
            "data": dict(place.data_options),
            "classes": list(place.classes),
            "temperature": place.temperature,
            "trained_on": (self.training.get("dataset") or {}).get("digest", ""),
        }


def subjects(references: Sequence[str] = (), runs: Path | None = None) -> list[Subject]:
    """Those that somebody names, or everything whose plugin is installed."""
    named = [_lasting(reference, runs) for reference in references]
    if not references:
        rows = zoo.list_weights()
        named = [row["reference"] for row in rows if row["here"] and not row["install"]]
    found = []
    slugs = unique(slug_of(Path(reference).name) for reference in named)
    for reference, slug in zip(named, slugs, strict=True):
        try:
            found.append(_subject(reference, slug, runs))
        except zoo.ZooError as error:
            if references:
                raise
            kit.warn(f"{reference} is left out: {error}")
    return found


def _subject(reference: str, slug: str, runs: Path | None) -> Subject:
    located = kit.locate(reference, runs)
    entry = zoo.info(located.model or reference)
    if located.run:
        run = kit.Run(located.path.parent)
        told: dict[str, Any] = dict(located.run)
        recipe, license_ = dict(told.get("recipe") or {}), ""
        curves = list(run.metrics())[-MOST_EPOCHS:]
        count = (told.get("parameters") or {}).get("total")
        return Subject(
            str(run.path), slug_of(run.name), located, entry, license_, count, recipe, told, curves
        )
    weights, beside = kit.published(reference), _record(located.path)
    if not weights:
        return Subject(reference, slug, located, entry, "", None, {}, beside, [])
    of_weights = weights.license, weights.parameters, dict(weights.recipe)
    return Subject(reference, slug, located, entry, *of_weights, beside, [])


def _lasting(reference: str, runs: Path | None) -> str:
    """The path of a run: `latest` may be another one before the site is written."""
    located = kit.locate(reference, runs)
    return str(located.path.parent) if located.run else reference


def _record(path: Path) -> dict[str, Any]:
    """What stands beside shipped weights about their training."""
    try:
        found = json.loads(path.with_suffix(".json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def slug_of(reference: str) -> str:
    """A name for files and addresses on any host."""
    return re.sub(r"[^a-z0-9._-]+", "-", reference.lower()).strip("-.") or "model"


def unique(names: Iterable[str]) -> list[str]:
    """The same names, numbered where they repeat."""
    found: list[str] = []
    for name in names:
        number, tried = 2, name
        while tried in found:
            tried, number = f"{name}-{number}", number + 1
        found.append(tried)
    return found
