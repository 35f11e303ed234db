"""zoo compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from zoo_core.cli.output import complete_trained, note, print_json, print_table
from zoo_core.io.console import duration, figure, label, percent, size
from zoo_core.io.errors import UsageError, ZooError
from zoo_core.runs.run import Run, find_run
from zoo_core.runs.summary import Summary, curves_of, labels, reading, summarize

MOST_FIGURES = 6  # columns for what a task measures besides loss and accuracy


@click.command(
    epilog="""\b
Examples:
  zoo compare runs/*cifar10*
  zoo compare cnn-cifar10-20261116T101500Z latest -o cnn.png
  zoo compare runs/* --json
"""
)
@click.argument("references", metavar="RUN RUN...", nargs=-1, shell_complete=complete_trained)
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("compare.png"),
              show_default=True, help="The picture.")  # fmt: skip
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(references: tuple[str, ...], output: Path, runs: Path | None, as_json: bool) -> None:
    """Compare runs in one table and one picture.

    RUN is a path, a name in the runs folder, latest, or weights: cnn.cifar10, hf:org/name. The best
    accuracy comes first; runs that are not finished are shown as far as they are.
    """
    found = {one.path: (one, run) for one, run in (summary_of(text, runs) for text in references)}
    if len(found) < 2:
        raise click.UsageError("a comparison needs two runs; zoo runs lists them")
    ranked = sorted(found.values(), key=lambda one: rank(one[0]))
    summaries = [summary for summary, _ in ranked]
    drawn = [(summary, run) for summary, run in ranked if run is not None]
    picture = draw(output, [s for s, _ in drawn], [r for _, r in drawn]) if drawn else None
    rows = [
        asdict(s) | {"note": remark} for s, remark in zip(summaries, notes(summaries), strict=True)
    ]
    # A manifest knows the name of a dataset, and a run its digest as well.
    digests = {(s.dataset, s.digest) for s in summaries if s.digest}
    if len(digests) > 1 or len({s.dataset for s in summaries}) > 1:
        note("Warning: these runs are on different datasets; their figures do not compare.")
    if len({s.task for s in summaries if s.task}) > 1:
        note("Warning: these runs have different tasks; their losses do not compare.")
    if as_json:
        print_json({"runs": rows, "picture": None if picture is None else str(picture)})
        return
    further = list(dict.fromkeys(name for s in summaries for name in s.figures))[:MOST_FIGURES]
    cells = [table_row(row, further) for row in rows]
    if further and all(s.accuracy is None for s in summaries):
        cells = [{k: v for k, v in row.items() if k != "#accuracy"} for row in cells]
    print_table(list(cells[0]), [list(row.values()) for row in cells], spare_columns(cells))
    if picture is not None:
        click.echo(f"\nPicture: {picture}")


def summary_of(reference: str, runs: Path | None) -> tuple[Summary, Run | None]:
    """A row of the table: a run's, or what a manifest says about weights, which have no curves."""
    from zoo_core.weights.references import published

    weights = published(reference)
    if weights is None:
        run = find_run(reference, runs)
        return summarize(run), run
    figures = {name.partition("_")[2]: value for name, value in weights.metrics.items()}
    summary = Summary(
        run=weights.name,
        path=weights.sources[0] if weights.sources else weights.sha256,
        status="complete",
        model=weights.model,
        dataset=weights.dataset,
        parameters=weights.parameters,
        bytes=weights.bytes,
        split=next(iter(weights.metrics), "test").partition("_")[0],
        loss=figures.get("loss"),
        accuracy=figures.get("accuracy"),
    )
    return summary, None


def rank(summary: Summary) -> tuple[float, float]:
    """The most accurate first, then by loss; what has neither comes last."""
    loss = float("inf") if summary.loss is None else summary.loss
    return -1.0 if summary.accuracy is None else -1 - summary.accuracy, loss


def notes(summaries: Sequence[Summary]) -> list[str]:
    """What to know about each row; the best is the best complete run on its dataset."""
    told, seen = [], set()
    for summary in summaries:
        words = [] if summary.status == "complete" else [summary.shown_status]
        if summary.split not in ("test", "") and summary.loss is not None:
            words.append(f"measured on {summary.split}")
        elif summary.status == "complete" and summary.accuracy is not None:
            if summary.dataset not in seen:
                words.append("best")
            seen.add(summary.dataset)
        told.append(", ".join(words))
    return told


def table_row(row: dict[str, Any], further: Sequence[str]) -> dict[str, object]:
    def shown(name: str, form: Any) -> str | None:
        return None if row[name] is None else form(row[name])

    figures = row["figures"]
    return {
        "model": row["model"],
        "run": row["run"],
        "dataset": row["dataset"],
        "#parameters": row["parameters"],
        "#size": shown("bytes", size),
        "#epochs": None if row["planned"] is None else f"{row['epochs']}/{row['planned']}",
        "#time": shown("seconds", duration),
        "#images/s": shown("images_per_second", "{:,.0f}".format),
        "#ms/image": shown("inference_ms_per_image", "{:.3g}".format),
        "#loss": shown("loss", "{:.4f}".format),
        "#accuracy": shown("accuracy", percent),
        **{
            f"#{label(name)}": None if (found := figures.get(name)) is None else figure(name, found)
            for name in further
        },
        "note": row["note"],
    }


def spare_columns(rows: Sequence[dict[str, object]]) -> list[str]:
    """What a narrow terminal can do without: names of runs of different models, the one dataset."""
    several = {title: len({row[title] for row in rows}) for title in ("model", "dataset")}
    return ["run"] * (several["model"] == len(rows)) + ["dataset"] * (several["dataset"] == 1)


def draw(output: Path, summaries: Sequence[Summary], runs: Sequence[Run]) -> Path | None:
    """Draw the curves of all runs, if there is matplotlib to draw with."""
    try:
        from zoo_core.report.comparison import Line, draw_comparison
        from zoo_core.report.drawing import FORMATS
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
    try:
        draw_comparison(output, lines)
    except OSError as error:
        raise ZooError(f"{output} could not be written: {error.strerror}") from error
    return output
