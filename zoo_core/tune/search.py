"""One trial of a search: what was tried and what came of it, as one line of trials.jsonl.

A search directory: what was asked for, every trial, and what came out.

runs/tune-mlp-cifar10-20261116T101500Z/
  search.json      the plan, versions, digests and, at the end, the best trial
  trials.jsonl     one line for each trial that has ended, with its curve
  trials/007/      a trial is a run directory like any other
  best.toml        the best recipe, for zoo train --config
  report.md, pictures/   for people
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from zoo_core.io.errors import UnknownName, UsageError, ZooError, did_you_mean
from zoo_core.io.files import atomic_write
from zoo_core.runs.run import FORMAT, Directory, Run, new_run, runs_root
from zoo_core.tune.plan import SearchPlan
from zoo_core.tune.searcher import Trial


@dataclass(frozen=True)
class Search(Directory):
    kind: ClassVar[str] = "search"
    document: ClassVar[str] = "search.json"

    @property
    def trials_file(self) -> Path:
        return self.path / "trials.jsonl"

    @property
    def best_file(self) -> Path:
        return self.path / "best.toml"

    def trial_run(self, number: int) -> Run:
        return Run(self.path / "trials" / f"{number:03d}")

    def plan(self) -> SearchPlan:
        try:
            return SearchPlan.from_dict(self.read()["plan"])
        except (KeyError, TypeError) as error:
            raise ZooError(f"{self.settings_file} is damaged: {error}") from error

    def trials(self) -> dict[int, Trial]:
        """The trials that have ended, by number."""
        if not self.trials_file.exists():
            return {}
        lines = self.trials_file.read_text(encoding="utf-8").splitlines()
        try:
            found = [Trial.from_dict(json.loads(line)) for line in lines]
        except (ValueError, TypeError, KeyError) as error:
            raise ZooError(f"{self.trials_file} is damaged: {error}") from error
        return {trial.number: trial for trial in sorted(found, key=lambda trial: trial.number)}

    def append(self, trial: Trial) -> None:
        """The file is replaced as a whole: a kill leaves no half line in it."""
        text = self.trials_file.read_text(encoding="utf-8") if self.trials_file.exists() else ""
        with atomic_write(self.trials_file) as temporary:
            temporary.write_text(text + json.dumps(trial.to_dict()) + "\n", encoding="utf-8")


def new_search(root: Path, plan: SearchPlan, dataset: str, about: Mapping[str, Any]) -> Search:
    search = Search(new_run(root, f"{plan.kind}-{plan.model.rpartition('/')[2]}", dataset).path)
    head = {"format": FORMAT, "name": search.name, "status": "running"}
    search.write({**head, **about, "plan": plan.to_dict()})
    return search


def find_search(reference: str, root: Path | None, kind: str) -> Search:
    """The search that a person means: a path, a name in the runs folder, or `latest`."""
    root = runs_root(root)
    known = [Search(path.parent) for path in root.glob(f"{kind}-*/search.json")]
    known.sort(key=lambda search: search.name.rsplit("Z", 1)[0][-15:])
    if reference == "latest":
        if not known:
            raise UsageError(f"there is no {kind} in {root}", f"zoo {kind} MODEL makes one")
        return known[-1]
    for path in (root / reference, Path(reference)):
        if (path / "search.json").is_file():
            found = Search(path)
            if (made := found.plan().kind) != kind:
                raise UsageError(f"{path} is a {made}", f"zoo {made} --resume {reference}")
            return found
    hint = did_you_mean(reference, [s.name for s in known], "--runs chooses the folder")
    raise UnknownName(f"there is no {kind} {reference!r} in {root}", hint)
