"""Everything that pages show and that must be computed: once for each model, and kept."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import zoo
from zoo import kit
from zoo_web.parts import Parts
from zoo_web.subjects import Subject


@dataclass
class Computed:
    """What is known of one model. A part that could not be made is None, with the reason."""

    parts: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)  # folder of each part that was made


def wanted(subject: Subject) -> list[str]:
    """The parts that a model of this sort has."""
    return ["onnx", "measured", "explained"] * subject.classifies + ["walk"] * subject.draws


def compute(subject: Subject, only: list[str] | None = None) -> Computed:
    """Make what is missing. What fails is told on the page, and tried again the next time."""
    maker, found = Maker(subject), Computed()
    parts = Parts(subject.key(), MAKERS)
    for name in wanted(subject) if only is None else only:
        make: Callable[[Path], Mapping[str, Any]] = getattr(maker, name)
        try:
            if parts.known(name) is None:
                kit.say(f"{subject.title}: {WORDS[name]}")
            found.parts[name] = parts.part(name, make)
            found.files[name] = parts.path(name)
        except zoo.Interrupted:
            raise
        except Exception as error:  # of a stranger's model too: its page says so
            why = kit.describe(error)
            if isinstance(error, zoo.ZooError):  # a sentence already
                why = " ".join(str(error).split())
            if why not in found.problems.values():
                kit.warn(f"{subject.title}: {WORDS[name]} failed: {why}")
            found.parts[name], found.problems[name] = None, why
    return found


WORDS = {
    "onnx": "writing the file that pages compute with",
    "measured": "measuring on the test set",
    "explained": "explaining a few answers",
    "walk": "drawing samples",
}
MAKERS = {"onnx": "exported", "measured": "measured", "explained": "drawn", "walk": "drawn"}


class Maker:
    """A model and its data, opened when the first part needs them."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    @cached_property
    def model(self) -> Any:
        return zoo.load(self.subject.reference)

    @cached_property
    def data(self) -> zoo.Dataset:
        place = self.subject.located
        fit = self.model.zoo.preprocess.fit
        return zoo.open_dataset(place.dataset, place.data_options, fit=fit)

    def onnx(self, folder: Path) -> Mapping[str, Any]:
        from zoo_web.exported import export

        return export(self.model, folder)

    def measured(self, folder: Path) -> Mapping[str, Any]:
        from zoo_web.measured import measure

        return measure(self.model, self.data, folder, self.subject.title)

    def explained(self, folder: Path) -> Mapping[str, Any]:
        from zoo_web.drawn import explanations

        return explanations(self.model, self.data, folder)

    def walk(self, folder: Path) -> Mapping[str, Any]:
        from zoo_web.drawn import walk

        sampler, _ = kit.load_sampler(self.subject.reference)
        return walk(sampler, folder)


def copied(source: Path, target: Path) -> None:
    """A file of a part, in the site."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
