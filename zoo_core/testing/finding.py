"""What a check says when it fails: what is wrong, why that matters, how to mend it."""

from __future__ import annotations


class Finding(AssertionError):
    """Raised by a check. An AssertionError, so that pytest shows it as a failed test."""

    def __init__(self, what: str, why: str, fix: str) -> None:
        super().__init__(f"{what}.\n  Why it matters: {why}.\n  To mend it: {fix}.")
        self.what, self.why, self.fix = what, why, fix


class Skipped(Exception):
    """Raised by a check that cannot be made here; the message says why."""
