"""zoo runs, report and compare: what was trained."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from zoo_core.cli import options
from zoo_core.cli.output import Answer, Group, command, echo, group, note, print_table, say
from zoo_core.io.console import duration, figure, label, numeric, percent, size
from zoo_core.io.errors import os_errors
from zoo_core.runs.compare import Comparison
from zoo_core.runs.leftovers import measure
from zoo_core.runs.run import find_any, runs_and_searches, runs_root
from zoo_core.runs.summary import QUIET, Summary, matching, summarize_any
from zoo_core.spec.settings import as_typed

MADE_BY = {"run": "train", "search": "tune", "sweep": "sweep"}
MOST_FIGURES = 6  # columns for what a task measures besides loss and accuracy


class TextOrCommand(Group):
    """A group with an argument of its own, which click would otherwise fill with `remove`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        chosen = bool(args) and args[0] in self.commands
        ctx.allow_interspersed_args = not chosen  # so that --json may follow TEXT
        return super().parse_args(ctx, ["", *args] if chosen else args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """None for the usage of `remove`, which would begin with `zoo runs [TEXT]`."""
        return super().get_params(ctx) if ctx.command is self else []


@group(
    cls=TextOrCommand, invoke_without_command=True, subcommand_metavar="", json_help="Print JSON."
)
@click.argument("text", default="")
@options.runs_option
@click.pass_context
def runs_command(ctx: click.Context, text: str, runs: Path | None) -> Answer | None:
    """List the runs and searches, newest last.

    TEXT is a pattern such as "cnn-*", or a word to look for in name, model, dataset, status and
    kind, which is run, search or sweep.

    Examples:
      zoo runs "cnn-*"
      zoo runs interrupted --json
      zoo runs sweep
      zoo runs remove cnn-cifar10-20261116T101500Z
    """
    if ctx.invoked_subcommand:
        return None
    root = runs_root(runs)
    every = [summarize_any(one) for one in runs_and_searches(root)]
    found = matching(text, every)
    empty = f"None of the {len(every)} runs in {root} matches."
    if not every:
        empty = f"There are no runs in {root}. zoo train MODEL makes one."

    def show() -> None:
        trained = [s for s in found if s.kind == "run"]
        searches = [s for s in found if s.kind != "run"]
        # A column that is empty, or that the accuracy makes needless, takes room for nothing.
        generative = any(s.accuracy is None and s.loss is not None for s in trained)
        classifying = any(s.accuracy is not None for s in trained)
        figures = ["#loss"] * generative + ["#accuracy"] * (classifying or not generative)
        columns = ["run", "model", "dataset", "status", "#epochs", "#time", *figures]
        narrow = ["dataset", "model"]  # do without these: the name says them
        if trained or not searches:
            rows = [cells(s) for s in trained]
            print_table(columns, rows, [*narrow, "#epochs", "#time"], empty)
        if searches:
            echo("\n" * bool(trained), nl=False)
            columns = ["search", "model", "dataset", "status", "#trials", "#time"]
            columns += ["#loss", "#accuracy", "best"]
            rows = [cells(s) for s in searches]
            print_table(columns, rows, [*narrow, "#time", "#accuracy", "#loss"])
        for s in found:
            if s.error:
                echo(f"\n{s.run} is {s.status}: {s.error.rstrip('.')}.")
        if quiet := [s for s in found if s.shown_status == "running?"]:
            commands = sorted({MADE_BY[s.kind] for s in quiet})
            resume = " or ".join(f"zoo {name} --resume NAME" for name in commands)
            why = f"Either it is slow, or it was killed; {resume} continues it."
            note(f"\nrunning?: nothing was written for {QUIET // 60} minutes. {why}")

    return Answer(found, show)


def cells(summary: Summary) -> dict[str, object]:
    """A summary as people read it, by the columns of all tables."""
    best = (summary.best or {}).items()
    # Figures of training images, or of those that decided when to stop, are marked as such; those
    # of a search always are the latter.
    marked = summary.split not in ("test", "") and summary.kind != "search"
    other = f" ({summary.split})" if marked else ""
    return {
        "run": summary.run,
        "search": summary.run,
        "trials": None if summary.trials is None else f"{summary.trials}/{summary.planned}",
        "best": " ".join(f"{name}={as_typed(value)}" for name, value in best) or None,
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


@runs_command.command()
@click.argument("references", metavar="RUN...", nargs=-1, required=True,
                shell_complete=options.complete_any)  # fmt: skip
@options.runs_option
@options.yes_option
def remove(references: tuple[str, ...], runs: Path | None, yes: bool) -> Answer:
    """Delete runs or searches.

    All that is in them is deleted: weights, metrics, trials, report. RUN is a path, a name of
    `zoo runs`, or latest, the newest run or search.

    Examples:
      zoo runs remove latest --yes     without asking
      zoo runs remove tune-mlp-cifar10-20261116T101500Z
    """
    found = {one.path: one for one in (find_any(reference, runs) for reference in references)}
    with ExitStack() as held:
        for one in found.values():
            held.enter_context(one.locked())  # what a process works on is not deleted
        sizes = {path: measure(path)[1] for path in found}
        names = ", ".join(f"{path} ({size(used)})" for path, used in sizes.items())
        options.confirm(f"Delete {names}?", yes)
        for path, used in sizes.items():
            with os_errors(f"{path} could not be deleted"):
                shutil.rmtree(path)
            say(f"Deleted {path}, {size(used)}.")
    return Answer([{"path": path, "bytes": used} for path, used in sizes.items()])


@command()
@click.argument("run", shell_complete=options.complete_any)
@options.runs_option
def report_command(run: str, runs: Path | None) -> Answer:
    """Write the report of a run or a search again.

    RUN is a path, a name of `zoo runs`, or latest, the newest run or search; it may still be
    running. The report is report.md in its directory; the plots are in pictures/ beside it.

    Examples:
      zoo report runs/cnn-cifar10-20261116T101500Z
      zoo report tune-mlp-cifar10-20261116T101500Z
      zoo report latest --json     the paths of all that was written
    """
    from zoo_core.api import report as write

    report = write(run, runs=runs)
    document = {"run": report.path.parent, "report": report.path, "plots": report.plots}
    return Answer(document, str(report.path), remarks=report.remarks)


@command()
@click.argument("references", metavar="RUN RUN...", nargs=-1,
                shell_complete=options.complete_trained)  # fmt: skip
@options.output_option(".png", ".pdf", ".svg", default="compare.png", help="The plot to write.")
@options.runs_option
def compare_command(references: tuple[str, ...], output: Path, runs: Path | None) -> Answer:
    """Compare runs in one table and one plot.

    RUN is a path, a name in the runs folder, latest (the newest run), or weights: cnn.cifar10,
    hf:org/name. What is not a run, a search for example, is skipped. Settings that differ are
    columns. The best accuracy comes first; unfinished runs are shown up to their last epoch. Runs
    that cannot be compared, because they have different datasets or tasks, get a table and a plot
    for each group.

    Examples:
      zoo compare runs/*
      zoo compare runs/*cifar10*
      zoo compare cnn-cifar10-20261116T101500Z latest -o cnn.png
    """
    from zoo_core.report.compared import compare

    compared = compare(*references, runs=runs)
    groups, plots = compared.groups, compared.write(output)

    def show() -> None:
        for number, one in enumerate(groups):
            if len(groups) > 1:
                echo("\n" * bool(number), nl=False)
                click.secho(one.title, bold=True)
            show_comparison(one)
            if plots[number]:
                echo(f"\nPlot: {plots[number]}")

    remarks = []
    for one in groups:
        if one.unlike and any(row.summary.loss is not None for row in one.rows):
            what = f"{', '.join(one.unlike)} {'differs' if len(one.unlike) == 1 else 'differ'}"
            remarks.append(f"{one.title}: the loss has no column, because {what}.")
    document = [
        asdict(row.summary)
        | {"group": one.title, "note": row.note}
        | {"settings": {name: row.settings.get(name) for name in one.apart}}
        for one in groups
        for row in one.rows
    ]
    return Answer(
        {"runs": document, "plots": [plot for plot in plots if plot]}, show, remarks=remarks
    )


def show_comparison(one: Comparison) -> None:
    """One table: what was measured, and the settings that differ."""
    summaries = [row.summary for row in one.rows]
    further = list(dict.fromkeys(name for s in summaries for name in s.figures))[:MOST_FIGURES]
    # How many epochs a run has done has a column anyway.
    apart = [name for name in one.apart if name != "epochs"]
    rows = []
    for row in one.rows:
        more = {label(n): known(row.summary.figures.get(n), partial(figure, n)) for n in further}
        settings = {name: row.settings.get(name) for name in apart}
        rows.append({**settings, **cells(row.summary), **more, "note": row.note})
    figures = [] if one.unlike else ["#loss"]
    figures += ["#accuracy", *(f"#{label(name)}" for name in further)]
    numbers = {name: numeric(row.settings.get(name) for row in one.rows) for name in apart}
    differing = [f"#{name}" if numbers[name] else name for name in apart]
    columns = ["model", "run", "dataset", *differing, "#parameters", "#size", "#epochs", "#time"]
    columns += ["#images/s", "#ms/image", *figures]
    columns = [c for c in columns if any(row[c.lstrip("#")] is not None for row in rows)] + ["note"]
    # The name of a run says its model and dataset; a model that only one run has says which run.
    name = "run" if len({s.model for s in summaries}) == len(summaries) else "model"
    spare = ["dataset", "#size", "#images/s", "#ms/image", "#parameters", name, "#time"]
    last = [f"#{label(name)}" for name in reversed(further)] + ["#loss"] * ("#accuracy" in columns)
    print_table(columns, rows, [*spare, tuple(differing), "#epochs", *last])
