"""zoo evaluate."""

from __future__ import annotations

from pathlib import Path

import click

from zoo_core.cli.output import complete_trained, print_fields, print_json, print_table
from zoo_core.io.console import figure, label, percent


@click.command(
    epilog="""\b
Examples:
  zoo evaluate latest
  zoo evaluate runs/cnn-cifar10-20261116T101500Z --split train
  zoo evaluate latest --json
"""
)
@click.argument("run", shell_complete=complete_trained)
@click.option("--dataset", default="", help="Another dataset with the same classes.")
@click.option("--split", type=click.Choice(["test", "train"]), default="test", show_default=True)
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(run: str, dataset: str, split: str, runs: Path | None, as_json: bool) -> None:
    """Measure a trained run: loss, accuracy, and what else its task has.

    RUN is a path, a name in the runs folder, latest, or weights: cnn.cifar10, hf:org/name.
    """
    from zoo_core.use.predict import evaluate_run

    figures = evaluate_run(run, dataset, split=split, runs=runs)
    if as_json:
        print_json(figures)
        return
    fields = {
        "run": figures["run"],
        "data": f"{figures['dataset']}, {figures['images']:,} pictures of {split}",
    }
    for name, value in figures.items():
        if name == "inference_ms_per_image":
            fields["per picture"] = f"{value:.3f} ms"
        elif isinstance(value, float):
            fields[label(name)] = figure(name, value)
    print_fields(fields)
    if "per_class" not in figures:
        return
    rows = sorted(figures["per_class"].items(), key=lambda item: -(item[1] or 0))
    click.echo()
    print_table(["class", "#accuracy"], [[n, "-" if v is None else percent(v)] for n, v in rows])
