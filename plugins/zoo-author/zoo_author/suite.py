"""Which checks there are for a plugin, and a process of its own that makes them: `python -m
zoo_author.suite PLUGIN [OPTION=VALUE ...]` prints a line of JSON for each."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from zoo.kit import describe, load_plugins, parse_settings, registry, resolve, trainer_of
from zoo.testing import Finding
from zoo_author import checks, models

# After a finding, checks that depend on it would say the same once more: they are left out.
DECISIVE = {"targets", "wheel", "contents"}  # for all others
NEEDED = {"build", "shapes"}  # for all others of the same entry
NEEDS = {
    "round_trip": {"determinism"},
    "learning": {"gradients", "determinism", "round_trip"},
    "training": {"recipes", "task", "gradients", "learning", "determinism", "round_trip", "meta"},
    "honours": {"recipes", "training"},
}


@dataclass(frozen=True)
class Check:
    """One check of one thing. Call it: it raises a Finding where the promise is not kept."""

    of: str  # the package, the plugin, or one of its entries
    name: str
    call: Callable[[], None]

    @classmethod
    def by(cls, function: Callable[..., None], of: str, *given: Any, **options: Any) -> Check:
        """The check that `check_NAME(*given, **options)` makes."""
        name = function.__name__.removeprefix("check_")
        return cls(of, name, partial(function, *given, **options))

    def __call__(self) -> None:
        self.call()

    def __str__(self) -> str:
        return f"{self.of}-{self.name}"


@dataclass(frozen=True)
class Outcome:
    """How a check ended, for JSON."""

    of: str
    check: str
    state: str  # "ok", "found" or "skipped"
    what: str = ""
    why: str = ""
    fix: str = ""
    seconds: float = 0.0


def checks_of(name: str, **options: Any) -> list[Check]:
    """All checks of a plugin, by its id, or of one model, `plugin/model`.

    options: for those of its models that have them, to make a large model small: `depth=2`.
    """
    plugin, _, model = name.partition("/")
    made = [Check.by(checks.check_loads, plugin, plugin)]
    try:
        checks.check_loads(plugin)
    except Finding:
        return made  # there is nothing else to look at
    record = checks.record_of(plugin)
    made += [Check.by(check, plugin, record) for check in checks.RECORD_CHECKS]
    entries, datasets = record.entries("models"), record.entries("datasets")
    if model:
        made, entries, datasets = [], (registry().models.get(name),), ()
    trainers = [entry.name for entry in record.entries("trainers")]
    own = {entry.trainer: entry for entry in reversed(entries) if entry.trainer in trainers}
    for entry in entries:
        known = {key: value for key, value in options.items() if key in entry.options}
        target = ""
        with suppress(Exception):  # check_targets says so
            target = "" if entry.own_task else trainer_of(entry).checks
        for check in (
            models.check_build,
            models.check_ranges,
            models.check_shapes,
            models.check_parameters,
            models.check_recipes,
            *(resolve(target, f"checking {entry.name!r}") if target else ()),
            models.check_capabilities,
            *([models.check_generation] if "generate" in entry.capabilities else []),
            *([models.check_task] if entry.own_task else []),
            models.check_training,
            *([models.check_honours] if entry is own.get(entry.trainer) else []),
        ):
            made.append(Check.by(check, entry.name, f"{plugin}/{entry.name}", **known))
    made += [Check(d.name, "arrays", partial(checks.check_dataset, d.name)) for d in datasets]
    words = record.entries("augmentations") if not model else ()
    made += [Check.by(checks.check_augmentation, w.name, plugin, w.example) for w in words]
    commands = [entry.name for entry in record.entries("commands")]
    return made + [Check.by(checks.check_command, name, f"{plugin}/{name}") for name in commands]


def outcomes(made: Iterable[Check]) -> Iterator[Outcome]:
    """Make checks, one after the other. A check that breaks is a finding as well."""
    found: dict[str, set[str]] = {}  # by entry: the checks that found something
    for check in made:
        if found.setdefault(check.of, set()) & (NEEDED | NEEDS.get(check.name, set())):
            continue
        started = time.perf_counter()
        state, said = "ok", ("", "", "")
        try:
            check()
        except checks.Skipped as skipped:
            state, said = "skipped", (str(skipped), "", "")
        except Finding as finding:
            state, said = "found", (finding.what, finding.why, finding.fix)
        except Exception as error:
            why = "what it looks at cannot be used as the zoo uses it"
            state, said = (
                "found",
                (f"it raised {describe(error)}".rstrip("."), why, "correct that first"),
            )
        seconds = round(time.perf_counter() - started, 3)
        yield Outcome(check.of, check.name, state, *said, seconds=seconds)
        if state == "found":
            found[check.of].add(check.name)
            if check.name in DECISIVE:
                return


def main() -> None:
    plugin, *given = sys.argv[1:]
    records = [record for record in load_plugins().records if record.id == plugin]
    entries = [entry for record in records for entry in record.entries("models")]
    options: dict[str, Any] = {}
    for text in given:  # OPTION=VALUE has the type that the option has in one of the models
        having = [entry for entry in entries if text.partition("=")[0] in entry.options]
        options |= parse_settings([f"model.{text}"], having[0])["model"] if having else {}
    output = sys.stdout
    sys.stdout = sys.stderr  # what models print must not mix with the lines
    for outcome in outcomes(checks_of(plugin, **options)):
        print(json.dumps(asdict(outcome)), file=output, flush=True)


if __name__ == "__main__":
    main()
