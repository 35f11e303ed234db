"""zoo train, tune and sweep: one training, or many of them.

Settings are checked before anything heavy is imported, so that mistakes come back at once.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_core.cli.options import (
    PATH,
    complete_runs,
    dataset_option,
    engine_options,
    model_argument,
    set_option,
    storage_option,
    training_options,
)
from zoo_core.cli.output import Answer, command, echo, print_table
from zoo_core.io.console import named, percent
from zoo_core.io.errors import ZooError
from zoo_core.io.process import be_portable
from zoo_core.runs.run import Run
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.settings import (
    TrainingRequest,
    choose_recipe,
    merge,
    override,
    parse_settings,
    read_request,
)

if TYPE_CHECKING:
    from zoo_core.train.runner import Result

# Options that are the same as --set NAME=VALUE, and those that do not change what is trained.
SETTINGS = (
    "epochs", "lr", "patience", "seed", "subset", "validation_fraction", "init", "compile",
    "portable",
)  # fmt: skip
CIRCUMSTANCES = ("runs", "quiet", "checkpoint_seconds")


@command(json_help="Print the result as JSON.")
@model_argument
@dataset_option
@click.option("--recipe", default="", help="One of the model's recipes (default: by the data).")
@click.option("--epochs", type=int, help="As --set epochs=N.")
@click.option("--lr", type=float, help="As --set lr=X.")
@click.option("--seed", type=int, help="As --set seed=N.")
@click.option(
    "--seeds", type=click.IntRange(1), help="Train so often, each time with the next seed."
)
@set_option("Any other setting.")
@click.option("--config", type=PATH, help="TOML file, or a run.json.")
@click.option("--init", help="Weights to start from: a run or a .safetensors file.")
@click.option("--resume", default="", shell_complete=complete_runs, help="Continue this run.")
@click.option("--tune", is_flag=True, help="First search the learning rate; zoo tune has more.")
@click.option("--compile", is_flag=True, default=None, help="As --set compile=true.")
@click.option("--portable", is_flag=True, default=None,
              help="Give the same bytes on any x86-64 processor with AVX2; slower.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Refuse a dataset with images that cannot be read.")
@click.option("--no-report", is_flag=True, help="Write no report; zoo report does it later.")
@training_options
@click.pass_context
def train_command(
    ctx: click.Context, /, model: str, dataset: str, config: Path | None, resume: str, **given: Any
) -> Answer:
    """Train a model.

    Settings come from the recipe, then --config, then the options here. Ctrl-C finishes the step,
    saves, and says how to resume; a resumed run ends with the same weights as an uninterrupted one.

    Examples:
      zoo train cnn --recipe paper --epochs 3 --set lr=1e-3 --set model.dropout=0.3
      zoo train efficientnet_lite0_finetune --dataset ./my_photos   a folder for each class
      zoo train cnn --dataset ./my_images --init latest     start from trained weights
      zoo train --config runs/cnn-cifar10-20261116T101500Z/run.json   the same run once more
      zoo train cnn --tune                            search the learning rate, then train
      zoo train cnn --seeds 3            three runs, their mean and what another seed may change
      zoo train --resume latest
      zoo train cnn --name night         start it, or go on with it: the same command again
      torchrun --nproc-per-node 2 -m zoo train cnn    in two processes
    """
    how = taken(given, CIRCUMSTANCES)
    recipe, device, no_report = given["recipe"], given["device"], given["no_report"]
    if resume:
        refuse_settings(ctx, "run", "device", "no_report")
        with suppress(ZooError):  # whatever is wrong with the run, `runner` says it
            if Run.find(resume, how.get("runs")).read()["recipe"].get("portable"):
                be_portable()
        from zoo_core.report.write import write_report
        from zoo_core.train import runner

        how |= {"device": "" if device == "auto" else device}
        done = runner.resume(resume, report=None if no_report else write_report, **how)
        return trained(done, not no_report)
    seeds = given.pop("seeds")
    asked = read_request(config) if config else TrainingRequest()
    model, dataset = model or asked.model, dataset or asked.dataset
    recipe = recipe or asked.recipe
    entry = entry_of(model)
    typed = both_ways(parse_settings(given["assignments"], entry), taken(given, SETTINGS))
    settings = merge(asked.settings, typed)
    if given["strict"]:
        settings = merge(settings, {"data": {"strict": True}})
    chosen = override(choose_recipe(entry, recipe or "default"), settings)
    if chosen.portable:
        be_portable()
    if seeds and seeds > 1:
        if given["tune"]:
            raise click.UsageError("--tune and --seeds are two steps: search first, then train")
        settings = {name: value for name, value in settings.items() if name != "seed"}
        again = {"name": given["name"], "device": device, "report": not no_report, **how}
        space = {"seed": list(range(chosen.seed, chosen.seed + seeds))}
        return searched("sweep", model=model, dataset=dataset, recipe=recipe, settings=settings,
                        space=space, **again)  # fmt: skip
    from zoo_core.report.write import write_report
    from zoo_core.train import runner
    from zoo_core.train.builder import command_line

    how |= {"recipe": recipe, "settings": settings, "device": device, "name": given["name"]}
    how |= {"command": command_line()}
    if given["tune"]:
        from zoo_core.tune.tuning import tune_and_train

        return trained(tune_and_train(model, dataset, report=not no_report, **how))
    done = runner.train(model, dataset, report=None if no_report else write_report, **how)
    return trained(done, not no_report)


def trained(result: Result, reported: bool = False) -> Answer:
    if reported and result.report is None:  # killed while the report was written
        from zoo_core.report.write import write_report

        result = replace(result, report=write_report(result.run))
    document = result.run.read()
    kept = {key: document[key] for key in ("model", "dataset", "parameters", "result")}
    figures = {name: value for name, value in result.metrics.items() if isinstance(value, float)}
    start = "" if result.split == "test" else f"{result.split}_"
    words = ", ".join(named(f"{start}{name}", value) for name, value in figures.items())
    lines = [f"Trained in {result.seconds:.1f} s: {words}."]
    lines += [f"Report: {result.report}"] * bool(result.report) + [str(result.path)]
    document = {"run": result.path, "report": result.report, **kept}
    return Answer(document, "\n".join(lines), brief=str(result.path))


@command(json_help="Print the result as JSON.")
@model_argument
@dataset_option
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
@set_option("Any other setting of all trials.")
@click.option("--at", multiple=True, metavar="NAME=VALUE",
              help="A setting of the trials alone; --train leaves it out.")  # fmt: skip
@click.option("--train", is_flag=True,
              help="Then train with the best settings on all training images.")  # fmt: skip
@engine_options
@storage_option
@click.option("--resume", default="", help="Continue this search: a path, a name or latest.")
@training_options
@click.pass_context
def tune_command(ctx: click.Context, /, **given: Any) -> Answer:
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
    return search(ctx, "tune", given)


@command(json_help="Print the result as JSON.")
@model_argument
@dataset_option
@click.option("--grid", "space", multiple=True, metavar="NAME=A,B,C",
              help="A setting and its values; separate lists with /.")  # fmt: skip
@click.option("--recipe", default="", help="What all runs start from (default: by the data).")
@click.option("--subset", type=float, help="Part of the training set, as --set subset=X.")
@click.option("--epochs", type=int, help="As --set epochs=N.")
@click.option("--seed", type=int, help="As --set seed=N.")
@set_option("Any other setting of all runs.")
@engine_options
@storage_option
@click.option("--resume", default="", help="Continue this sweep: a path, a name or latest.")
@training_options
@click.pass_context
def sweep_command(ctx: click.Context, /, **given: Any) -> Answer:
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
    return search(ctx, "sweep", given)


def search(ctx: click.Context, kind: str, given: dict[str, Any]) -> Answer:
    """Search with what was typed; a resumed search keeps its settings."""
    assignments, typed = given.pop("assignments"), taken(given, SETTINGS)
    at = given.pop("at", ())
    if given["resume"]:
        refuse_settings(ctx, "search", "train")
    else:
        entry = entry_of(given["model"])
        given["settings"] = both_ways(parse_settings(assignments, entry), typed)
        given["at"] = parse_settings(at, entry)
        if given["settings"].get("portable"):
            be_portable()
    return searched(kind, **given)


def searched(kind: str, **given: Any) -> Answer:
    from zoo_core.train.builder import command_line
    from zoo_core.tune.report import remarks_of, settings_text, table_of
    from zoo_core.tune.search import SearchSettings
    from zoo_core.tune.tuning import run_search

    result = run_search(SearchSettings(kind=kind, command=command_line(), **given))
    best = result.best
    plan, document = result.search.plan(), result.search.read()
    final = document.get("result") or {}

    def show() -> None:
        columns, rows = table_of(plan, result.trials, document["dataset"]["classes"])
        axes = tuple(c for c in columns if c.lstrip("#") in result.trials[0].parameters)
        print_table(columns, rows, ["from", "#time", "#best epoch", axes, "#epochs"])
        epochs = sum(trial.epochs for trial in result.trials)
        if best:
            found = settings_text(best.parameters)
            echo(f"\nBest of {len(result.trials)}, in {epochs} epochs: {found}.")
        for remark in remarks_of(plan, result.trials):
            echo(f"\n{remark}.")
        if result.trained:
            accuracy = final.get("accuracy")
            where = "" if result.trained.split == "test" else f"{result.trained.split} "
            reached = "" if accuracy is None else f", {where}accuracy {percent(accuracy)}"
            echo(f"Trained on everything: {result.trained.path}{reached}")
        if best:
            echo(f"Recipe: {result.search.best_file}")
        if result.report:
            echo(f"Report: {result.report}")
        echo(result.path)

    return Answer(
        {
            "search": result.path,
            "best": best and asdict(best),
            "recipe": result.search.best_file if best else None,
            "remarks": remarks_of(plan, result.trials),
            "trials": [asdict(trial) for trial in result.trials],
            "report": result.report,
            "trained": result.trained.path if result.trained else None,
            "result": final or None,
        },
        show,
        brief=str(result.path),
    )


def entry_of(model: str) -> ModelEntry:
    if not model:
        raise click.UsageError("say which MODEL to train; zoo list shows them")
    from zoo_core.weights.manifest import find_model

    return find_model(model)


def taken(given: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Take what was typed for options of these names out of all that was given."""
    values = {name: given.pop(name) for name in names if name in given}
    return {name: value for name, value in values.items() if value not in (None, "")}


def both_ways(assigned: dict[str, Any], typed: dict[str, Any]) -> dict[str, Any]:
    """What was set with --set and with options of their own, which must not contradict it."""
    both = [name for name in typed if name in assigned]
    for name in [name for name in both if assigned[name] != typed[name]]:
        option = f"--{name.replace('_', '-')} {typed[name]}"
        raise click.UsageError(f"{option} and --set {name}={assigned[name]} contradict each other")
    return assigned | typed


def refuse_settings(ctx: click.Context, whose: str, *allowed: str) -> None:
    """A resumed run or search keeps the settings that it started with."""
    refused = []
    for param in ctx.command.params:
        name = param.name or ""
        typed = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if typed and name not in {"resume", "as_json", *CIRCUMSTANCES, *allowed}:
            refused.append(param.opts[0] if param.param_type_name == "option" else name.upper())
    if refused:
        what = f"--resume keeps the settings of the {whose}; leave out {', '.join(refused)}"
        raise click.UsageError(what)
