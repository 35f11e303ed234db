"""zoo report."""

from __future__ import annotations

from pathlib import Path

import click

from zoo_core.cli.output import complete_runs, note, print_json


@click.command(
    epilog="""\b
Examples:
  zoo report latest
  zoo report runs/cnn-cifar10-20261116T101500Z
  zoo report latest --json     the paths of all that was written
"""
)
@click.argument("run", shell_complete=complete_runs)
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(run: str, runs: Path | None, as_json: bool) -> None:
    """Write the report of a run again.

    RUN is a path, a name in the runs folder, or latest; it may still be running. The report is
    report.md in the run directory, its pictures are beside it in pictures/.
    """
    from zoo_core.report.write import build_report
    from zoo_core.runs.run import find_run

    found = find_run(run, runs)
    report = build_report(found)
    for remark in report.remarks:
        note(remark)
    if as_json:
        print_json(
            {"run": found.path, "report": report.path, "pictures": [*map(str, report.plots)]}
        )
    else:
        click.echo(report.path)
