"""zoo compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from zoo_core.cli.names import complete_runs
from zoo_core.cli.output import note, print_json, print_table, size
from zoo_core.errors import UsageError
from zoo_core.report.facts import Summary, curves_of, duration, labels, percent, reading, summarize
from zoo_core.train.run import Run, find_run


@click.command(
    epilog="""\b
Examples:
  zoo compare runs/*cifar10*
  zoo compare cnn-cifar10-20261116T101500Z latest -o cnn.png
  zoo compare runs/* --json
"""
)
@click.argument("references", metavar="RUN RUN...", nargs=-1, shell_complete=complete_runs)
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("compare.png"),
              show_default=True, help="The picture.")  # fmt: skip
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(references: tuple[str, ...], output: Path, runs: Path | None, as_json: bool) -> None:
    """Compare runs in one table and one picture.

    RUN is a path, a name in the runs folder, or latest. The best accuracy comes first; runs that
    are not finished are shown as far as they are.
    """
    found = {run.path.resolve(): run for run in (find_run(text, runs) for text in references)}
    if len(found) < 2:
        raise click.UsageError("a comparison needs two runs; zoo runs lists them")
    ranked = sorted(((summarize(run), run) for run in found.values()), key=lambda one: rank(one[0]))
    summaries = [summary for summary, _ in ranked]
    picture = draw(output, summaries, [run for _, run in ranked])
    rows = [
        asdict(s) | {"note": remark} for s, remark in zip(summaries, notes(summaries), strict=True)
    ]
    if len({(s.dataset, s.digest) for s in summaries}) > 1:
        note("Warning: these runs are on different datasets; their figures do not compare.")
    if as_json:
        print_json({"runs": rows, "picture": None if picture is None else str(picture)})
        return
    print_table(
        ["model", "run", "dataset", "#parameters", "#size", "#epochs", "#time", "#images/s",
         "#ms/image", "#loss", "#accuracy", "note"],
        [table_row(row) for row in rows],
    )  # fmt: skip
    if picture is not None:
        click.echo(f"\nPicture: {picture}")


def rank(summary: Summary) -> tuple[float, float]:
    """The most accurate first, then by loss; what has neither comes last."""
    loss = float("inf") if summary.loss is None else summary.loss
    return -1.0 if summary.accuracy is None else -1 - summary.accuracy, loss


def notes(summaries: Sequence[Summary]) -> list[str]:
    """What to know about each row; the best is the best complete run on its dataset."""
    told, seen = [], set()
    for summary in summaries:
        words = [] if summary.status == "complete" else [summary.shown_status]
        if summary.split not in ("test", ""):
            words.append(f"measured on {summary.split}")
        elif summary.status == "complete" and summary.accuracy is not None:
            if summary.digest not in seen:
                words.append("best")
            seen.add(summary.digest)
        told.append(", ".join(words))
    return told


def table_row(row: dict[str, Any]) -> list[object]:
    def shown(name: str, form: Any) -> str | None:
        return None if row[name] is None else form(row[name])

    return [
        row["model"],
        row["run"],
        row["dataset"],
        row["parameters"],
        shown("bytes", size),
        f"{row['epochs']}/{row['planned']}",
        shown("seconds", duration),
        shown("images_per_second", "{:,.0f}".format),
        shown("inference_ms_per_image", "{:.3g}".format),
        shown("loss", "{:.4f}".format),
        shown("accuracy", percent),
        row["note"],
    ]


def draw(output: Path, summaries: Sequence[Summary], runs: Sequence[Run]) -> Path | None:
    """Draw the curves of all runs, if there is matplotlib to draw with."""
    try:
        from zoo_core.report.pictures import FORMATS, Line, draw_comparison
    except ImportError:
        note("No picture without matplotlib: pip install 'zoo-core[report]'")
        return None
    if output.suffix not in FORMATS:
        raise UsageError(f"{output} must end in one of {', '.join(FORMATS)}")
    names = labels([run.read() for run in runs], [run.name for run in runs])
    lines = []
    for name, run, summary in zip(names, runs, summaries, strict=True):
        with reading(run):
            curves = curves_of(run.metrics())
        lines.append(Line(name, curves, summary.seconds, summary.accuracy))
    draw_comparison(output, lines)
    return output
