"""What a person sees of a pass: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zoo_core.figures import duration

EVERY = 30.0  # seconds between two lines


class PassDisplay:
    """Lines or a bar on standard error, with pictures per second and the time left."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def say(self, sentence: str) -> None:
        if not self.quiet:
            print(sentence, file=sys.stderr, flush=True)

    @contextmanager
    def passing(self, label: str, total: int, missing: int) -> Iterator[Callable[[int], None]]:
        """Give a function that says how many more pictures are done."""
        if self.quiet:
            yield lambda more: None
            return
        kept = f", {total - missing:,} of them kept from before" if missing < total else ""
        self.say(f"Computing the features of {label}: {total:,} pictures{kept}.")
        started = time.monotonic()
        if sys.stderr.isatty():
            with self._bar(label, total, missing) as advance:
                yield advance
        else:
            yield self._lines(label, total, missing)
        taken = max(time.monotonic() - started, 1e-9)
        self.say(f"{label}: done in {duration(taken)}, {missing / taken:,.1f} images/s.")

    @contextmanager
    def _bar(self, label: str, total: int, missing: int) -> Iterator[Callable[[int], None]]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        started, done = time.monotonic(), 0
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
        )  # fmt: skip
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=total, completed=total - missing, note="")

            def advance(more: int) -> None:
                nonlocal done
                done += more
                bar.update(task, advance=more, note=pace(done, missing, started))

            yield advance

    def _lines(self, label: str, total: int, missing: int) -> Callable[[int], None]:
        started = said = time.monotonic()
        done = 0

        def advance(more: int) -> None:
            nonlocal done, said
            done += more
            if time.monotonic() - said >= EVERY:
                said = time.monotonic()
                count = f"{total - missing + done:,} of {total:,}"
                self.say(f"{label}: {count} pictures, {pace(done, missing, started)}")

        return advance


def pace(done: int, missing: int, started: float) -> str:
    rate = done / max(time.monotonic() - started, 1e-9)
    return f"{rate:,.1f} images/s, {duration((missing - done) / max(rate, 1e-9))} left"
