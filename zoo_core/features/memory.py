"""Freed memory that stays with the process while a pass runs.

The maps of a network are large and short-lived. The C library gives each of them back to the system
when it is freed, and gets it back empty, page by page, for the next layer: a third of the time of a
convolutional network on a CPU. Only glibc does that, and only glibc is told not to.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4  # of malloc.h
NEVER = 2**31 - 1
# What glibc arrives at by itself in a process that has used large blocks.
GROWN = {MMAP_MAX: 65536, MMAP_THRESHOLD: 32 << 20, TRIM_THRESHOLD: 64 << 20}


@contextmanager
def keeping_memory() -> Iterator[None]:
    if platform.libc_ver()[0] != "glibc":
        yield
        return
    library = ctypes.CDLL(None)
    library.mallopt(MMAP_MAX, 0)
    library.mallopt(TRIM_THRESHOLD, NEVER)
    try:
        yield
    finally:
        for option, value in GROWN.items():
            library.mallopt(option, value)
        library.malloc_trim(0)
