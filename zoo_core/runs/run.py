"""Directories of runs and searches: what was asked for, what happened, and what came out.

docs/runs.md and docs/search.md describe the files. Nothing here knows a framework.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from zoo_core.io.console import say, typed
from zoo_core.io.documents import read_document, read_lines, write_document
from zoo_core.io.errors import FULL, UnknownName, UsageError, ZooError, did_you_mean, os_errors
from zoo_core.io.files import atomic_write
from zoo_core.io.locks import lock_file
from zoo_core.io.targets import Displayed
from zoo_core.runs.leftovers import BEGUN, LOCK, Leftover, brief_name, find_leftovers, leftover
from zoo_core.runs.schema import Line, RunDocument, SearchDocument, TrialLine
from zoo_core.spec.settings import FIELDS, as_typed

FORMAT = 1
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
TAKEN = re.compile(r"(latest|con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # of Windows too
# What the system says where there is no room; Windows has no quota.


class Inside:
    """The path of a file in a Directory, by its name there."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, directory: Directory, kind: type[Directory]) -> Path:
        return directory.path / self.name


@dataclass(frozen=True)
class Directory:
    """A directory with a JSON document that says what it is; what runs and searches share."""

    path: Path
    kind: ClassVar[str]  # in words: "run"
    document: ClassVar[str]  # the file's name
    _schema: ClassVar[type]  # of what it says

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def settings_file(self) -> Path:
        return self.path / self.document

    def read(self) -> dict[str, Any]:
        """The document, or a sentence about what is wrong with it."""
        try:
            return read_document(self.settings_file, FORMAT, self._schema)
        except FileNotFoundError:
            raise ZooError(f"{self.path} is not a {self.kind}: it has no {self.document}") from None

    def write(self, document: Mapping[str, Any]) -> None:
        write_document(self.settings_file, document)

    def update(self, **changes: Any) -> None:
        self.write(self.read() | changes)

    @contextmanager
    def locked(self, waiting: Callable[[], None] | None = None) -> Iterator[None]:
        """Only one process works in a directory; the second one is refused.

        waiting: called in place of that; then the second one waits for the first.

        Take the lock first, then look at the status. Of processes that train together only the
        first one comes here. What the disk refuses within the block becomes a sentence.
        """
        try:
            with lock_file(self.path / LOCK, waiting or self._refuse):
                for left in find_leftovers(self.path):
                    left.remove()
                yield
        except OSError as error:
            if not self.concerns(error):
                raise
            why = error.strerror or error
            hint = "make room, or allow this user to write there"
            raise ZooError(f"{self.path} could not be written: {why}", hint) from error

    def _refuse(self) -> None:
        hint = "wait for it, or stop it with Ctrl-C"
        raise UsageError(f"another process is working on {self.path}", hint)

    def concerns(self, error: OSError) -> bool:
        """Whether an error is about a file in here; that of a full disk does not always say it."""
        about = Path(str(error.filename)).absolute() if error.filename is not None else None
        return error.errno in FULL or bool(about and about.is_relative_to(self.path.absolute()))

    @classmethod
    def every(cls, root: Path, command: str = "train") -> list[Self]:
        """Those in a folder that a command made, oldest first."""
        found = (cls(path.parent) for path in root.glob(f"*/{cls.document}"))
        return in_order(one for one in found if command in ("train", one.origin[1]))

    @property
    def origin(self) -> tuple[str, str]:
        """When it began, in letters that sort, and what made it: its name or its document says."""
        name, document = self.path.name, dict[str, Any]()
        if BEGUN.fullmatch(name):
            return name.rsplit("Z", 1)[0][-15:], name.partition("-")[0]
        with suppress(OSError, ZooError):
            document = self.read()
        created = re.sub("[-:]", "", document.get("created") or "")[:15]
        return created, document.get("plan", {}).get("kind", "")

    @classmethod
    def named(cls, root: Path, name: str) -> Self:
        """The one with a name that a person chose; its folder is made if it does not exist."""
        if not NAME.fullmatch(name) or TAKEN.fullmatch(name):
            what = f"--name {name[:100]!r} cannot name a folder on every system"
            raise UsageError(what, "use up to 100 letters, digits and . _ -, such as cnn-night-3")
        one, hint = cls(root / name), "choose another --name, or another folder with --runs"
        with os_errors(f"no {cls.kind} can be made in {root}", ZooError, hint):
            one.path.mkdir(parents=True, exist_ok=True)
            inside = list(one.path.iterdir())
        if one.settings_file not in inside and not all(map(brief_name, inside)):
            raise UsageError(f"{one.path} is not a {cls.kind}: it has no {cls.document}", hint)
        return one

    def refuse_others(self, asked: Mapping[str, Any], command: str = "train") -> None:
        """Refuse settings that are not those that it was started with, and name them."""
        given, said = (self.read().get("asked") or {}, asked), []
        for name in {**given[0], **given[1]}:
            values = [one.get(name, FIELDS.get(name, "not set")) for one in given]
            if values[0] != values[1]:
                texts = [as_typed(value) or "empty" for value in values]
                then, now = texts if texts[0] != texts[1] else map(repr, values)
                said.append(f"{name} was {then} and is now {now}")
        if said:
            what = f"{self.path} was started with other settings: {', '.join(said)}"
            again = typed(f"zoo {command} --resume", self.path)
            hint = f"{again} keeps the settings of the {self.kind}; another --name starts a new one"
            raise UsageError(what, hint)

    def forget(self) -> None:
        """Remove the folder if nothing began in it."""
        with suppress(OSError):
            self.path.rmdir()

    @classmethod
    def at(cls, reference: str, root: Path) -> Self | None:
        """The one with this name in the runs folder, or at this path."""
        path = Path(reference)
        both = (root / path, path if path.name not in ("", "..") else path.resolve())
        return next((cls(one) for one in both if (one / cls.document).is_file()), None)

    @classmethod
    def find(cls, reference: str, root: Path | None = None, command: str = "train") -> Self:
        """The one that a person means: a path, a name in the runs folder, or `latest`."""
        root = runs_root(root)
        every = cls.every(root, command)
        if reference == "latest":
            if every:
                return every[-1]
            raise UsageError(f"there is no {cls.kind} in {root}", f"zoo {command} MODEL makes one")
        if found := cls.at(reference, root):
            return found
        for other in (Run, SearchFolder):
            if wrong := other.at(reference, root):
                what = f"{wrong.path} is a {other.kind}, not a {cls.kind}"
                raise UsageError(what, typed("zoo report", wrong.path) + " shows it")
        if Path(reference).exists():
            what = f"{reference} is not a {cls.kind}: it has no {cls.document}"
            raise UsageError(what, "zoo runs lists runs; published weights are written file:FOLDER")
        raise no_such(cls.kind, reference, root, every)


@dataclass(frozen=True)
class Run(Directory, Displayed):
    """One run directory. Settings and results are read from disk when they are asked for.

    `Run.find` and `Run.every` give them; `read()` is run.json, `metrics()` the epochs.
    """

    kind: ClassVar[str] = "run"
    document: ClassVar[str] = "run.json"
    _schema: ClassVar[type] = RunDocument
    _html = "zoo_core.report.notebook:run_html"

    metrics_file = Inside("metrics.jsonl")  # one line an epoch
    checkpoints = Inside("checkpoints")  # what a resume needs; removed when the run is complete
    model_file = Inside("model.safetensors")
    predictions_file = Inside("predictions.safetensors")  # of the test set, for the report

    @property
    def name(self) -> str:
        """That of its directory; a trial's is `SEARCH/trials/NNN`, which finds it as well."""
        *_, search, trials, number = ("", "", *self.path.absolute().parts)
        return f"{search}/{trials}/{number}" if trials == "trials" else number

    @property
    def again(self) -> str:
        """The command that trains the same once more, beside this run, from the folder now."""
        root = self.path.parent.parent.parent if "/" in self.name else self.path.parent
        words = [self.settings_file, *(["--runs", root] if root != runs_root() else ())]
        return typed("zoo train --config", *words)

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, without a last one that a kill cut short."""
        return read_lines(self.metrics_file, Line, cut=True)

    def append_metrics(self, line: Mapping[str, Any]) -> None:
        with self.metrics_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def keep_metrics(self, epochs: int) -> None:
        """Forget the lines of epochs that a resume will do again."""
        self.write_metrics([line for line in self.metrics() if line["epoch"] <= epochs])

    def write_metrics(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Replace all lines."""
        with atomic_write(self.metrics_file) as temporary:
            temporary.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")

    @classmethod
    def find_trained(cls, reference: str, root: Path | None = None) -> Run:
        """As `find`, but `latest` is the latest one that has weights."""
        newest = cls.find(reference, root)
        if reference != "latest" or newest.model_file.exists():
            return newest
        for run in reversed(cls.every(runs_root(root))):
            if run.model_file.exists():
                say(f"Taking {run.name}: {newest.name} is newer and has no weights yet")
                return run
        hint = "zoo train MODEL makes one"
        raise UsageError(f"there is no trained run in {runs_root(root)}", hint)


@dataclass(frozen=True)
class SearchFolder(Directory):
    """The directory of a search or a sweep, for those that only look at it."""

    kind: ClassVar[str] = "search"
    document: ClassVar[str] = "search.json"
    _schema: ClassVar[type] = SearchDocument

    trials_file = Inside("trials.jsonl")  # one line for each trial that has ended
    best_file = Inside("best.toml")  # the best recipe, for zoo train --config

    def trial_lines(self) -> list[dict[str, Any]]:
        """The lines of trials.jsonl, which is replaced as a whole."""
        return read_lines(self.trials_file, TrialLine)


Found = TypeVar("Found", bound=Directory)


def in_order(found: Iterable[Found]) -> list[Found]:
    """Oldest first."""
    return sorted(found, key=lambda one: (one.origin[0], one.name))


def runs_and_searches(root: Path) -> list[Run | SearchFolder]:
    """All in a folder, oldest first."""
    return in_order([*Run.every(root), *SearchFolder.every(root)])


def find_any(reference: str, root: Path | None = None) -> Run | SearchFolder:
    """The run or search that a person means; `latest` is the newest of both."""
    root = runs_root(root)
    every = runs_and_searches(root)
    if reference == "latest" and every:
        return every[-1]
    if found := SearchFolder.at(reference, root):
        return found
    if reference == "latest" or Path(reference).exists() or Run.at(reference, root):
        return Run.find(reference, root)
    raise no_such("run or search", reference, root, every)


def no_such(kind: str, reference: str, root: Path, every: Sequence[Directory]) -> UnknownName:
    names = [one.name for one in every]
    hint = did_you_mean(reference, names, "zoo runs lists them; --runs chooses the folder")
    return UnknownName(f"there is no {kind} {reference!r} in {root}", hint)


def runs_root(chosen: Path | None = None) -> Path:
    """Where runs are kept: as given, or ZOO_RUNS, or `runs` in the current directory."""
    return Path(chosen or os.environ.get("ZOO_RUNS") or "runs")


@contextmanager
def new_run(root: Path, model: str, dataset: str) -> Iterator[Run]:
    """A directory that no other run has, locked. Names of one model and dataset sort by time."""
    stem = f"{model}-{dataset}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    hint = "choose another folder with --runs"
    for path in root.glob("*Z*"):
        if leftover(path):  # a run that was killed before it began
            Leftover(path).remove()
    for attempt in range(1000):
        run, held = Run(root / (f"{stem}-{attempt + 1}" if attempt else stem)), ExitStack()
        with os_errors(f"no run can be made in {root}", ZooError, hint), suppress(FileExistsError):
            run.path.mkdir(parents=True)
            with suppress(ZooError):
                held.enter_context(run.locked())
                break
            if run.path.exists():  # else another process took it for a run that was killed
                raise PermissionError(errno.EACCES, "its folder cannot be locked")
    else:
        raise ZooError(f"{root} already holds 1000 runs called {stem}")
    with held:
        yield run
