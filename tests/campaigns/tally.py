"""What a campaign counts."""

from dataclasses import dataclass


@dataclass
class Tally:
    tried: int
    survived: int
    failed: list[str]
