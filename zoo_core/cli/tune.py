"""zoo tune."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zoo_core.cli.output import complete_datasets, complete_models, print_json, print_table


@click.command(
    epilog="""\b
Examples:
  zoo tune mlp                             the learning rate, with trials that end early
  zoo tune mlp --preset paper --train      the published search, then train with what it found
  zoo tune cnn --space lr=log:1e-4:1e-2 --space model.dropout=uniform:0:0.6 --trials 20
  zoo tune cnn --space batch_size=choice:64,128 --space model.channels=choice:16,32/32,64,128
  zoo tune --resume latest                 after Ctrl-C, a kill, a power cut
"""
)
@click.argument("model", default="", shell_complete=complete_models)
@click.option("--dataset", default="", shell_complete=complete_datasets, help="Name or folder.")
@click.option("--preset", default="default", show_default=True, help="default or paper.")
@click.option("--space", multiple=True, metavar="NAME=KIND:VALUES",
              help="What to search: log:LOW:HIGH, uniform:LOW:HIGH or choice:A,B (default: lr). "
              "Values that are lists are set apart by /.")  # fmt: skip
@click.option("--trials", type=int, help="How many evaluations.")
@click.option("--searcher", default="", help="tpe (default), random or grid.")
@click.option("--startup", type=int, help="Trials that TPE draws at random.")
@click.option("--prune/--no-prune", default=None, help="End trials that cannot win.")
@click.option("--recipe", default="", help="What the trials start from (default: the preset's).")
@click.option("--subset", type=float, help="Part of the training set, as --set subset=X.")
@click.option("--validation", type=float, help="Part of that, as --set validation_fraction=X.")
@click.option("--epochs", type=int, help="At most, of a trial; as --set epochs=N.")
@click.option("--patience", type=int, help="As --set patience=N.")
@click.option("--seed", type=int, help="As --set seed=N.")
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE",
              help="Any other setting of all trials.")  # fmt: skip
@click.option("--train", is_flag=True, help="Then train the best on everything.")
@click.option("--workers", type=int, default=1, show_default=True, help="Trials at a time.")
@click.option("--engine", default="local", show_default=True, help="local or ray.")
@click.option("--address", default="", help="Of a Ray cluster that runs already.")
@click.option("--resume", default="", help="Go on with this search: a path, a name or latest.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps.")
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--checkpoint-every", type=float, default=30.0, show_default=True, metavar="SECONDS",
              help="How much work a kill may cost.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    dataset: str,
    space: tuple[str, ...],
    subset: float | None,
    validation: float | None,
    epochs: int | None,
    patience: int | None,
    seed: int | None,
    assignments: tuple[str, ...],
    train: bool,
    resume: str,
    runs: Path | None,
    checkpoint_every: float,
    quiet: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Search the settings that train a model best.

    Every trial trains on a part of the training set and is judged by its best validation loss; the
    test set is not touched. The trials, a report and the best recipe are kept in a folder of runs.
    """
    from zoo_core.train.builder import command_line
    from zoo_core.tune.search import SearchSettings
    from zoo_core.tune.tuning import run_search

    settings: dict[str, Any] = {}
    if resume:
        refuse_with_resume(ctx, "train")
    else:
        settings = settings_of(
            entry_of(model), assignments, epochs=epochs, patience=patience, seed=seed,
            subset=subset, validation_fraction=validation,
        )  # fmt: skip
    result = run_search(
        SearchSettings(
            model=model, dataset=dataset, space=space, settings=settings, train=train,
            resume=resume, runs=runs, quiet=quiet, command=command_line(),
            checkpoint_seconds=seconds_of(checkpoint_every), **asked,
        )
    )  # fmt: skip
    show(result, as_json)


# ---------------------------------------------------------------- shared with zoo sweep


def entry_of(model: str) -> Any:
    from zoo_core.spec.registry import registry

    if not model:
        raise click.UsageError("say which MODEL; zoo list shows them")
    return registry().models.get(model)


def settings_of(entry: Any, assignments: tuple[str, ...], **shortcuts: Any) -> dict[str, Any]:
    from zoo_core.spec.settings import parse_settings

    given = {name: value for name, value in shortcuts.items() if value is not None}
    return parse_settings(assignments, entry) | given


def seconds_of(checkpoint_every: float) -> float:
    if checkpoint_every <= 0:
        raise click.UsageError("--checkpoint-every must be above 0 seconds")
    return checkpoint_every


def refuse_with_resume(ctx: click.Context, *allowed: str) -> None:
    """A search goes on with what it was started with."""
    fine = {"resume", "runs", "quiet", "as_json", "checkpoint_every", *allowed}
    for name in ctx.params:
        typed = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if typed and name not in fine:
            raise click.UsageError("--resume goes on with the settings of the search")


def show(result: Any, as_json: bool) -> None:
    from zoo_core.io.console import percent
    from zoo_core.tune.report import settings_text, table_of

    plan, document = result.search.plan(), result.search.read()
    if as_json:
        print_json(
            {
                "search": str(result.path),
                "best": result.best.to_dict(),
                "recipe": str(result.search.best_file),
                "trials": [trial.to_dict() for trial in result.trials],
                "report": str(result.report) if result.report else None,
                "trained": str(result.trained.path) if result.trained else None,
                "result": document.get("result") or None,
            }
        )
        return
    print_table(*table_of(plan, result.trials, document["dataset"]["classes"]))
    epochs = sum(trial.epochs for trial in result.trials)
    click.echo(f"\nBest of {len(result.trials)}, in {epochs} epochs: "
               f"{settings_text(result.best.parameters)}.")  # fmt: skip
    if result.trained:
        accuracy = (document.get("result") or {}).get("accuracy")
        reached = "" if accuracy is None else f", accuracy {percent(accuracy)}"
        click.echo(f"Trained on everything: {result.trained.path}{reached}")
    click.echo(f"Recipe: {result.search.best_file}")
    if result.report:
        click.echo(f"Report: {result.report}")
    click.echo(str(result.path))
