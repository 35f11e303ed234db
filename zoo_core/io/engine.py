"""Where many independent pieces of work run: what an engine is, and the one of this machine.

Whoever has the work is asked for the next piece when a worker is free, so that it can decide late.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Any, Literal

import numpy as np

from zoo_core.io.console import progress, warn
from zoo_core.io.errors import OptionError, ZooError, check_names
from zoo_core.io.files import temporary_folder
from zoo_core.io.process import Interruption
from zoo_core.io.targets import describe, resolve

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Resources:
    """What a piece needs for itself while it runs; 0: no special need."""

    cpus: float = 0
    gpus: float = 0
    memory: float = 0  # bytes

    def __post_init__(self) -> None:
        for name, amount in asdict(self).items():
            if not 0 <= amount < float("inf"):
                raise OptionError(f"{name} must be a number of at least 0, not {amount}")

    @classmethod
    def of(cls, amounts: Mapping[str, float] | None) -> Resources:
        """Those that somebody names."""
        check_names("--resources", amounts or (), [spec.name for spec in fields(cls)])
        return cls(**(amounts or {}))


@dataclass(frozen=True)
class Piece:
    """A piece of work: a function, and what it is called with on some worker.

    The function is called as `function(given, arrays, report)`: `arrays` are those of the whole
    run, read only, and `report(value)` sends progress to whoever runs the engine.
    """

    key: int | str  # what the caller knows it by
    target: str  # of the function, "package.module:name"; its package is installed on all workers
    given: Any  # must be picklable; so must what is reported and returned
    resources: Resources = Resources()
    retries: int = 0  # times that it starts again where its worker dies; it goes on from its files


State = Literal["done", "failed"]


@dataclass(frozen=True)
class Outcome:
    """The end of a piece. A piece that fails disturbs no other."""

    piece: Piece
    state: State
    value: Any = None  # what the function returned; of a failed piece, the exception


Told = Callable[[Piece, Any], None]


class WorkerDied(ZooError):
    """A worker ended without a word while it worked on a piece."""


class Engine(ABC):
    """Runs pieces of work, several at a time. Subclass it, and name it in a zoo.EngineEntry.

    A subclass says how to start, hand over a piece, wait and stop; `run`, which decides
    when a piece is handed over, is the same for all.
    """

    def __init__(self, workers: int = 1, address: str = "") -> None:
        """workers: pieces at a time. address: of a cluster, for engines that have one."""
        self.workers, self.address = workers, address

    @property
    def inline(self) -> bool:
        """Whether pieces run in this very process, which then can show all that they do."""
        return False

    def check(self) -> None:
        """Refuse an address or a setting that cannot work, before any work is begun."""
        if self.address:
            raise OptionError(
                f"engine {type(self).__name__.lower()!r} has no address",
                "leave out --address, or choose an engine that has one: zoo list --engines",
            )

    @abstractmethod
    def start(self, arrays: Arrays, told: Told) -> None:
        """Get ready. Every piece sees the arrays; call `told` in `wait` when a piece reports."""

    @abstractmethod
    def submit(self, piece: Piece) -> None:
        """Hand over a piece. It waits where its resources are not free; fails if they never are."""

    @abstractmethod
    def wait(self) -> Sequence[Outcome]:
        """Return when a piece has ended, or after `told` was called; then the list may be empty."""

    @abstractmethod
    def stop(self) -> None:
        """Let go of everything. What still runs is interrupted and not waited for much longer."""

    def run(
        self,
        pull: Callable[[], Piece | None],
        arrays: Arrays | None = None,
        told: Told = lambda piece, value: None,
    ) -> Iterator[Outcome]:
        """Run what `pull` gives whenever a worker is free, and yield the ends as they come.

        pull: the next piece; None: none before another one has ended. The run is over when it gives
        None and nothing runs. told: gets what a piece reports.
        """
        running, deaths = 0, Counter[int | str]()
        self.start(arrays or {}, told)
        try:
            while True:
                while running < self.workers and (piece := pull()) is not None:
                    self.submit(piece)
                    running += 1
                if not running:
                    return
                for outcome in self.wait():
                    piece, died = outcome.piece, isinstance(outcome.value, WorkerDied)
                    if died and deaths[piece.key] < piece.retries:
                        deaths[piece.key] += 1
                        warn(f"{outcome.value}; another one goes on with its work")
                        self.submit(piece)
                        continue
                    running -= 1
                    yield outcome
        finally:
            self.stop()


def fill_together(
    engine: Engine, target: str, given: Any, beside: Path, how: Mapping[str, Any], what: str,
    total: int,
) -> None:  # fmt: skip
    """Let all workers do the same piece: fill the block stores in the folder of `beside` together.

    how: the `resources` and `retries` of each; what, total: of the progress that they report.
    """
    failed: list[BaseException] = []
    engine.check()
    beside.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(beside) as mark, progress(what, total) as advance:
        pieces = iter([Piece(n, target, (given, mark), **how) for n in range(engine.workers)])
        for outcome in engine.run(lambda: next(pieces, None), {}, lambda _, more: advance(more)):
            if outcome.state == "failed":
                failed.append(outcome.value)
                warn(f"a worker stopped: {outcome.value}")
    if len(failed) == engine.workers:
        raise failed[0]


def check_shared(mark: Path) -> None:
    """On a worker: refuse to fill a folder of its own in place of that of whoever waits for it."""
    if not mark.is_dir():
        what = f"{mark.parent} of {platform.node()} is not the folder of the command"
        raise ZooError(what, "workers on other machines need a folder that all machines share")


# What the libraries that compute ask for their number of threads.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PATIENCE = 60.0  # seconds for a worker that is told to end: it may have to write a checkpoint


@dataclass
class Worker:
    """A process of the local engine, and the piece that it works on."""

    process: Any
    pipe: connection.Connection
    piece: Piece | None = None


class Local(Engine):
    """Processes of this machine that share the arrays; with one worker, this process itself."""

    def __init__(self, workers: int = 1, address: str = "") -> None:
        super().__init__(workers, address)
        self._workers: list[Worker] = []
        self._waiting: list[Piece] = []
        self._ended: list[Outcome] = []

    @property
    def inline(self) -> bool:
        return self.workers == 1

    def start(self, arrays: Arrays, told: Told) -> None:
        self._arrays, self._told, self._kept = arrays, told, ExitStack()
        if not self.inline:
            # Written once and mapped by each: the system keeps one copy for all workers.
            self._folder = self._kept.enter_context(temporary_folder())
            for name, array in arrays.items():
                np.save(self._folder / f"{name}.npy", array)

    def submit(self, piece: Piece) -> None:
        for name, asked in asdict(piece.resources).items():
            if asked > (there := machine()[name]):
                problem = f"it asks for {asked:g} {name}, and this machine has {there:g}"
                self._ended.append(Outcome(piece, "failed", OptionError(problem)))
                return
        self._waiting.append(piece)

    def wait(self) -> Sequence[Outcome]:
        if self.inline and self._waiting:
            piece = self._waiting.pop()
            state, value = _run(piece, self._arrays, partial(self._told, piece))
            self._ended.append(Outcome(piece, state, value))
        self._hand_over()
        if not self._ended:
            busy = {worker.pipe: worker for worker in self._workers if worker.piece}
            for pipe in connection.wait(list(busy)):
                self._hear(busy[pipe])  # type: ignore[index]
        ended, self._ended = self._ended, []
        return ended

    def stop(self) -> None:
        for worker in self._workers:
            if worker.piece:
                worker.process.terminate()  # a training saves what it has
            worker.pipe.close()  # an idle one ends by that
        try:
            for worker in self._workers:
                worker.process.join(PATIENCE)
        finally:
            for worker in self._workers:
                worker.process.kill()
            self._workers = []
            self._kept.close()

    def _hand_over(self) -> None:
        """Give pieces that wait to workers that are free, in order, while the machine has room."""
        while self._waiting:
            busy = [worker.piece.resources for worker in self._workers if worker.piece]
            for name, asked in asdict(self._waiting[0].resources).items():
                if asked and asked + sum(getattr(one, name) for one in busy) > machine()[name]:
                    return
            free = [worker for worker in self._workers if not worker.piece]
            worker = free[0] if free else self._new_worker()
            worker.piece = self._waiting.pop(0)
            with suppress(OSError):  # the pipe of a worker that died: `wait` hears of it
                worker.pipe.send(worker.piece)

    def _new_worker(self) -> Worker:
        # Not forked: a process that has threads, as torch has, must not be.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self._folder), daemon=True)
        with _threads(max(1, (os.cpu_count() or 1) // self.workers)):
            process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        self._workers.append(worker := Worker(process, ours))
        return worker

    def _hear(self, worker: Worker) -> None:
        """Take one message of a worker; a closed pipe is one as well."""
        piece = worker.piece
        assert piece is not None
        try:
            state, value = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
            self._workers.remove(worker)
            state, value = "failed", WorkerDied("a worker died, for want of memory perhaps")
        if state == "progress":
            self._told(piece, value)
            return
        worker.piece = None
        self._ended.append(Outcome(piece, state, value))


def _run(piece: Piece, arrays: Arrays, report: Callable[[Any], None]) -> tuple[State, Any]:
    try:
        return "done", resolve(piece.target, "a piece of work")(piece.given, arrays, report)
    except Exception as error:
        return "failed", error


def machine() -> dict[str, float]:
    """What this machine has for pieces that ask for something."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else list(Path("/dev").glob("nvidia[0-9]*"))
    memory = float("inf")
    if hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpus": os.cpu_count() or 1,
        "gpus": 0 if visible == "" else len(gpus),
        "memory": memory,
    }


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """For processes that are started meanwhile; a person's own choice stays."""
    added = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(added, str(count)))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _work(pipe: connection.Connection, folder: Path) -> None:
    """A worker: takes pieces from the pipe until it is closed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent(sentinel: int) -> None:
        connection.wait([sentinel])
        os._exit(1)  # killed as its parent was; what it was doing is resumed with that

    threading.Thread(target=end_with_parent, args=(parent.sentinel,), daemon=True).start()
    # Ctrl-C reaches every process of a terminal. It is for the parent, which ends its workers by
    # SIGTERM: a training saves at the first signal, and a second one would cut that short.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Interruption.signals = (signal.SIGTERM,)
    # "c": private if written to, which nobody does, and so torch takes it without a warning.
    arrays = {path.stem: np.load(path, mmap_mode="c") for path in folder.glob("*.npy")}

    def send(state: str, value: Any) -> None:
        with suppress(OSError):  # nobody listens any more: SIGTERM is on its way
            pipe.send((state, value))

    while True:
        try:
            piece = pipe.recv()
        except (EOFError, OSError):
            return
        state, value = _run(piece, arrays, partial(send, "progress"))
        try:
            send(state, value)
        except Exception as error:  # what cannot be pickled, an exception of a library for example
            what = f"{describe(value)}" if state == "failed" else "its result"
            send("failed", ZooError(f"{what} cannot be sent: {describe(error)}"))
