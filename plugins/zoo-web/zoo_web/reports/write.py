"""zoo.report_html and zoo.compare_html: from runs to one file that a browser opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import zoo
from zoo import kit
from zoo_web.pages import page
from zoo_web.reports.compare_page import compare_values
from zoo_web.reports.run_page import run_values
from zoo_web.reports.search_page import search_values

SCRIPTS = ("tables.js", "charts.js")


def report_html(run: str | Path, output: str | Path, *, runs: Path | None = None) -> Path:
    """The report of a run or a search as one file, without another file or a request.

    zoo.report_html("latest", "report.html")
    """
    facts = kit.facts_of(run, runs)
    if isinstance(facts, kit.Facts):
        return written(output, "report.html", run_values(facts))
    return written(output, "search.html", search_values(facts))


def compare_html(*references: str | Path, output: str | Path, runs: Path | None = None) -> Path:
    """Runs, sweeps and weights side by side, as one file.

    zoo.compare_html("latest", "cnn.cifar10", output="compare.html")
    """
    return written(output, "compare.html", compare_values(zoo.compare(*references, runs=runs)))


def written(output: str | Path, template: str, values: dict[str, Any]) -> Path:
    path = Path(output)
    if path.suffix not in (".html", ".htm"):
        raise zoo.UsageError(f"{path} must end in .html")
    made = page(template, inline=True, scripts=SCRIPTS, **values)
    with kit.os_errors(f"{path} could not be written"), kit.atomic_write(path) as temporary:
        temporary.write_text(made, encoding="utf-8")
    return path
