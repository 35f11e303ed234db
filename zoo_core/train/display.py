"""What a person sees while a run goes on: bars on a terminal or in a notebook, lines elsewhere."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from zoo_core.io.console import UNITS, duration, named, plain
from zoo_core.io.process import process

if TYPE_CHECKING:
    from rich.progress import Progress

REFRESH = 0.25  # seconds between two looks at the running loss
EVERY = 30.0  # seconds between two lines of a pass


class Display:
    """Lines on standard error, one an epoch; silent if quiet, but for warnings where it `warns`."""

    def __init__(self, quiet: bool = False, warns: bool = False) -> None:
        self.quiet, self.warns = quiet, warns or not quiet

    def say(self, sentence: str) -> None:
        if not self.quiet:
            print(plain(sentence), file=sys.stderr, flush=True)

    def warn(self, sentence: str) -> None:
        if self.warns:
            print(f"Warning: {plain(sentence)}", file=sys.stderr, flush=True)

    def start(self, epochs: int, steps: int, first_epoch: int, first_step: int) -> None:
        self.epochs = epochs

    units: Mapping[str, str] = UNITS  # of the run's figures

    def step(self, epoch: int, done: int, totals: Callable[[], Mapping[str, float]]) -> None:
        """After every step; `totals` costs a look at the device, so it is called rarely."""

    def epoch(self, line: Mapping[str, Any]) -> None:
        self.say(epoch_line(line, self.epochs, self.units))

    def stop(self) -> None:
        """Whatever happened, the display is over."""

    @contextmanager
    def passing(self, label: str, total: int, missing: int) -> Iterator[Callable[[int], None]]:
        """A pass over images: give a function that says how many more are done."""
        if self.quiet:
            yield lambda more: None
            return
        kept = f", {total - missing:,} of them already in the cache" if missing < total else ""
        self.say(f"Computing the features of {label}: {total:,} images{kept}.")
        started = said = time.monotonic()
        done = 0
        bars = open_bars() if sys.stderr.isatty() else None
        if bars:
            task = bars.add_task(label, total=total, completed=total - missing, note="")

        def advance(more: int) -> None:
            nonlocal done, said
            done += more
            now = time.monotonic()
            rate = done / max(now - started, 1e-9)
            left = duration((missing - done) / max(rate, 1e-9))
            pace = f"{rate:,.1f} images/s, {left} left"
            if bars:
                bars.update(task, advance=more, note=pace)
            elif now - said >= EVERY:
                said = now
                self.say(f"{label}: {total - missing + done:,} of {total:,} images, {pace}")

        with bars or nullcontext():
            yield advance
        taken = max(time.monotonic() - started, 1e-9)
        self.say(f"{label}: done in {duration(taken)}, {missing / taken:,.1f} images/s.")


class Reporting(Display):
    """Silent; tells somebody else how many images of a pass are done."""

    def __init__(self, report: Callable[[int], None]) -> None:
        super().__init__(quiet=True)
        self._report = report

    @contextmanager
    def passing(self, label: str, total: int, missing: int) -> Iterator[Callable[[int], None]]:
        yield self._report


class Bars(Display):
    """Two bars, epochs and steps, with the running loss, the rate and the time left."""

    def start(self, epochs: int, steps: int, first_epoch: int, first_step: int) -> None:
        super().start(epochs, steps, first_epoch, first_step)
        self._bars = open_bars()
        self._steps = steps
        add, done = self._bars.add_task, first_epoch * steps + first_step
        self._epoch_bar = add("epoch", total=epochs * steps, completed=done, note="")
        self._step_bar = add("step", total=steps, completed=first_step, note="")
        self._seen = 0.0
        self._bars.start()

    def step(self, epoch: int, done: int, totals: Callable[[], Mapping[str, float]]) -> None:
        now = time.monotonic()
        if now - self._seen < REFRESH and done < self._steps:
            return
        self._seen = now
        title, in_all = f"epoch {epoch} of {self.epochs}", (epoch - 1) * self._steps + done
        self._bars.update(self._epoch_bar, completed=in_all, description=title)
        self._bars.update(self._step_bar, completed=done, note=_figures(totals(), self.units))

    def epoch(self, line: Mapping[str, Any]) -> None:
        if not self.quiet:
            self._bars.console.print(
                epoch_line(line, self.epochs, self.units), highlight=False, markup=False
            )

    def stop(self) -> None:
        if hasattr(self, "_bars"):
            self._bars.stop()


def open_bars() -> Progress:
    """Bars that are gone when they are done."""
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=24),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}"),
        console=Console() if in_notebook() else Console(stderr=True),
        transient=True,
    )


def open_display(quiet: bool) -> Display:
    """Bars where they can be drawn, lines elsewhere; of processes that train together the first."""
    if process()[0]:
        return Display(quiet=True)
    if not quiet and (sys.stderr.isatty() or in_notebook()):
        return Bars()
    return Display(quiet)


def in_notebook() -> bool:
    """Whether bars can be drawn in a notebook: rich needs ipywidgets for that."""
    return "ipykernel" in sys.modules and importlib.util.find_spec("ipywidgets") is not None


def _figures(scores: Mapping[str, float], units: Mapping[str, str]) -> str:
    return "  ".join(named(name, value, units) for name, value in scores.items())


def epoch_line(line: Mapping[str, Any], epochs: int, units: Mapping[str, str]) -> str:
    """An epoch's metrics as one line."""
    splits, width = ("train_", "validation_", "test_"), len(str(epochs))
    scores = {k: v for k, v in line.items() if k.startswith(splits) and not k.endswith("top5")}
    tail = f"{line['images_per_second']:,.0f} images/s  {line['seconds']:.1f} s"
    return f"epoch {line['epoch']:>{width}}/{epochs}  {_figures(scores, units)}  {tail}"
