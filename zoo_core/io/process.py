"""What a long computation asks of the system: signals, memory, threads, its place among others."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from types import FrameType
from typing import Any

from zoo_core.io.errors import UsageError
from zoo_core.io.targets import resolve


class Interruption:
    """While this is entered, the first signal sets `signal` and the next one acts as usual."""

    signals: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        # Python delivers signals to the main thread only, and only it may set handlers.
        if threading.current_thread() is threading.main_thread():
            for number in self.signals:
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        if process()[1] == 1:  # torchrun sends one more, which must not end the saving
            self.__exit__()

    def __exit__(self, *_: object) -> None:
        while self._before:
            number, handler = self._before.popitem()
            # None: a handler that was not installed from Python and cannot be put back from here.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


LONGEST = 20  # digits of both numbers of a process
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # names of malloc.h
LARGEST = 2**31 - 1  # what mallopt takes


def total_memory() -> int:
    """Bytes of memory of this machine; 8 GB where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def keep_freed_memory() -> None:
    """Spare what the system takes to clear memory: a seventh of a small network's time on a CPU.

    glibc gives large freed blocks back and asks for them again, cleared, at every step.
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(MMAP_THRESHOLD, LARGEST)
        libc.mallopt(TRIM_THRESHOLD, LARGEST)


WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # what a person may have set
# Chosen by benchmarks/busy.py: how often an idle thread looks for work before it sleeps.
CALM = {"GOMP_SPINCOUNT": "1000"}


def calm_threads() -> None:
    """Let idle threads sleep soon, so that two trainings on one machine do not starve each other.

    OpenMP reads this when torch is imported: call it before. What a person has set stays.
    """
    if not any(name in os.environ for name in WAITING):
        os.environ.update(CALM)


ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
# Of all x86-64 processors with AVX2, Intel's and AMD's: docs/reproduce.md says what each is for.
SAME_CODE = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "COMPATIBLE",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4,AVX512_ICL,AVX512_SPR",
}


def be_portable() -> None:
    """Let NumPy and torch compute as on other processors. They read this when they are imported."""
    same = SAME_CODE if platform.machine() in ("x86_64", "AMD64") else {}
    missing = {k: v for k, v in {**ONE_THREAD, **same}.items() if os.environ.get(k) != v}
    if missing and {"numpy", "torch"} & sys.modules.keys():
        what = "portable=true comes too late: NumPy is imported already"
        settings = " ".join(f"{name}={value}" for name, value in missing.items())
        hint = f"use zoo train --portable, or set this before Python starts: {settings}"
        raise UsageError(what, hint)
    os.environ.update(missing)


def process() -> tuple[int, int]:
    """The number of this process and how many train together, as torchrun tells them."""
    rank, size = os.environ.get("RANK") or "0", os.environ.get("WORLD_SIZE") or "1"
    numbers = rank.isdecimal() and size.isdecimal() and len(rank + size) < LONGEST
    if not (numbers and int(rank) < int(size)):
        what = f"RANK {rank!r} and WORLD_SIZE {size!r} do not number processes that train together"
        raise UsageError(what, "torchrun sets both; otherwise: unset RANK WORLD_SIZE")
    return int(rank), int(size)


def together(name: str) -> Any:
    """A function of torch/processes.py, for processes that train together."""
    return resolve(f"zoo_core.torch.processes:{name}", "training in several processes")


def joined() -> AbstractContextManager[None]:
    """While this is entered, the processes that train together are connected."""
    return together("joined")() if process()[1] > 1 else nullcontext()


def shared(make: Callable[[], bytes]) -> bytes:
    """What the first of the processes that train together makes; it alone calls `make`."""
    made: bytes = together("shared")(make) if process()[1] > 1 else make()
    return made
