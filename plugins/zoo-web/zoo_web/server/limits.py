"""What a server takes, and how it says that something is more."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import zoo

TOP = 3  # classes of an answer, as `zoo predict` shows


@dataclass(frozen=True)
class Limits:
    """Of one request, and of all that are there at the same time."""

    bytes: int = 32_000_000  # of a request
    pixels: int = 32_000_000  # of all images of a request together
    images: int = 64  # of a request
    waiting: int = 256  # requests that are received, wait or are computed
    seconds: float = 30.0  # from the first byte of a request to its answer

    def __post_init__(self) -> None:
        for spec in fields(self):
            if not getattr(self, spec.name) > 0:
                given = getattr(self, spec.name)
                raise zoo.UsageError(f"the limit of {spec.name} must be above 0, not {given}")

    @property
    def held(self) -> int:
        """Bytes of all requests together that are in memory and not decoded yet."""
        return 4 * self.bytes


class Refused(Exception):
    """A request that gets no answer: an HTTP status, a sentence, and what to do."""

    def __init__(self, status: int, sentence: str, hint: str = "", again: bool = False) -> None:
        super().__init__(sentence)
        self.status, self.hint = status, hint
        self.headers = {"retry-after": "1"} if again else {}
        if status == 401:
            self.headers["www-authenticate"] = "Bearer"

    @property
    def document(self) -> dict[str, Any]:
        return {"error": str(self), **({"hint": self.hint} if self.hint else {})}
