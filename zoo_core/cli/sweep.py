"""zoo sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zoo_core.cli.output import complete_datasets, complete_models
from zoo_core.cli.tune import entry_of, refuse_with_resume, seconds_of, settings_of, show


@click.command(
    epilog="""\b
Examples:
  zoo sweep fashion_cnn --grid lr=0.001,0.01,0.1 --grid optimizer=adam,sgd
  zoo sweep cnn --grid model.channels=16,32/32,64,128 --epochs 3 --subset 0.1
  zoo sweep --resume latest
"""
)
@click.argument("model", default="", shell_complete=complete_models)
@click.option("--dataset", default="", shell_complete=complete_datasets, help="Name or folder.")
@click.option("--grid", multiple=True, metavar="NAME=A,B,C",
              help="A setting and its values, lists among them set apart by /.")  # fmt: skip
@click.option("--recipe", default="default", show_default=True, help="What all runs start from.")
@click.option("--subset", type=float, help="Part of the training set, as --set subset=X.")
@click.option("--epochs", type=int, help="As --set epochs=N.")
@click.option("--seed", type=int, help="As --set seed=N.")
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE",
              help="Any other setting of all runs.")  # fmt: skip
@click.option("--workers", type=int, default=1, show_default=True, help="Runs at a time.")
@click.option("--resume", default="", help="Go on with this sweep: a path, a name or latest.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps.")
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--checkpoint-every", type=float, default=30.0, show_default=True, metavar="SECONDS",
              help="How much work a kill may cost.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    model: str,
    dataset: str,
    grid: tuple[str, ...],
    recipe: str,
    subset: float | None,
    epochs: int | None,
    seed: int | None,
    assignments: tuple[str, ...],
    workers: int,
    resume: str,
    device: str,
    runs: Path | None,
    checkpoint_every: float,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train a model with every combination of some settings.

    Each combination is a run with weights and test figures. A run that fails or learns nothing is
    a row of the table, not the end. The best is chosen by validation accuracy where the recipe has
    a validation_fraction, and otherwise by test accuracy.
    """
    from zoo_core.train.builder import command_line
    from zoo_core.tune.search import SearchSettings
    from zoo_core.tune.tuning import run_search

    settings: dict[str, Any] = {}
    if resume:
        refuse_with_resume(ctx)
    else:
        entry = entry_of(model)
        settings = settings_of(entry, assignments, epochs=epochs, seed=seed, subset=subset)
    result = run_search(
        SearchSettings(
            kind="sweep", model=model, dataset=dataset, space=grid, recipe=recipe,
            settings=settings, workers=workers, device=device, resume=resume, runs=runs,
            quiet=quiet, command=command_line(), checkpoint_seconds=seconds_of(checkpoint_every),
        )
    )  # fmt: skip
    show(result, as_json)
