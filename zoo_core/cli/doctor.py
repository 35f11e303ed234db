"""zoo doctor."""

from __future__ import annotations

from dataclasses import asdict

import click

from zoo_core.cli.output import print_json, print_table


@click.command(
    epilog="""\b
Examples:
  zoo doctor
  zoo doctor --offline    ask no hub
  zoo doctor --json       for a bug report
"""
)
@click.option("--offline", is_flag=True, help="Leave the network alone.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(offline: bool, as_json: bool) -> int:
    """Say what is installed, reachable and writable, and what to do about the rest.

    Exits with 1 if there is a problem; notes are none.
    """
    from zoo_core.doctor import examine

    findings = list(examine(network=not offline))
    problems = sum(finding.state == "problem" for finding in findings)
    if as_json:
        print_json({"ok": not problems, "findings": [asdict(finding) for finding in findings]})
        return min(problems, 1)
    rows = [[f.about, f.state, f"{f.words}; {f.hint}" if f.hint else f.words] for f in findings]
    print_table(["about", "state", "what"], rows)
    return min(problems, 1)
