"""What people read: sentences of the library, figures, a progress bar.

The library speaks through the logger `zoo`, which it does not configure; the command line shows it.
"""

from __future__ import annotations

import fnmatch
import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

# Of the figures of built-in tasks, for what does not say them; "%" is a share from 0 to 1.
UNITS: Mapping[str, str] = dict.fromkeys(
    (
        "accuracy", "balanced_accuracy", "top5", "f1", "map", "precision", "recall", "macro_f1",
        "auc", "ece", "aurc",
    ), "%",
)  # fmt: skip
EVERY = 30.0  # seconds between two lines of progress where there is no terminal

# What a terminal obeys instead of showing it, what turns the order of letters around, and halves of
# letters, which cannot be written at all; names of files may have them.
UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
LONGEST = 2000  # letters of a line that somebody else wrote

_shown = _quiet = False


def visible(text: str) -> str:
    """A text of strangers for a file: nothing in it moves a cursor or hides a part."""
    return UNPRINTABLE.sub(lambda m: m[0] if m[0] in "\n\t" else ascii(m[0])[1:-1], text)


def plain(text: str) -> str:
    """The same for a terminal: lines and tabs stay, and a line that is too long is cut."""
    text = visible(text)
    if len(text) > LONGEST:
        lines = (e if len(e) <= LONGEST else f"{e[:LONGEST]} ..." for e in text.split("\n"))
        text = "\n".join(lines)
    return text


def say(sentence: str) -> None:
    """Tell what happens: a message of level INFO."""
    _logger().info("%s", sentence)


def warn(sentence: str) -> None:
    """Tell what is wrong and was worked around: a message of level WARNING."""
    _logger().warning("%s", sentence)


def show_on_stderr(quiet: bool = False) -> None:
    """Print what `say` and `warn` get, as the command line does; with --quiet it does not."""
    global _shown, _quiet
    _shown, _quiet = True, quiet


def _logger() -> logging.Logger:
    # Imported, and set up for show_on_stderr, at the first sentence: most commands have none, and
    # the import would cost each of them 3 ms.
    import logging

    logger = logging.getLogger("zoo")
    if _shown and not logger.handlers:

        class Printer(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                start = "Warning: " if record.levelno >= logging.WARNING else ""
                if not _quiet:
                    print(f"{start}{plain(record.getMessage())}", file=sys.stderr, flush=True)

        logger.addHandler(Printer())
        logger.setLevel(logging.INFO)
    return logger


def typed(command: str, *words: object) -> str:
    """A command as one can copy it into a shell, whatever stands in its paths."""
    import shlex  # hints are rare

    return f"{command} {shlex.join(map(str, words))}"


def label(name: str) -> str:
    """`test_top5` -> `test top-5 accuracy`."""
    return name.replace("top5", "top-5_accuracy").replace("_", " ")


def figure(name: str, value: float, units: Mapping[str, str] | None = None) -> str:
    """The value of a metric, of a split or not; units: those of its run, where that is known."""
    units = UNITS if units is None else units
    unit = units.get(name) or units.get(name.partition("_")[2], "")
    if unit == "%":
        return percent(value)
    return f"{value:.4f} {unit}".rstrip() if unit != "nats" else f"{value:.4f}"


def interval_text(
    name: str, ends: tuple[float, float] | None, units: Mapping[str, str] | None = None
) -> str | None:
    """`85.68 to 87.03`, in the unit of the figure."""
    if ends is None:
        return None
    units = UNITS if units is None else units
    scale, digits = (100, 2) if units.get(name) == "%" else (1, 4)
    return " to ".join(f"{scale * end:.{digits}f}" for end in ends)


def with_interval(
    name: str, value: float, known: Mapping[str, tuple[float, float]],
    units: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """`86.37 % (85.68 to 87.03)`; known: intervals by the names of figures."""
    ends = interval_text(name, known.get(name), units)
    return figure(name, value, units) + (f" ({ends})" if ends else "")


def named(name: str, value: float, units: Mapping[str, str] = UNITS) -> str:
    """`accuracy 91.20 %`, for a line of several."""
    if name == "images_per_second":
        return f"{value:,.0f} images/s"
    return f"{label(name)} {figure(name, value, units)}"


def matches(text: str, names: Iterable[str], words: Iterable[str]) -> bool:
    """Whether a glob fits one of the names, or a plain text is a part of one of the words."""
    if any(letter in text for letter in "*?["):
        return any(fnmatch.fnmatchcase(name, text) for name in names)
    return any(text.lower() in word.lower() for word in words)


def numeric(texts: Iterable[str | None]) -> bool:
    """Whether a column of a table has numbers only, which are aligned to the right."""
    try:
        return all(math.isfinite(float(text)) for text in texts if text is not None)
    except ValueError:
        return False


def percent(fraction: float) -> str:
    """A share as people read it."""
    return f"{100 * fraction:.2f} %"


def duration(seconds: float) -> str:
    """Seconds as people read them."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(bytes_: int) -> str:
    """A number of bytes as people read it: `1.2 MB`."""
    value = float(bytes_)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


@contextmanager
def progress(
    label: str, total: int, *, measure: Callable[[], int] | None = None
) -> Iterator[Callable[[int], None]]:
    """Show how far long work is: a bar on a terminal, elsewhere a sentence now and then.

    Gives a function to call with how many more are done. measure: asked now and then how many bytes
    are done, where nobody can call.
    """
    done, ended = 0, threading.Event()

    def advance(more: int) -> None:
        nonlocal done
        done += more
        show(done)

    def watch(measure: Callable[[], int]) -> None:
        while not ended.wait(0.2):
            show(measure())

    with ExitStack() as stack:
        show = _lines(label, total, size if measure else "{:,}".format)
        if sys.stderr.isatty() and not _quiet:
            show = stack.enter_context(_bar(label, total, bool(measure)))
        if measure:
            thread = threading.Thread(target=watch, args=(measure,), daemon=True)
            stack.callback(thread.join)
            stack.callback(ended.set)
            thread.start()
        yield advance


@contextmanager
def _bar(label: str, total: int, in_bytes: bool) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn

    counter = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counter)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total or None)
        yield lambda done: bar.update(task, completed=done)


def _lines(label: str, total: int, words: Callable[[int], str]) -> Callable[[int], None]:
    said = time.monotonic()

    def show(done: int) -> None:
        nonlocal said
        if time.monotonic() - said >= EVERY:
            said = time.monotonic()
            say(f"{label}: {words(done)}{f' of {words(total)}' if total else ''}")

    return show
