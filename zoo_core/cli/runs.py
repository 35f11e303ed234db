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
from zoo_core.cli.output import Answer, Group, command, echo, group, note, print_part, print_table
from zoo_core.io.console import (
    duration,
    figure,
    interval_text,
    label,
    numeric,
    percent,
    size,
)
from zoo_core.io.errors import os_errors
from zoo_core.runs.compare import Comparison, Pair
from zoo_core.runs.leftovers import measure
from zoo_core.runs.run import find_any, runs_and_searches, runs_root
from zoo_core.runs.statistics import enough_seeds
from zoo_core.runs.summary import QUIET, Summary, matching, summarize_any
from zoo_core.spec.settings import as_typed

MADE_BY = {"run": "train", "search": "tune", "sweep": "sweep"}
MOST_TIES = 3  # sentences
ONE_SEED = (
    "Some rows have one seed: another may change the order. zoo train MODEL --seeds 3 has more."
)
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
        figures += ["interval"] * any(s.intervals for s in trained)
        columns = ["run", "model", "dataset", "status", "#epochs", "#time", *figures]
        narrow = ["dataset", "model"]  # do without these: the name says them
        if trained or not searches:
            rows = [cells(s) for s in trained]
            print_table(columns, rows, [*narrow, "#epochs", "#time", "interval"], empty)
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
    other = f" ({summary.split})" if marked else " (chosen on test)" * summary.selected
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
        "interval": interval_text("accuracy", summary.intervals.get("accuracy"), summary.units),
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
            print_part(f"Deleted {path}, {size(used)}.")
    return Answer([{"path": path, "bytes": used} for path, used in sizes.items()])


@command()
@click.argument("run", shell_complete=options.complete_any)
@options.html_option
@options.runs_option
def report_command(run: str, html: Path | None, runs: Path | None) -> Answer:
    """Write the report of a run or a search again.

    RUN is a path, a name of `zoo runs`, or latest, the newest run or search; it may still be
    running. The report is report.md in its directory; the plots are in pictures/ beside it.

    Examples:
      zoo report runs/cnn-cifar10-20261116T101500Z
      zoo report tune-mlp-cifar10-20261116T101500Z
      zoo report latest --json     the paths of all that was written
      zoo report latest --html report.html
    """
    if html:
        from zoo_core.spec.registry import brought

        page = brought("report_html", "--html")(run, html, runs=runs)
        return Answer({"html": page}, str(page))
    from zoo_core.api import report as write

    report = write(run, runs=runs)
    document = {"run": report.path.parent, "report": report.path, "plots": report.plots}
    return Answer(document, str(report.path), remarks=report.remarks)


@command()
@click.argument("references", metavar="RUN RUN...", nargs=-1,
                shell_complete=options.complete_trained)  # fmt: skip
@options.output_option(".png", ".pdf", ".svg", default="compare.png", help="The plot to write.")
@options.html_option
@options.runs_option
def compare_command(
    references: tuple[str, ...], output: Path, html: Path | None, runs: Path | None
) -> Answer:
    """Compare runs in one table and one plot.

    RUN is a path, a name in the runs folder, latest (the newest run), or weights: cnn.cifar10,
    hf:org/name, a .safetensors file. What is not a run, a search for example, is skipped. Settings
    that differ are columns; runs that differ by the seed alone are one row. A row has the rank of
    another one if the test images, and the seeds, cannot tell them apart. Unfinished runs are shown
    up to their last epoch. Runs that cannot be compared, because they have different datasets or
    tasks, get a table and a plot for each group.

    Examples:
      zoo compare runs/*
      zoo compare runs/*cifar10*
      zoo compare cnn-cifar10-20261116T101500Z latest -o cnn.png
      zoo compare cnn resnet18 --html compare.html
    """
    if html:
        from zoo_core.spec.registry import brought

        page = brought("compare_html", "--html")(*references, output=html, runs=runs)
        return Answer({"html": page}, str(page))
    from zoo_core.report.compared import compare

    compared = compare(*references, runs=runs)
    groups, plots = compared.groups, compared.write(output)

    def show() -> None:
        for number, (one, plot) in enumerate(zip(groups, plots, strict=True)):
            if len(groups) > 1:
                echo("\n" * bool(number), nl=False)
                click.secho(one.title, bold=True)
            show_comparison(one)
            if plot is not None:
                echo(f"\nPlot: {plot}")

    remarks = []
    for one in groups:
        if one.unlike and any(row.summary.loss is not None for row in one.rows):
            what = f"{', '.join(one.unlike)} {'differs' if len(one.unlike) == 1 else 'differ'}"
            remarks.append(f"{one.title}: the loss has no column, because {what}.")
    document = [
        asdict(row.summary)
        | {"group": one.title, "rank": team.rank, "note": team.note}
        | {"settings": {name: row.settings.get(name) for name in one.apart}}
        for one in groups
        for team in one.teams
        for row in team.rows
    ]
    found = {
        "runs": document,
        "teams": [
            {"group": one.title, "runs": [row.summary.run for row in team.rows], "rank": team.rank,
             "figure": team.summary.ranks, "seeds": team.seeds}
            for one in groups for team in one.teams
        ],
        "pairs": [told_pair(one, pair) for one in groups for pair in one.pairs],
        "plots": [plot for plot in plots if plot],
    }  # fmt: skip
    return Answer(found, show, remarks=remarks)


def told_pair(one: Comparison, pair: Pair) -> dict[str, Any]:
    """A pair for programs; the difference is the first minus the second."""
    sides = [one.teams[place] for place in pair.places]
    images, seeds = pair.images, pair.seeds
    return {
        "group": one.title,
        "runs": [[row.summary.run for row in team.rows] for team in sides],
        "figure": pair.figure,
        "different": pair.different,
        "p": pair.p,
        "images": images and asdict(images) | {"enough": images_needed(one, pair)},
        "seeds": seeds and asdict(seeds) | {"enough": seeds_needed(one, pair)},
    }


def images_needed(one: Comparison, pair: Pair) -> int | None:
    count = one.teams[pair.places[0]].summary.images
    return pair.images.enough(count) if pair.images and count else None


def seeds_needed(one: Comparison, pair: Pair) -> int | None:
    counts = (len(one.teams[place].values) for place in pair.places)
    return enough_seeds(pair.seeds, *counts) if pair.seeds else None


def verdicts(one: Comparison) -> list[str]:
    """Sentences: what the first row is better than for sure, and what it ties with."""
    told: list[str] = []
    sure = next((pair for pair in one.pairs if pair.different and not pair.places[0]), None)
    if sure:
        first, second = (one.label(place) for place in sure.places)
        told.append(f"{first} is better than {second} by {gap(one, sure)}.")
    ties = [pair for pair in one.pairs if not pair.places[0] and not pair.different]
    ties = [pair for pair in ties if one.teams[pair.places[1]].rank == one.teams[0].rank]
    for pair in ties[:MOST_TIES]:
        names = " and ".join(one.label(place) for place in pair.places)
        needed = [
            (pair.images, images_needed(one, pair), "images"),
            (pair.seeds, seeds_needed(one, pair), "seeds each"),
        ]
        settled = [f"{roughly(count)} {what}" for made, count, what in needed
                   if made and count and not made.significant]  # fmt: skip
        line = f"{names} cannot be told apart: {gap(one, pair)}."
        told.append(line + f" About {' and '.join(settled)} would settle it." * bool(settled))
    if len(ties) > MOST_TIES:
        told.append(f"{len(ties) - MOST_TIES} more have the same rank; --json has all.")
    if any(pair.different and not pair.seeds for pair in one.pairs):
        told.append(ONE_SEED)
    return told


def gap(one: Comparison, pair: Pair) -> str:
    """By how much the first of a pair is better, by the test that decides."""
    test = max(filter(None, (pair.images, pair.seeds)), key=lambda test: test.p)
    unit = one.teams[pair.places[0]].summary.units.get(pair.figure, "")
    scale, words = (100, " points") if unit == "%" else (1, f" {unit}".rstrip())
    value, low, high = (f"{scale * v:.2f}" for v in (test.value, *test.interval))
    found = f"{value}{words} of {label(pair.figure)}"
    return f"{found} (95 % interval {low} to {high}, p {test.p:.2g}; {test.test})"


def roughly(count: int) -> str:
    """With the two digits that such a count deserves: `2,000,000`."""
    return f"{round(count, 2 - len(str(count))):,}"


def show_comparison(one: Comparison) -> None:
    """One table, and what it decides."""
    print_table(*comparison_table(one))
    for sentence in verdicts(one):
        echo(f"\n{sentence}")


def comparison_table(
    one: Comparison,
) -> tuple[list[str], list[dict[str, Any]], list[str | tuple[str, ...]]]:
    """What was measured, and the settings that differ: columns, rows, and columns to spare, as
    print_table takes them."""
    summaries = [team.summary for team in one.teams]
    further = list(dict.fromkeys(name for s in summaries for name in s.figures))[:MOST_FIGURES]
    # How many epochs a run has done has a column anyway.
    apart = [name for name in one.apart if name != "epochs"]
    rows = []
    for team, one_summary in zip(one.teams, summaries, strict=True):
        units = one_summary.units
        more = {
            label(n): known(one_summary.figures.get(n), partial(figure, n, units=units))
            for n in further
        }
        settings: dict[str, Any] = {name: team.rows[0].settings.get(name) for name in apart}
        if len(team.rows) > 1 and (seeds := team.seeds):
            settings["seed"] = ",".join(row.settings.get("seed", "0") for row in team.rows)
            ends = zip(
                ("over seeds", "their mean"), ((seeds.low, seeds.high), seeds.interval), strict=True
            )
            more |= {name: interval_text(one_summary.ranks, end, units) for name, end in ends}
        rows.append(
            {**settings, **cells(one_summary), **more, "rank": team.rank, "note": team.note}
        )
    figures = [] if one.unlike else ["#loss"]
    figures += ["#accuracy", "interval", "over seeds", "their mean"]
    figures += [f"#{label(name)}" for name in further]
    numbers = {name: numeric(row.settings.get(name) for row in one.rows) for name in apart}
    differing = [f"#{name}" if numbers[name] else name for name in apart]
    columns = ["#rank", "model", "run", "dataset", *differing, "#parameters", "#size", "#epochs"]
    columns += ["#time"]
    columns += ["#images/s", "#ms/image", *figures]
    columns = [c for c in columns if any(row.get(c.lstrip("#")) is not None for row in rows)] + [
        "note"
    ]
    # The name of a run says its model and dataset; a model that only one run has says which run.
    name = "run" if len({s.model for s in summaries}) == len(summaries) else "model"
    spare: list[str | tuple[str, ...]] = ["dataset", "#size", "#images/s", "#ms/image"]
    spare += ["#parameters", name, "#time"]
    last = [f"#{label(name)}" for name in reversed(further)] + ["#loss"] * ("#accuracy" in columns)
    spare += ["their mean", "over seeds"]
    return columns, rows, [*spare, tuple(differing), "#epochs", "interval", *last]
