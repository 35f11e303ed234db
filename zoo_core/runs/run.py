"""A run directory: what was asked for, what happened, and the weights that came out.

    runs/cnn-cifar10-20261116T101500Z/
      run.json               every setting, versions, digests and, at the end, the results
      metrics.jsonl          one line an epoch
      checkpoints/           what a resume needs; removed when the run is complete
      model.safetensors      the trained weights
      predictions.safetensors  labels and probabilities of the test set, for the report
      report.md, pictures/   for people

docs/runs.md describes the files. Nothing here knows a framework.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from zoo_core.io.console import say
from zoo_core.io.documents import read_document, write_document
from zoo_core.io.errors import UnknownName, UsageError, ZooError, did_you_mean
from zoo_core.io.files import atomic_write

FORMAT = 1
STATUSES = ("running", "interrupted", "failed", "complete")


@dataclass(frozen=True)
class Directory:
    """A directory with a JSON document that says what it is; what runs and searches share."""

    path: Path
    kind: ClassVar[str]  # in words: "run"
    document: ClassVar[str]  # the file's name

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def settings_file(self) -> Path:
        return self.path / self.document

    def read(self) -> dict[str, Any]:
        """The document, or a sentence about what is wrong with it."""
        try:
            return read_document(self.settings_file, FORMAT)
        except FileNotFoundError:
            problem = f"{self.path} is not a {self.kind}: it has no {self.document}"
            raise ZooError(problem) from None

    def write(self, document: Mapping[str, Any]) -> None:
        write_document(self.settings_file, document)

    def update(self, **changes: Any) -> None:
        self.write(self.read() | changes)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process works in a directory; the second one is refused."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(f"another process is working on {self.path}") from None
        try:
            yield
        finally:
            lock.release()
            (self.path / ".lock").unlink(missing_ok=True)


@dataclass(frozen=True)
class Run(Directory):
    """One run directory. Settings and results are read from disk when they are asked for."""

    kind: ClassVar[str] = "run"
    document: ClassVar[str] = "run.json"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def model_file(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def predictions_file(self) -> Path:
        return self.path / "predictions.safetensors"

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, without a last one that a kill cut short."""
        if not self.metrics_file.exists():
            return []
        lines = []
        for line in self.metrics_file.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                break
        return lines

    def append_metrics(self, line: Mapping[str, Any]) -> None:
        with self.metrics_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def keep_metrics(self, epochs: int) -> None:
        """Forget the lines of epochs that a resume will do again."""
        kept = [line for line in self.metrics() if line["epoch"] <= epochs]
        with atomic_write(self.metrics_file) as temporary:
            temporary.write_text("".join(json.dumps(line) + "\n" for line in kept), "utf-8")


def runs_root(chosen: Path | None = None) -> Path:
    """Where runs are kept: as given, or ZOO_RUNS, or `runs` in the current directory."""
    return Path(chosen or os.environ.get("ZOO_RUNS") or "runs")


def new_run(root: Path, model: str, dataset: str, now: datetime | None = None) -> Run:
    """Make a directory that no other run has. Names of one model and dataset sort by time."""
    now = now or datetime.now(UTC)
    stem = f"{model}-{dataset}-{now:%Y%m%dT%H%M%SZ}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        for attempt in range(1000):
            path = root / (f"{stem}-{attempt + 1}" if attempt else stem)
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return Run(path)
    except OSError as error:
        raise ZooError(
            f"no run can be made in {root}: {error.strerror}", "choose another folder with --runs"
        ) from error
    raise ZooError(f"{root} already holds 1000 runs called {stem}")


def all_runs(root: Path) -> list[Run]:
    """The runs in a folder, oldest first."""
    if not root.is_dir():
        return []
    found = [Run(path.parent) for path in root.glob("*/run.json")]
    return sorted(found, key=lambda run: (run.name.rsplit("Z", 1)[0][-15:], run.name))


def find_run(reference: str, root: Path | None = None, *, trained: bool = False) -> Run:
    """The run that a person means: a path, a name in the runs folder, or `latest`.

    trained: the latest one that has weights, for those who want to use it.
    """
    root = runs_root(root)
    if reference == "latest":
        every = all_runs(root)
        runs = [run for run in every if not trained or run.model_file.exists()]
        if not runs:
            kind = "trained runs" if trained else "runs"
            raise UsageError(f"there are no {kind} in {root}", "zoo train MODEL makes one")
        if runs[-1] != every[-1]:
            left = f"{every[-1].name} is newer and has no weights yet"
            say(f"Taking {runs[-1].name}: {left}")
        return runs[-1]
    for path in (root / reference, Path(reference)):
        if (path / "run.json").is_file():
            return Run(path)
    if Path(reference).is_dir():
        raise UsageError(
            f"{reference} is not a run: it has no run.json",
            "a folder of published weights is written file:FOLDER",
        )
    names = [run.name for run in all_runs(root)]
    hint = did_you_mean(reference, names, "zoo runs lists them; --runs chooses the folder")
    raise UnknownName(f"there is no run {reference!r} in {root}", hint)
