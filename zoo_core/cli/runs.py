"""zoo runs, report and compare: what was trained."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from zoo_core.cli import options
from zoo_core.cli.output import Answer, Group, command, group, note, print_table
from zoo_core.io.console import duration, figure, label, percent, size, warn
from zoo_core.io.errors import UsageError, os_errors
from zoo_core.runs.run import Run, runs_root
from zoo_core.runs.summary import QUIET, Summary, labels, read_curves, summarize, summarize_any

MOST_FIGURES = 6  # columns for what a task measures besides loss and accuracy


class TextOrCommand(Group):
    """A group with an argument of its own, which click would otherwise fill with `remove`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        chosen = bool(args) and args[0] in self.commands
        ctx.allow_interspersed_args = not chosen  # so that --json may follow TEXT
        return super().parse_args(ctx, ["", *args] if chosen else args)


@group(
    cls=TextOrCommand, invoke_without_command=True, subcommand_metavar="", json_help="Print JSON."
)
@click.argument("text", default="")
@options.runs_option
@click.pass_context
def runs_command(ctx: click.Context, text: str, runs: Path | None) -> Answer | None:
    """List the runs, newest last.

    TEXT is a pattern such as "cnn-*", or a word to look for in name, model, dataset and status.

    Examples:
      zoo runs "cnn-*"
      zoo runs interrupted --json
      zoo runs remove cnn-cifar10-20261116T101500Z
    """
    if ctx.invoked_subcommand:
        return None
    root = runs_root(runs)
    every = [summarize_any(run) for run in Run.every(root)]
    found = [s for s in every if options.matches(text, s.run, s.model, s.dataset, s.shown_status)]
    empty = f"None of the {len(every)} runs in {root} matches."
    if not every:
        empty = f"There are no runs in {root}. zoo train MODEL makes one."

    def show() -> None:
        # A column that is empty, or that the accuracy makes needless, takes room for nothing.
        generative = any(s.accuracy is None and s.loss is not None for s in found)
        classifying = any(s.accuracy is not None for s in found)
        figures = ["#loss"] * generative + ["#accuracy"] * (classifying or not generative)
        columns = ["run", "model", "dataset", "status", "#epochs", *figures, "#time"]
        # The name of a run says its model and dataset.
        print_table(columns, [cells(s) for s in found], spare=("dataset", "model"), empty=empty)
        for s in found:
            if s.error:
                click.echo(f"\n{s.run} is {s.status}: {s.error.rstrip('.')}.")
        if any(s.shown_status == "running?" for s in found):
            why = "Either it is slow, or it was killed; zoo train --resume RUN continues it."
            note(f"\nrunning?: nothing was written for {QUIET // 60} minutes. {why}")

    return Answer(found, show)


def cells(summary: Summary) -> dict[str, object]:
    """A summary as people read it, by the columns of both tables."""
    # Figures of training images, or of those that decided when to stop, are marked as such.
    other = f" ({summary.split})" if summary.split not in ("test", "") else ""
    return {
        "run": summary.run,
        "model": summary.model or None,
        "dataset": summary.dataset or None,
        "status": summary.shown_status,
        "epochs": summary.shown_epochs,
        "parameters": summary.parameters,
        "size": known(summary.bytes, size),
        "time": known(summary.seconds, duration),
        "images/s": known(summary.images_per_second, "{:,.0f}".format),
        "ms/image": known(summary.inference_ms_per_image, "{:.3g}".format),
        "loss": known(summary.loss, lambda loss: f"{loss:.4f}{other}"),
        "accuracy": known(summary.accuracy, lambda share: percent(share) + other),
    }


def known(value: float | None, form: Callable[[Any], str]) -> str | None:
    return None if value is None else form(value)


@runs_command.command(json_help="")
@click.argument("references", metavar="RUN...", nargs=-1, required=True,
                shell_complete=options.complete_runs)  # fmt: skip
@options.runs_option
@options.yes_option
def remove(references: tuple[str, ...], runs: Path | None, yes: bool) -> None:
    """Delete runs with all that is in them: weights, metrics, report.

    Example:
      zoo runs remove latest --yes     without asking
    """
    found = [Run.find(reference, runs) for reference in references]
    for run in found:
        if summarize_any(run).shown_status == "running":
            raise UsageError(f"{run.name} is still running", "stop it with Ctrl-C first")
    names = ", ".join(str(run.path) for run in found)
    if not yes:
        click.confirm(f"Delete {names}?", abort=True, err=True)
    for run in found:
        with os_errors(f"{run.path} could not be deleted"):
            shutil.rmtree(run.path)
        click.echo(f"Deleted {run.path}.")


@command()
@click.argument("run", shell_complete=options.complete_runs)
@options.runs_option
def report_command(run: str, runs: Path | None) -> Answer:
    """Write the report of a run again.

    RUN is a path, a name in the runs folder, or latest; it may still be running. The report is
    report.md in the run directory; its plots are in pictures/ beside it.

    Examples:
      zoo report runs/cnn-cifar10-20261116T101500Z
      zoo report latest --json     the paths of all that was written
    """
    from zoo_core.report.write import build_report

    found = Run.find(run, runs)
    report = build_report(found)
    document = {"run": found.path, "report": report.path, "plots": report.plots}
    return Answer(document, str(report.path), remarks=report.remarks)


@command()
@click.argument("references", metavar="RUN RUN...", nargs=-1,
                shell_complete=options.complete_trained)  # fmt: skip
@options.output_option(".png", ".pdf", ".svg", default="compare.png", help="The plot to write.")
@options.runs_option
def compare_command(references: tuple[str, ...], output: Path, runs: Path | None) -> Answer:
    """Compare runs in one table and one plot.

    RUN is a path, a name in the runs folder, latest, or weights: cnn.cifar10, hf:org/name. The best
    accuracy comes first; unfinished runs are shown up to their last epoch.

    Examples:
      zoo compare runs/*cifar10*
      zoo compare cnn-cifar10-20261116T101500Z latest -o cnn.png
    """
    found = {one.path: (one, run) for one, run in (summary_of(text, runs) for text in references)}
    if len(found) < 2:
        raise click.UsageError("a comparison needs two runs; zoo runs lists them")
    ranked = sorted(found.values(), key=lambda one: rank(one[0]))
    plot = draw(output, [(summary, run) for summary, run in ranked if run is not None])
    summaries = [summary for summary, _ in ranked]
    remarks = remarks_on(summaries)
    # A manifest knows the name of a dataset, and a run its digest as well.
    digests = {(s.dataset, s.digest) for s in summaries if s.digest}
    if len(digests) > 1 or len({s.dataset for s in summaries}) > 1:
        warn("these runs are on different datasets; their figures do not compare.")
    if len({s.task for s in summaries if s.task}) > 1:
        warn("these runs have different tasks; their losses do not compare.")

    def show() -> None:
        further = list(dict.fromkeys(name for s in summaries for name in s.figures))[:MOST_FIGURES]
        rows = []
        for s, remark in zip(summaries, remarks, strict=True):
            more = {label(n): known(s.figures.get(n), partial(figure, n)) for n in further}
            rows.append({**cells(s), **more, "note": remark})
        figures = [] if further and all(s.accuracy is None for s in summaries) else ["#accuracy"]
        figures += [f"#{label(name)}" for name in further]
        columns = ["model", "run", "dataset", "#parameters", "#size", "#epochs", "#time"]
        columns += ["#images/s", "#ms/image", "#loss", *figures, "note"]
        # A narrow terminal does without the names of runs of different models and the one dataset.
        several = {title: len({row[title] for row in rows}) for title in ("model", "dataset")}
        spare = ["run"] * (several["model"] == len(rows)) + ["dataset"] * (several["dataset"] == 1)
        print_table(columns, rows, spare)
        if plot is not None:
            click.echo(f"\nPlot: {plot}")

    rows = [asdict(s) | {"note": note} for s, note in zip(summaries, remarks, strict=True)]
    return Answer({"runs": rows, "plot": plot}, show)


def summary_of(reference: str, runs: Path | None) -> tuple[Summary, Run | None]:
    """A row of the table: a run's, or what a manifest says about weights, which have no curves."""
    from zoo_core.weights.references import published

    weights = published(reference)
    if weights is None:
        run = Run.find(reference, runs)
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


def remarks_on(summaries: Sequence[Summary]) -> list[str]:
    """What to know about each row; the best is the best complete run on its dataset."""
    remarks, seen = [], set()
    for summary in summaries:
        words = [] if summary.status == "complete" else [summary.shown_status]
        if summary.split not in ("test", "") and summary.loss is not None:
            words.append(f"measured on {summary.split}")
        elif summary.status == "complete" and summary.accuracy is not None:
            if summary.dataset not in seen:
                words.append("best")
            seen.add(summary.dataset)
        remarks.append(", ".join(words))
    return remarks


def draw(output: Path, drawn: Sequence[tuple[Summary, Run]]) -> Path | None:
    """Draw the curves of all runs, if there is matplotlib to draw with."""
    if not drawn:
        return None
    try:
        from zoo_core.report.plots import Line, draw_comparison
    except ImportError:
        note("No plot without matplotlib: pip install 'zoo-core[report]'")
        return None
    names = labels([run.read() for _, run in drawn], [run.name for _, run in drawn])
    lines = [
        Line(name, read_curves(run), summary.seconds, summary.accuracy)
        for name, (summary, run) in zip(names, drawn, strict=True)
    ]
    with os_errors(f"{output} could not be written"):
        draw_comparison(output, lines)
    return output
