"""Every error a user can meet, as one small tree: a sentence, a hint, an exit code."""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

# What the system says where there is no room; Windows has no quota.
FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


class ZooError(Exception):
    """Something could not be done. The message is one sentence; the hint says what to do next."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(f"Hint: {hint}")  # what a traceback in Python shows below the message


class UsageError(ZooError):
    """What was asked for cannot be meant: the request has to change, not the world."""

    exit_code = 2


class UnknownName(UsageError):
    """No plugin provides this name."""


class AmbiguousName(UsageError):
    """More than one plugin provides this name, and none of them wins."""


class OptionError(UsageError):
    """An option that does not exist, or a value that cannot work."""


class EntryError(UsageError):
    """A plugin author's entry contradicts itself; raised while the entry is constructed."""


class PluginError(ZooError):
    """A plugin cannot be used. Raised only in strict mode and when its code is needed."""


class MissingDependency(ZooError):
    """A package that this job needs is not installed."""


class DataError(ZooError):
    """Images or labels that are missing, cannot be read, or are not what they should be."""


class SourceUnavailable(DataError):
    """One source of a dataset cannot be used here and now; the next one is tried."""


class WeightsError(ZooError):
    """Weights that are missing, damaged, or not what they should be; nothing of them was used."""


class ManifestError(WeightsError):
    """A list of weights that cannot be read or says something that it may not say."""


class HubError(WeightsError):
    """A hub that cannot be reached, or that refuses what was asked of it."""


class TrainingError(ZooError):
    """A run stopped before its end: its loss is not a number, or memory or disk space ran out."""


class Interrupted(ZooError):
    """A run was stopped from outside and can be resumed."""

    def __init__(self, message: str, hint: str = "", signal: int = 2) -> None:
        super().__init__(message, hint)
        self.exit_code = 128 + signal


def signal_of(error: BaseException) -> int:
    """The signal that an interruption came from; a KeyboardInterrupt may have the exit code."""
    code = error.exit_code if isinstance(error, Interrupted) else next(iter(error.args), 130)
    return code - 128 if isinstance(code, int) else 2


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "", most: int = 1) -> str:
    """A hint for a word that is not known: the nearest ones, or else something else to say."""
    import difflib  # only when something is wrong already

    by_lower = {name.lower(): name for name in known}
    close = [by_lower[c] for c in difflib.get_close_matches(word[:100].lower(), by_lower, n=most)]
    return f"did you mean {' or '.join(close)}?" if close else otherwise


def check_names(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse the first option that does not exist."""
    for name in given:
        if name not in known:
            otherwise = f"it has: {', '.join(known)}" if known else "it has no options"
            hint = did_you_mean(name, known, otherwise, most=2)
            raise OptionError(f"{owner} has no option {name!r}", hint)


@contextmanager
def os_errors(
    sentence: str, kind: type[ZooError] = ZooError, hint: str = "", full: str = ""
) -> Iterator[None]:
    """Turn an OSError into the sentence that says what could not be done, and why.

    full: the hint where the disk is.
    """
    try:
        yield
    except OSError as error:
        hint = full if full and error.errno in FULL else hint
        raise kind(f"{sentence}: {error.strerror or error}", hint) from error


class Finding(AssertionError):
    """Raised by a check. An AssertionError, so that pytest shows it as a failed test."""

    def __init__(self, what: str, why: str, fix: str) -> None:
        super().__init__(f"{what}.\n  Why it matters: {why}.\n  To fix it: {fix}.")
        self.what, self.why, self.fix = what, why, fix
