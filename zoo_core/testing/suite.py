"""Which checks there are for a plugin, and a process of its own that makes them.

    python -m zoo_core.testing.suite PLUGIN [OPTION=VALUE ...]

prints one line of JSON for each check. `zoo plugin check` reads them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from zoo_core.io.errors import Finding, Skipped
from zoo_core.io.targets import describe, resolve
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.plugins import load_plugins
from zoo_core.testing import models, plugins


@dataclass(frozen=True)
class Check:
    """One check of one thing. Call it: it raises a Finding where the promise is not kept."""

    of: str  # the plugin, or one of its models or datasets
    name: str
    call: Callable[[], None]

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


def checks_of(plugin: str, **options: Any) -> list[Check]:
    """All checks of an installed plugin, by its id.

    options: for those of its models that have them, to make a large model small: `depth=2`.
    """
    made = [
        Check(plugin, check.__name__.removeprefix("check_"), partial(check, plugin))
        for check in plugins.CHECKS
    ]
    record = next((r for r in load_plugins().records if r.id == plugin), None)
    if record is None or record.state != "ok":
        return made[:1]  # there is nothing else to look at
    for entry in record.models:
        made += _of_model(f"{plugin}/{entry.name}", entry, options)
    for dataset in record.datasets:
        made.append(Check(dataset.name, "arrays", partial(models.check_dataset, dataset.name)))
    return made


def _of_model(name: str, entry: ModelEntry, options: dict[str, Any]) -> list[Check]:
    known = {key: value for key, value in options.items() if key in entry.options}
    checks: tuple[Callable[..., None], ...] = (models.check_counts,)
    if (entry.framework, entry.task) == ("torch", "classification"):
        checks = resolve("zoo_core.torch.checks:CHECKS", f"checking {entry.name!r}")
    generation = (models.check_generation,) if "generate" in entry.capabilities else ()
    return [
        Check(entry.name, check.__name__.removeprefix("check_"), partial(check, name, **known))
        for check in (*checks, *generation, models.check_training)
    ]


def outcomes(plugin: str, options: dict[str, Any]) -> Iterator[Outcome]:
    """Make all checks, one after the other. A check that breaks is a finding as well."""
    for check in checks_of(plugin, **options):
        started = time.perf_counter()
        state, said = "ok", ("", "", "")
        try:
            check()
        except Skipped as skipped:
            state, said = "skipped", (str(skipped), "", "")
        except Finding as finding:
            state, said = "found", (finding.what, finding.why, finding.fix)
        except Exception as error:
            why = "what it looks at cannot be used as the zoo uses it"
            state, said = "found", (f"it raised {describe(error)}", why, "correct that first")
        yield Outcome(
            check.of, check.name, state, *said, seconds=round(time.perf_counter() - started, 3)
        )
        if (check.name, state) == ("targets", "found"):
            return  # every other check would say the same once more


def parse_options(plugin: str, given: list[str]) -> dict[str, Any]:
    """OPTION=VALUE words, each with the type that the option has in one of the models."""
    from zoo_core.spec.settings import parse_value

    known: dict[str, Any] = {}
    for record in load_plugins().records:
        for entry in record.models if record.id == plugin else ():
            known |= entry.options
    words = (text.partition("=") for text in given)
    return {key: parse_value(value, known.get(key), key) for key, _, value in words}


def main() -> None:
    plugin, *given = sys.argv[1:]
    options = parse_options(plugin, given)
    output = sys.stdout
    sys.stdout = sys.stderr  # what models print must not mix with the lines
    for outcome in outcomes(plugin, options):
        print(json.dumps(asdict(outcome)), file=output, flush=True)


if __name__ == "__main__":
    main()
