"""What a person sees while a run goes on: bars on a terminal or in a notebook, lines elsewhere.

What a person sees of a pass: a bar on a terminal, a line now and then elsewhere.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from zoo_core.io.console import duration, named

REFRESH = 0.25  # seconds between two looks at the running loss


class Display:
    """Lines on standard error, one an epoch; silent if quiet."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def say(self, sentence: str) -> None:
        if not self.quiet:
            print(sentence, file=sys.stderr, flush=True)

    def warn(self, sentence: str) -> None:
        print(f"Warning: {sentence}", file=sys.stderr, flush=True)

    def start(self, epochs: int, steps: int, first_epoch: int, first_step: int) -> None:
        self.epochs = epochs

    def step(self, epoch: int, done: int, totals: Callable[[], Mapping[str, float]]) -> None:
        """After every step; `totals` costs a look at the device, so it is called rarely."""

    def epoch(self, line: Mapping[str, Any]) -> None:
        self.say(epoch_line(line, self.epochs))

    def stop(self) -> None:
        """Whatever happened, the display is over."""


class Bars(Display):
    """Two bars, epochs and steps, with the running loss, the rate and the time left."""

    def start(self, epochs: int, steps: int, first_epoch: int, first_step: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        super().start(epochs, steps, first_epoch, first_step)
        console = Console() if in_notebook() else Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
        )
        self._steps = steps
        self._epoch_bar = self._bars.add_task(
            "epoch", total=epochs * steps, note="", completed=first_epoch * steps + first_step
        )
        self._step_bar = self._bars.add_task("step", total=steps, completed=first_step, note="")
        self._seen = 0.0
        self._bars.start()

    def step(self, epoch: int, done: int, totals: Callable[[], Mapping[str, float]]) -> None:
        now = time.monotonic()
        if now - self._seen < REFRESH and done < self._steps:
            return
        self._seen = now
        self._bars.update(
            self._epoch_bar,
            completed=(epoch - 1) * self._steps + done,
            description=f"epoch {epoch} of {self.epochs}",
        )
        self._bars.update(self._step_bar, completed=done, note=running(totals()))

    def epoch(self, line: Mapping[str, Any]) -> None:
        self._bars.console.print(epoch_line(line, self.epochs), highlight=False, markup=False)

    def stop(self) -> None:
        if hasattr(self, "_bars"):
            self._bars.stop()


def open_display(quiet: bool) -> Display:
    """Bars where they can be drawn, lines elsewhere."""
    if not quiet and (sys.stderr.isatty() or in_notebook()):
        return Bars()
    return Display(quiet)


def in_notebook() -> bool:
    """Whether bars can be drawn in a notebook: rich needs ipywidgets for that."""
    return "ipykernel" in sys.modules and importlib.util.find_spec("ipywidgets") is not None


def running(totals: Mapping[str, float]) -> str:
    """The figures beside the step bar: `loss 1.234  accuracy 45.6 %  1,234 images/s`."""
    return "  ".join(named(name, value) for name, value in totals.items())


def epoch_line(line: Mapping[str, Any], epochs: int) -> str:
    """An epoch's metrics as one line."""
    shown = [
        named(name, value)
        for name, value in line.items()
        if name.startswith(("train_", "validation_", "test_")) and not name.endswith("top5")
    ]
    width = len(str(epochs))
    tail = f"{line['images_per_second']:,.0f} images/s  {line['seconds']:.1f} s"
    return f"epoch {line['epoch']:>{width}}/{epochs}  {'  '.join(shown)}  {tail}"


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
