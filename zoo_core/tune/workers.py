"""Several trials at a time, each in a process of its own; all of them see one copy of the pictures.

The arrays are files in a temporary folder that every process maps into memory: the system keeps
one copy, on every platform, and nothing is sent through pipes.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.arrays import Dataset, Split
from zoo_core.train.display import Display

# What the libraries that compute ask for their number of threads.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_data: Dataset | None = None  # of this worker


class Workers(Executor):
    """A pool whose tasks are given the dataset of the worker, and a display that is silent."""

    def __init__(self, count: int, data: Dataset) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="zoo-trials-")
        folder = Path(self._folder.name)
        self._before = {name: os.environ.get(name) for name in THREADS}
        threads = max(1, (os.cpu_count() or 1) // count)
        for name in THREADS:  # inherited by the workers; a person's own choice stays
            os.environ.setdefault(name, str(threads))
        # Not forked: a process that has threads, as torch has, must not be.
        self._pool = ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start,
            initargs=(store(data, folder), folder),
        )

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        return self._pool.submit(_work, function, arguments[0])  # the rest the worker has itself

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=True)
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
        self._folder.cleanup()


def store(data: Dataset, folder: Path) -> Dataset:
    """Write the arrays, and give back the dataset without them."""
    empty = np.empty((0, 1, 1, 1), np.uint8)

    def keep(split: Split | None, name: str) -> Split | None:
        if split is None:
            return None
        np.save(folder / f"{name}-images.npy", split.images)
        if split.labels is not None:
            np.save(folder / f"{name}-labels.npy", split.labels)
        return Split(empty, None)

    train = keep(data.train, "train")
    assert train is not None
    return replace(data, train=train, test=keep(data.test, "test"))


def restore(data: Dataset, folder: Path) -> Dataset:
    """The dataset again; its pages are shared with everybody who maps the same files."""

    def read(name: str) -> Any:
        path = folder / f"{name}.npy"
        # "c": private if written to, which nobody does, and so torch takes it without a warning.
        return np.load(path, mmap_mode="c") if path.exists() else None

    def split(name: str) -> Split:
        return Split(read(f"{name}-images"), read(f"{name}-labels"))

    return replace(
        data, train=split("train"), test=split("test") if data.test is not None else None
    )


def _start(data: Dataset, folder: Path) -> None:
    global _data
    _data = restore(data, folder)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A search that is killed takes its workers with it; their trials are resumed with it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _work(function: Callable[..., Any], task: Any) -> Any:
    assert _data is not None
    return function(task, _data, Display(quiet=True))
