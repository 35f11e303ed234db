"""zoo runs."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path

import click

from zoo_core.cli.output import complete_runs, note, print_json, print_table
from zoo_core.io.console import duration, percent
from zoo_core.io.errors import UsageError, ZooError
from zoo_core.runs.run import all_runs, find_run, runs_root
from zoo_core.runs.summary import QUIET, Summary, summarize_any


class TextOrCommand(click.Group):
    """A group with an argument of its own, which click would otherwise fill with `remove`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        chosen = bool(args) and args[0] in self.commands
        ctx.allow_interspersed_args = not chosen  # so that --json may follow TEXT
        return super().parse_args(ctx, ["", *args] if chosen else args)


@click.group(
    cls=TextOrCommand,
    invoke_without_command=True,
    subcommand_metavar="",
    epilog="""\b
Examples:
  zoo runs
  zoo runs "cnn-*"
  zoo runs interrupted --json
  zoo runs remove cnn-cifar10-20261116T101500Z
""",
)
@click.argument("text", default="")
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, text: str, runs: Path | None, as_json: bool) -> None:
    """Show the runs that there are, newest last.

    TEXT is a pattern such as "cnn-*", or a word to look for in name, model, dataset and status.
    """
    if ctx.invoked_subcommand:
        return
    root = runs_root(runs)
    known = [summarize_any(run) for run in all_runs(root)]
    found = [summary for summary in known if matches(summary, text)]
    if as_json:
        print_json([asdict(summary) for summary in found])
        return
    if not found:
        note(f"None of the {len(known)} runs in {root} matches." if known else
             f"There are no runs in {root}. zoo train MODEL makes one.")  # fmt: skip
        return
    rows = [table_row(summary) for summary in found]
    # A column that is empty, or that the accuracy makes needless, takes room for nothing.
    generative = any(s.accuracy is None and s.loss is not None for s in found)
    only = all(s.accuracy is None for s in found)
    left_out = {"#loss": not generative, "#accuracy": generative and only}
    titles = [title for title in rows[0] if not left_out.get(title)]
    print_table(
        titles,
        [[row[title] for title in titles] for row in rows],
        spare=("dataset", "model"),  # both are in the name of the run
    )
    for summary in found:
        if summary.error:
            click.echo(f"\n{summary.run} is {summary.status}: {summary.error.rstrip('.')}.")
    if any(summary.shown_status == "running?" for summary in found):
        note(
            f"\nrunning?: nothing was written for {QUIET // 60} minutes. Either it is slow, or it "
            "was killed; zoo train --resume RUN would go on."
        )


def table_row(summary: Summary) -> dict[str, str | None]:
    return {
        "run": summary.run,
        "model": summary.model or None,
        "dataset": summary.dataset or None,
        "status": summary.shown_status,
        "#epochs": summary.shown_epochs,
        "#loss": None if summary.loss is None else f"{summary.loss:.4f}",
        "#accuracy": None if summary.accuracy is None else percent(summary.accuracy),
        "#time": None if summary.seconds is None else duration(summary.seconds),
    }


def matches(summary: Summary, text: str) -> bool:
    if any(letter in text for letter in "*?["):
        return fnmatch(summary.run, text)
    words = (summary.run, summary.model, summary.dataset, summary.shown_status)
    return any(text.lower() in word.lower() for word in words)


@command.command(
    epilog="""\b
Examples:
  zoo runs remove cnn-cifar10-20261116T101500Z
  zoo runs remove latest --yes     without asking
"""
)
@click.argument("references", metavar="RUN...", nargs=-1, required=True,
                shell_complete=complete_runs)  # fmt: skip
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(references: tuple[str, ...], runs: Path | None, yes: bool) -> None:
    """Delete runs with all that is in them: weights, metrics, report."""
    found = [find_run(reference, runs) for reference in references]
    for run in found:
        if summarize_any(run).shown_status == "running":
            raise UsageError(f"{run.name} is still running", "stop it with Ctrl-C first")
    if not yes:
        names = ", ".join(str(run.path) for run in found)
        click.confirm(f"Delete {names}?", abort=True, err=True)
    for run in found:
        try:
            shutil.rmtree(run.path)
        except OSError as error:
            raise ZooError(f"{run.path} could not be deleted: {error.strerror}") from error
        click.echo(f"Deleted {run.path}.")
