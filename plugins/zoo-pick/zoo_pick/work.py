"""What a worker does for a pick: one piece at a time, in a process that can be killed.

A member may hang, crash or need all memory. So a worker only waits: members run in a Hand, a
process that it ends when the time of the piece is over, and starts again for the next piece.
"""

from __future__ import annotations

import atexit
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

import zoo
from zoo import kit

GRACE = 2.0  # seconds that a process has to save what it has
FEW, MOST = 16, 2048  # images of the two trainings that measure a member
AIM = 1.5  # seconds that the second one takes, about
FIXED = 2.0  # seconds at most that surround a training, where imports hide how many


@dataclass(frozen=True)
class Given:
    """A piece of work: a training, or the two short ones that measure a member."""

    model: str  # plugin/name
    dataset: str
    recipe: str
    settings: Mapping[str, Any]
    learn: int  # images; 0 in a piece that measures
    epochs: int
    total: int  # images that there are to learn from
    judges: int  # and to be judged by
    folder: Path  # for runs
    device: str
    limit: float  # seconds


@dataclass(frozen=True)
class Told:
    """What came of a piece."""

    state: str  # done, failed or late
    why: str = ""
    seconds: float = 0.0
    found: Mapping[str, Any] | None = None


def work(given: Given, arrays: Any, report: Any) -> Told:
    """What an engine runs."""
    started = time.monotonic()
    if given.folder.parents[1].is_dir():
        state, found = _hand().ask(given, given.limit)
    else:  # another machine
        with kit.temporary_folder() as folder:
            state, found = _hand().ask(replace(given, folder=folder / "run"), given.limit)
    seconds = time.monotonic() - started
    if state == "done":
        return Told("done", "", seconds, found)
    return Told(state, str(found), seconds)


class Hand:
    """A process for pieces of work. Both ends talk by pickles; its own output goes nowhere."""

    code = "from zoo_pick.work import serve; serve()"

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, given: Any, limit: float) -> tuple[str, Any]:
        """("done", the answer), or "failed" or "late" and a sentence."""
        process = self._process or self._start()
        try:
            pickle.dump(given, process.stdin)  # type: ignore[arg-type]
            process.stdin.flush()  # type: ignore[union-attr]
            answer: tuple[str, Any] | None = self._answers.get(timeout=max(0.1, limit))
        except queue.Empty:
            self.end()
            return "late", f"it did not end within {limit:.0f} s"
        except BaseException:  # Ctrl-C above all
            self.end()
            raise
        if answer is None:
            self.end()
            return "failed", "its process died, for want of memory perhaps"
        return answer

    def end(self) -> None:
        """A training saves a checkpoint if it can; what hangs is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = process = subprocess.Popen(
            [sys.executable, "-c", self.code],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._answers: queue.Queue[Any] = queue.Queue()
        out, answers = process.stdout, self._answers

        def listen() -> None:
            try:
                while True:
                    answers.put(pickle.load(out))  # type: ignore[arg-type]
            except Exception:  # the end of the process, or half an answer of one that was killed
                answers.put(None)

        threading.Thread(target=listen, daemon=True).start()
        return process


_own: list[Hand] = []


def _hand() -> Hand:
    """The one of this process."""
    if not _own:
        _own.append(Hand())
        atexit.register(_own[0].end)
    return _own[0]


def shut() -> None:
    """End the process of this one, if there is any."""
    for hand in _own:
        hand.end()


def attempted(given: Given) -> dict[str, Any]:
    """Measure a member, or train it."""
    return trained(given) if given.learn else measured(given)


def serve(answer_to: Callable[[Any], Any] = attempted) -> None:
    """The other end: work until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who asks
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # whatever a member prints
    pieces: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_listen, args=(asked, pieces), daemon=True).start()
    while True:
        given = pieces.get()
        try:
            answer = "done", answer_to(given)
        except zoo.Interrupted:
            return
        except Exception as error:
            text = str(error) if isinstance(error, zoo.ZooError) else kit.describe(error)
            answer = "failed", text
        pickle.dump(answer, answers)
        answers.flush()


def _listen(asked: IO[bytes], pieces: queue.Queue[Any]) -> None:
    try:
        while True:
            pieces.put(pickle.load(asked))
    except EOFError:
        os._exit(0)  # nobody waits for an answer, whatever is at work


# ---------------------------------------------------------------- in the Hand


def trained(given: Given) -> dict[str, Any]:
    """Train, and say how well."""
    return _attempt(given, given.folder, given.learn, given.judges, given.epochs)


def measured(given: Given) -> dict[str, Any]:
    """How long a training takes, from two short ones; the first also warms up.

    `fixed` seconds for any training, `once` for each image, `step` for each image in each epoch.
    """
    few = min(FEW, given.total)
    first = _attempt(given, given.folder / "first", few, FEW // 4, 1)
    passes = "backbone" in zoo.info(given.model).capabilities

    def seen(found: Mapping[str, Any]) -> float:
        """Seconds for each image, by what it takes to predict one: judges are a quarter."""
        return float(found["ms"]) / 1000 * (passes + 1 / 4)

    more = min(MOST, given.total, int(AIM / (first["step"] + seen(first))))
    if more < 2 * few:  # a slow one, or hardly an image: the first has to do
        fixed = first["seconds"] - few * (seen(first) + first["step"])
        return first | {"fixed": min(max(0.0, fixed), FIXED), "once": seen(first)}
    judges = max(1, min(given.judges, more // 4))
    second = _attempt(given, given.folder / "second", more, judges, 1)
    step = min(first["step"], second["step"])  # whatever else the machine did just then
    gone = (second["seconds"] - first["seconds"]) / (more - few)  # too little after imports
    once = max(gone - step, seen(second))
    fixed = max(0.0, second["seconds"] - more * (once + step))
    return second | {"fixed": fixed, "once": once, "step": step}


def _attempt(given: Given, folder: Path, learn: int, judge: int, epochs: int) -> dict[str, Any]:
    run, started = kit.Run(folder), time.monotonic()
    done = kit.attempt(
        given.model, given.dataset, run, recipe=given.recipe, settings=given.settings,
        epochs=epochs, learn=learn, judge=judge, device=given.device,
    )  # fmt: skip
    seconds = time.monotonic() - started
    document, recipe = done.document, done.document["recipe"]
    result, images = document["result"], document["dataset"]["train"]
    known = ((name, done.figures.get(name)) for name in ("accuracy", "loss"))
    updates = getattr(done.framework, "updates", lambda *_: None)
    return {
        "figures": {name: float(value) for name, value in known if value is not None},
        "right": _right(done),
        "judges": document["dataset"]["validation"],
        "ms": done.ms or 0.0,
        "bytes": document["parameters"]["bytes"],
        "parameters": document["parameters"]["total"],
        "step": 1 / max(result["images_per_second"], 1e-9),
        "counted": updates(zoo.Recipe(**recipe), images) is not None,
        "learn": images,
        "recipe": {n: recipe[n] for n in ("epochs", "batch_size", "precision") if n in recipe},
        "seconds": seconds,
    }


def _right(done: kit.Attempt) -> str:
    """For each judge, whether its class was found: bits as hexadecimal digits; "" for others."""
    if done.values is None or done.labels is None or done.labels.ndim > 1:
        return ""
    if not np.issubdtype(done.labels.dtype, np.integer):
        return ""
    return np.packbits(done.values.argmax(1) == done.labels).tobytes().hex()
