"""A progress bar for work that takes a while: on a terminal only, on standard error, then gone."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(
    label: str, total: int, *, measure: Callable[[], int] | None = None
) -> Iterator[Callable[[int], None]]:
    """Give a function that says how many more are done; `measure` asks for bytes done instead."""
    if not sys.stderr.isatty():
        yield lambda more: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn

    counter = DownloadColumn() if measure else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counter)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total or None)
        if measure is None:
            yield lambda more: bar.advance(task, more)
            return
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.2):
                bar.update(task, completed=measure())

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield lambda more: None
        finally:
            done.set()
            thread.join()
