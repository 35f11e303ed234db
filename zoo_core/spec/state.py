"""What a plugin may not change in the process that imports it: kept, compared, and put back."""

from __future__ import annotations

import builtins
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from zoo_core.spec.notes import duplicate, identity

# A handler of these decides how the process ends, or how its children do.
SIGNALS = [
    signal.Signals[name]
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGPIPE", "SIGCHLD")
    if hasattr(signal, name)
]
BUILTINS, OS, SYS = vars(builtins), vars(os), vars(sys)
# The dict behind os.environ, which is slow to compare: it decodes every name.
ENVIRONMENT = vars(os.environ).get("_data", os.environ)
STREAMS = {"stdin": 0, "stdout": 1, "stderr": 2, "__stdin__": 0, "__stdout__": 1, "__stderr__": 2}
FUNCTIONS = [name for name in SYS if callable(SYS[name]) and not name.endswith("hook")]


class State:
    """The process as it is now. signals: whether this thread may set handlers."""

    def __init__(self, *, signals: bool) -> None:
        self._spaces = (
            ("builtins", BUILTINS, BUILTINS.copy()),
            ("names of os", OS, OS.copy()),
            ("names of sys", SYS, {name: SYS[name] for name in (*FUNCTIONS, *STREAMS)}),
            ("modules", sys.modules, sys.modules.copy()),
        )
        self._path = sys.path, sys.path[:]
        self._finders = [(name, SYS[name], SYS[name][:]) for name in ("meta_path", "path_hooks")]
        self._environment, self._encoded = os.environ.copy(), ENVIRONMENT.copy()
        self._folder = _here()
        self._depth = sys.getrecursionlimit()
        self._handlers = [(n, signal.getsignal(n)) for n in SIGNALS] if signals else []

    def undo(self) -> list[str]:
        """Put everything back; what was changed, in words: `changed sys.path`."""
        changes = []
        # Here the builtins may be anything: this loop uses none.
        for space, now, before in self._spaces:
            if not before.items() <= now.items():
                changes.append((space, [n for n, v in before.items() if now.get(n) is not v]))
                now.update(before)
        told = [f"replaced {space}{_some(names)}" for space, names in changes]
        if sys.getrecursionlimit() != self._depth:
            sys.setrecursionlimit(self._depth)
            told.append("changed the recursion limit")
        path, entries = self._path
        # What a plugin appends is found last: it can hide nothing.
        if sys.path is not path or path[: len(entries)] != entries:
            path[:] = entries
            sys.path = path
            told.append("changed sys.path")
        for name, finders, before in self._finders:
            if SYS[name] is not finders or any(finder not in finders for finder in before):
                finders[:] = before
                SYS[name] = finders
                told.append(f"changed sys.{name}")
        if self._encoded != ENVIRONMENT:
            now, before = os.environ.copy(), self._environment
            names = sorted(n for n in {*now, *before} if now.get(n) != before.get(n))
            for name in names:
                os.environ.pop(name, None)
            os.environ.update({n: before[n] for n in names if n in before})
            told.append(f"changed the environment{_some(names)}")
        if _here() != self._folder:
            with suppress(OSError):
                os.chdir(self._folder)
            told.append("changed the working directory")
        for number, handler in self._handlers:
            if signal.getsignal(number) is not handler and handler is not None:
                signal.signal(number, handler)
                told.append(f"replaced the handler of {number.name}")
        return told


class Standard:
    """Standard input, output and error, kept. What a plugin prints goes to standard error.

    alone: no other thread uses them at this moment. Then a plugin also finds no input, and what its
    children and its C code print goes to standard error.
    """

    def __init__(self, *, alone: bool) -> None:
        self._streams = {name: SYS[name] for name in STREAMS if _is_open(SYS[name])}
        self._stdout, self._alone = sys.stdout, alone
        self._flush()
        self._kept = {}
        for number in (0, 1, 2):
            if identity(number) != (-1, -1):
                with suppress(OSError):  # too many are open
                    copy = duplicate(number)
                    self._kept[number] = copy, identity(copy)
        self._point()

    def _point(self) -> None:
        for number, (copy, _) in self._kept.items():
            if self._alone and number == 0:
                null = os.open(os.devnull, os.O_RDONLY)
                if null != number:  # which it is if a plugin closed that
                    os.dup2(null, number)
                    os.close(null)
            else:
                os.dup2(self._kept[2][0] if self._alone and 2 in self._kept else copy, number)
        self._now = {number: identity(number) for number in self._kept}
        if sys.stderr is not None:
            sys.stdout = sys.stderr

    def repair(self) -> bool:
        """Put back what a plugin closed or replaced; whether it did. OSError: nothing can."""
        closed = [name for name, stream in self._streams.items() if not _is_open(stream)]
        for name in closed:
            stream, mode = self._streams[name], "r" if STREAMS[name] == 0 else "w"
            how: Any = {"encoding": stream.encoding, "errors": stream.errors, "closefd": False}
            anew = open(STREAMS[name], mode, 1, **how)  # noqa: PTH123, SIM115 - a descriptor
            SYS[name] = self._streams[name] = anew
            self._stdout = anew if name == "stdout" else self._stdout
        lost = [number for number, (copy, file) in self._kept.items() if identity(copy) != file]
        if lost and self._alone:
            raise OSError(f"the descriptors {lost} are lost")
        for number in lost:
            del self._kept[number], self._now[number]
        changed = any(identity(number) != file for number, file in self._now.items())
        if closed or changed:
            self._point()
        return bool(closed or changed or lost)

    def restore(self) -> None:
        self._flush()
        sys.stdout = self._stdout
        for number, (copy, file) in self._kept.items():
            if identity(copy) == file:
                if self._alone:
                    os.dup2(copy, number)
                os.close(copy)

    def _flush(self) -> None:
        for name in ("stdout", "__stdout__"):
            with suppress(OSError, ValueError, AttributeError, KeyError):
                self._streams[name].flush()


def _is_open(stream: Any) -> bool:
    return stream is not None and not getattr(stream, "closed", False)


def _here() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # it was deleted
        return ""


def _some(names: list[str]) -> str:
    shown = ", ".join(map(str, names[:3]))
    return f" ({shown}{', ...' if len(names) > 3 else ''})" if names else ""
