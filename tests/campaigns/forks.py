"""Commands in forked processes: torch and the plugins are imported once, not for every command.

`warm` imports what commands need. `call` forks; the child gets a folder, an environment and limits
of its own and runs a command line there to its end, or until it is killed. A fork copies one thread
only, so the process that forks must have no other. Linux only.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import random
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from fixtures import kills

OVERDUE = "overdue"
MOST_OUTPUT = 4 << 20  # bytes of each stream that are read
LARGEST_FILE = 1 << 30  # bytes; a command that writes more is told that the disk is full
# What commands import when they run; `warm` finds the rest.
COMMON = (
    "torch", "torch._dynamo", "matplotlib.pyplot", "huggingface_hub", "hyperopt", "PIL.Image",
    "multiprocessing.spawn", "concurrent.futures.thread", "zoo.kit", "zoo.testing",
)  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """What became of a command."""

    code: int  # the exit code; -9 for SIGKILL
    out: str
    err: str
    seconds: float
    memory: int  # bytes, the largest that it had
    events: int  # changes of the disk and steps, where they were counted
    overdue: bool = False  # it had to be killed

    def __str__(self) -> str:
        how = "did not end" if self.overdue else f"exit code {self.code}"
        return f"{how}, stdout {self.out[-300:]!r}, stderr {self.err[-1500:]!r}"


def prepare_process() -> None:
    """Call it before numpy and torch are imported: no threads here, none in the children."""
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    os.environ["MPLBACKEND"] = "agg"
    for name in [name for name in os.environ if name.startswith(("ZOO_", "HF_", "TRANSFORMERS_"))]:
        del os.environ[name]
    os.environ["ZOO_CONFIG"] = os.devnull


def load_zoo(heavy: bool = True) -> None:
    """Import the zoo, its plugins, and what is heavy."""
    from zoo_core.spec.commands import COMMANDS
    from zoo_core.spec.registry import registry

    registry()
    for name in (
        *(COMMON if heavy else ()),
        *(f"zoo_core.cli.{module}" for module, _ in COMMANDS.values()),
    ):
        with suppress(ImportError):
            importlib.import_module(name)


def warm(calls: Sequence[Sequence[str]], folder: Path, env: Mapping[str, str]) -> None:
    """Run commands once, and import here what each of them imported."""
    for arguments in calls:
        with tempfile.NamedTemporaryFile("r+") as told:
            ended = call(arguments, folder, env=env, seconds=300, modules=told.name)
            assert ended.code == 0, f"zoo {' '.join(arguments)}: {ended}"
            for name in told.read().split():
                with suppress(Exception):
                    importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page
    others = len(list(Path("/proc/self/task").iterdir())) - 1
    assert not others, f"{others} other threads: what they hold would stay locked in children"


def call(
    arguments: Sequence[str],
    folder: Path,
    *,
    env: Mapping[str, str],
    seconds: float = 120,
    memory: int = 0,
    fatal: int = -1,
    after: float = 0,
    modules: str = "",
    before: Callable[[], object] | None = None,
) -> Ended:
    """Fork and run `zoo ARGUMENTS` in a folder.

    seconds: it is killed then. memory: bytes that it may take beyond those that it starts with.
    fatal: count events below the folder, and die before this one (0: none). after: kill it after so
    many seconds. before: called in the child. modules: a file for the names of what it imported.
    """
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.NamedTemporaryFile() as log,
    ):
        sys.stdout.flush()
        sys.stderr.flush()
        started = time.monotonic()
        pid = os.fork()
        if not pid:
            try:
                _become(folder, env, out, err, memory)
                if fatal >= 0:
                    _count(folder, log.name, fatal)
                if before:
                    before()
                _run(arguments, modules)
            except BaseException:
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(97)  # an exit code of nobody's
        waiting = os.pidfd_open(pid)
        try:
            ready, _, _ = select.select([waiting], [], [], min(after or seconds, seconds))
            overdue = not ready and not after
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # the process, or workers that it left behind
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        finally:
            os.close(waiting)
        _, status, usage = os.wait4(pid, 0)
        return Ended(
            os.waitstatus_to_exitcode(status),
            _text(out),
            _text(err),
            time.monotonic() - started,
            usage.ru_maxrss << 10,
            Path(log.name).stat().st_size,
            overdue,
        )


def _become(folder: Path, env: Mapping[str, str], out: Any, err: Any, memory: int) -> None:
    """Make the child what a process that a shell starts would be."""
    import resource  # here: tests import this module on Windows too

    os.setsid()  # a group of its own, which is killed as a whole
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update(env)
    tempfile.tempdir = None
    for one in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        one.atexit = False  # temporary folders of the parent are not the child's to remove
    random.seed()
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    if memory:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _count(folder: Path, log: str, fatal: int) -> None:
    """Count, from now on, changes of the disk below the folder and steps of trainings."""
    from zoo_core.train.loop import Loop

    os.environ[kills.ORDER] = json.dumps([str(folder), log, fatal])
    count, step = kills.arm(), Loop._after_step

    def counted(self: Loop, started: float) -> None:
        count()
        step(self, started)

    Loop._after_step = counted  # type: ignore[method-assign]


def _run(arguments: Sequence[str], modules: str) -> NoReturn:
    """Run a command line and end as the interpreter would."""
    from zoo_core.cli.start import main

    known = set(sys.modules)
    sys.argv = ["zoo", *arguments]
    code: Any = 0
    try:
        main(list(arguments))
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if modules:
        Path(modules).write_text("\n".join(sorted(set(sys.modules) - known)))
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120  # as Python itself
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MOST_OUTPUT).decode(errors="replace")
