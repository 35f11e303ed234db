"""The table of docs/reliability.md: a row for each run of the campaigns, and their sum."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from campaigns.tally import Tally

BEGIN, END = "<!-- campaigns -->", "<!-- end of campaigns -->"
NAMES = ("kills", "calls", "mutations", "hub", "plugins")
HEAD = f"| date | seed | minutes | {' | '.join(NAMES)} |"
RULE = "|---" * (3 + len(NAMES)) + "|"


def record(file: Path, date: str, seed: int, minutes: float, counted: Mapping[str, Tally]) -> None:
    """Add a row to the table in a file; the last row is the sum of all."""
    before, _, rest = file.read_text("utf-8").partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = [line for line in table.splitlines() if line.startswith("| 2")]
    cells = [_cell(counted.get(name)) for name in NAMES]
    rows.append(f"| {date} | {seed} | {minutes:.0f} | {' | '.join(cells)} |")
    lines = [BEGIN, HEAD, RULE, *rows, _sum(rows), END]
    file.write_text(before + "\n".join(lines) + after, "utf-8")


def _cell(tally: Tally | None) -> str:
    if tally is None:
        return "-"
    return f"{tally.tried:,} / {tally.survived:,} / {len(tally.failed):,}"


def _sum(rows: list[str]) -> str:
    minutes, sums = 0, [[0, 0, 0] for _ in NAMES]
    for row in rows:
        _, _, took, *cells = [cell.strip() for cell in row.strip("| ").split("|")]
        minutes += int(took)
        for total, cell in zip(sums, cells, strict=True):
            if cell != "-":
                numbers = [int(part.replace(",", "")) for part in cell.split("/")]
                total[:] = [old + new for old, new in zip(total, numbers, strict=True)]
    cells = [" / ".join(f"{number:,}" for number in total) for total in sums]
    return f"| all | | {minutes} | {' | '.join(cells)} |"
