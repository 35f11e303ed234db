"""zoo tune and sweep: many trainings.

Settings are checked before anything heavy is imported, so that mistakes come back at once.
"""

from __future__ import annotations

from typing import Any

import click

from zoo import kit

# What a search that is resumed may be given.
KEPT = ("resume", "train", "runs", "quiet", "checkpoint_seconds")


@kit.command(json_help="Print the result as JSON.")
@kit.model_argument
@kit.dataset_option
@click.option("--preset", default="default", show_default=True, help="default or paper.")
@click.option("--space", multiple=True, metavar="NAME=KIND:VALUES",
              help="What to search: log:LOW:HIGH, uniform:LOW:HIGH or choice:A,B (default: lr). "
              "Separate values that are lists with /.")  # fmt: skip
@click.option("--trials", type=int, help="Number of trials.")
@click.option(
    "--searcher",
    default="",
    help="tpe, random or grid (default: tpe, or grid if the trials cover every combination).",
)
@click.option("--startup", type=int, help="Number of trials before TPE starts, mostly random.")
@click.option("--prune/--no-prune", default=None, help="End trials that are unlikely to win.")
@click.option("--recipe", default="", help="What the trials start from (default: the preset's).")
@click.option("--subset", type=float, help="Part of the training set, as --set subset=X.")
@click.option(
    "--validation",
    type=float,
    help="Part of the subset for validation, as --set validation_fraction=X.",
)
@click.option("--epochs", type=int, help="Largest number of epochs of a trial, as --set epochs=N.")
@click.option("--patience", type=int, help="As --set patience=N.")
@click.option("--seed", type=int, help="As --set seed=N.")
@kit.set_option("Any other setting of all trials.")
@click.option("--at", multiple=True, metavar="NAME=VALUE",
              help="A setting of the trials alone; --train leaves it out.")  # fmt: skip
@click.option("--train", is_flag=True,
              help="Then train with the best settings on all training images.")  # fmt: skip
@kit.engine_options
@kit.storage_option
@click.option("--resume", default="", help="Continue this search: a path, a name or latest.")
@kit.training_options
@click.pass_context
def tune_command(ctx: click.Context, /, **given: Any) -> kit.Answer:
    """Search for the settings that train a model best.

    Every trial trains on a part of the training set and is judged by its best validation loss; the
    test set is not touched. The trials, a report and the best recipe are in a folder of their own
    among the runs.

    Examples:
      zoo tune mlp                             the learning rate, with trials that end early
      zoo tune mlp --preset paper --train      the published search, then train with what it found
      zoo tune cnn --space lr=log:1e-4:1e-2 --space model.dropout=uniform:0:0.6 --trials 20
      zoo tune cnn --space batch_size=choice:64,128 --space model.channels=choice:16,32/32,64,128
      zoo tune mlp --set model.scale=4 --set by_width=true --at model.scale=0.25 --train
                                               search with a narrow network, train a wide one
      zoo tune --resume latest                 after Ctrl-C, a kill, a power cut
    """
    given["validation_fraction"] = given.pop("validation")
    return searched(ctx, "tune", given)


@kit.command(json_help="Print the result as JSON.")
@kit.model_argument
@kit.dataset_option
@click.option("--grid", "space", multiple=True, metavar="NAME=A,B,C",
              help="A setting and its values; separate lists with /.")  # fmt: skip
@click.option("--recipe", default="", help="What all runs start from (default: by the data).")
@click.option("--subset", type=float, help="Part of the training set, as --set subset=X.")
@click.option("--epochs", type=int, help="As --set epochs=N.")
@click.option("--seed", type=int, help="As --set seed=N.")
@kit.set_option("Any other setting of all runs.")
@kit.engine_options
@kit.storage_option
@click.option("--resume", default="", help="Continue this sweep: a path, a name or latest.")
@kit.training_options
@click.pass_context
def sweep_command(ctx: click.Context, /, **given: Any) -> kit.Answer:
    """Train a model with every combination of some settings.

    Each combination is a run with weights and test figures. A run that fails or learns nothing is
    a row of the table; the sweep continues. The best run is chosen by validation accuracy; without
    a validation_fraction none is. --grid seed=0,1,2 repeats a training: the mean over the seeds and
    its interval are shown, also beside other settings.

    Examples:
      zoo sweep fashion_cnn --grid lr=0.001,0.01,0.1 --grid optimizer=adam,sgd
      zoo sweep cnn --grid seed=0,1,2 --grid ema=0,0.999 --set validation_fraction=0.1
      zoo sweep cnn --grid model.channels=16,32/32,64,128 --epochs 3 --subset 0.1
      zoo sweep --resume latest
    """
    return searched(ctx, "sweep", given)


def searched(ctx: click.Context, kind: str, given: dict[str, Any]) -> kit.Answer:
    """Search with what was typed; a resumed search keeps its settings."""
    if given["resume"]:
        kit.refuse_settings(ctx, "search", "train")
        given = {name: value for name, value in given.items() if name in KEPT}
    else:
        entry = kit.entry_of(given["model"])
        given["settings"] = kit.typed_settings(given, entry)
        given["at"] = kit.parse_settings(given.get("at", ()), entry)
        if given["settings"].get("portable"):
            kit.be_portable()
    from zoo_tune.tuning import search

    return search(kind=kind, command=kit.command_line(), **given).answer()
