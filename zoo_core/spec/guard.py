"""What stands between a plugin and the process that imports it.

While a plugin is loaded, the guard knows its name: a note on disk names it after a death of the
process, a thread names it when it takes long, an interruption names it. Afterwards the guard undoes
what the plugin changed in the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from zoo_core.io.console import warn
from zoo_core.io.errors import PluginError, UsageError, ZooError
from zoo_core.spec.notes import Note
from zoo_core.spec.state import Standard, State

PATIENCE = 2.0  # seconds after which a plugin is named
LIMIT = "20"  # seconds after which the zoo continues without it
ALARM = getattr(signal, "SIGALRM", None)
ANYTHING = BaseException  # under a name that a plugin does not clear with the builtins


class Plugin:
    """The plugin that is being loaded."""

    def __init__(self, id: str, name: str) -> None:
        self.id, self.name, self.since = id, name, time.monotonic()


class Overdue(BaseException):
    """Raised in a plugin that does not come to an end."""


def time_limit() -> float:
    """Seconds that one plugin may take to load."""
    text = os.environ.get("ZOO_PLUGIN_TIMEOUT") or LIMIT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        what = f"ZOO_PLUGIN_TIMEOUT must be a number of seconds, not {text!r}"
        raise UsageError(what, f"without it, a plugin may take {LIMIT} s to load")
    return seconds


def leave_out(plugin: str) -> str:
    """What to do about a plugin that does harm, as the end of a sentence."""
    return f"to leave it out: zoo plugins disable {plugin}"


class Guard:
    """Entered while plugins are loaded; `run` is called for each of them."""

    def __init__(self, *, note: bool = True) -> None:
        self._limit = time_limit()
        self._note = Note() if note else None
        self._loading: Plugin | None = None
        self._overdue: Plugin | None = None
        self._interruption: KeyboardInterrupt | None = None
        self._handlers: dict[int, Any] = {}  # of the process, while the guard's take their place
        self._ended = threading.Event()

    def __enter__(self) -> Guard:
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self._main = threading.current_thread() is threading.main_thread()
        self._stderr = sys.stderr
        self._standard = Standard(alone=self._main and threading.active_count() == 1)
        if self._main:
            self._take_signals()
        self._watchdog = threading.Thread(target=self._watch, name="zoo-watchdog", daemon=True)
        with suppress(RuntimeError):  # no more threads for this user: nothing is named then
            self._watchdog.start()
        self._start = threading.Thread.start
        threading.Thread.start = _daemonic(self._start)  # type: ignore[assignment, method-assign]
        self._state = State(signals=self._main)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        with suppress(RuntimeError):
            self._watchdog.join()  # first: its alarm would end a process without the handler
        threading.Thread.start = self._start  # type: ignore[method-assign]
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._standard.restore()
        if self._note:
            self._note.remove()

    def run(
        self, plugin: str, name: str, work: Callable[[], Any]
    ) -> tuple[Any, BaseException | None, list[str]]:
        """Do a part of the work of one plugin, and keep the process what it was.

        Gives what the work returned, what it raised, and what it changed in the process, in words;
        that is undone. A Ctrl-C is raised once all is in order. What the plugin raises is not, even
        if it is a KeyboardInterrupt.
        """
        if self._note:
            self._note.name(plugin)
        result: Any = None
        failure: BaseException | None = None
        try:
            try:
                self._loading = Plugin(plugin, name)
                result = work()
            finally:
                self._loading = None  # from here on the alarm raises nothing
        except Overdue:
            failure = ZooError(f"it did not finish loading within {self._limit:g} s")
        except ANYTHING as error:
            failure = error
        changes = self._undo(plugin, name)
        if self._interruption is not None:
            warn(f"interrupted while plugin {name} was loading")  # to blame only if named before
            raise self._interruption
        return result if failure is None else None, failure, changes

    def _undo(self, plugin: str, name: str) -> list[str]:
        changes = self._state.undo()  # first: the rest needs what it puts back
        if os.getpid() != self._pid:  # a fork: this copy would continue with the command
            self._say(f"Plugin {name} copied the process with os.fork; the copy ends here")
            os._exit(1)
        if ALARM in self._handlers and any(signal.getitimer(signal.ITIMER_REAL)):
            signal.setitimer(signal.ITIMER_REAL, 0)
            changes.append("set an alarm")
        try:
            if self._standard.repair():
                changes.append("closed standard input, output or error")
        except OSError as error:
            self._note = None  # it stays on disk: nothing may be left to print with
            what = f"plugin {name} closed the output of the command for good"
            raise PluginError(what, leave_out(plugin)) from error
        if changes:
            self._state, self._stderr = State(signals=self._main), sys.stderr
        return changes

    def _take_signals(self) -> None:
        """Tell a real Ctrl-C from a plugin's; have an alarm that ends what takes too long."""
        for number in filter(None, (signal.SIGINT, signal.SIGTERM, ALARM)):
            handler = signal.getsignal(number)
            if handler == signal.SIG_DFL if number == ALARM else callable(handler):
                self._handlers[number] = signal.signal(number, self._signalled)

    def _signalled(self, number: int, frame: Any) -> None:
        if number == ALARM:
            overdue, self._overdue = self._overdue, None
            if overdue is not None and overdue is self._loading:
                raise Overdue
            return  # the watchdog was late, or a plugin set it: the default would end the process
        try:
            self._handlers[number](number, frame)
        except KeyboardInterrupt as error:
            self._interruption = error if self._loading else None
            raise

    def _watch(self) -> None:
        """Name a plugin that takes long, and end it after the limit.

        A thread does this while the plugin waits, or computes in Python. What hangs in C and keeps
        the interpreter's lock, only the note names, and `zoo doctor`.
        """
        named, pause = None, PATIENCE
        while not self._ended.wait(pause):
            plugin = self._loading
            took = time.monotonic() - plugin.since if plugin else 0.0
            if plugin is None or took < PATIENCE:
                pause = PATIENCE - took if plugin else 0.05
                continue
            if plugin is not named:
                named = plugin
                self._say(f"Waiting for plugin {plugin.name} to load; {leave_out(plugin.id)}")
            pause = self._limit - took
            if pause <= 0:
                pause = 1.0  # a plugin that catches everything is told again
                if ALARM in self._handlers and plugin is self._loading:
                    self._overdue = plugin
                    signal.pthread_kill(self._thread, ALARM)

    def _say(self, sentence: str) -> None:
        # Not with `warn`: the plugin may hold a lock of logging, or have replaced what it needs.
        with suppress(Exception):
            self._stderr.write(f"{sentence}\n")
            self._stderr.flush()


def _daemonic(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """Thread.start for plugins: a thread without end must not keep every command from ending."""
    ours = threading.get_ident()

    def started(thread: threading.Thread) -> None:
        if threading.get_ident() == ours and not thread.is_alive():
            thread.daemon = True
        start(thread)

    return started
