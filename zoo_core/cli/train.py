"""zoo train: one training.

Settings are checked before anything heavy is imported, so that mistakes come back at once.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_core.cli.options import (
    PATH,
    complete_runs,
    dataset_option,
    model_argument,
    set_option,
    training_options,
)
from zoo_core.cli.output import Answer, command
from zoo_core.io.console import named
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
    settings = merge(asked.settings, typed_settings(given, entry))
    if given["strict"]:
        settings = merge(settings, {"data": {"strict": True}})
    chosen = override(choose_recipe(entry, recipe or "default"), settings)
    if chosen.portable:
        be_portable()
    from zoo_core.spec.registry import brought
    from zoo_core.train.builder import command_line

    if seeds and seeds > 1:
        if given["tune"]:
            raise click.UsageError("--tune and --seeds are two steps: search first, then train")
        settings = {name: value for name, value in settings.items() if name != "seed"}
        again = {"name": given["name"], "device": device, "report": not no_report, **how}
        space = {"seed": list(range(chosen.seed, chosen.seed + seeds))}
        search = brought("search", "--seeds")
        found = search(kind="sweep", model=model, dataset=dataset, recipe=recipe,
                       settings=settings, space=space, command=command_line(), **again)  # fmt: skip
        answer: Answer = found.answer()
        return answer
    from zoo_core.report.write import write_report
    from zoo_core.train import runner

    how |= {"recipe": recipe, "settings": settings, "device": device, "name": given["name"]}
    how |= {"command": command_line()}
    if given["tune"]:
        train_best = brought("tune_and_train", "--tune")
        return trained(train_best(model, dataset, report=not no_report, **how))
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


def entry_of(model: str) -> ModelEntry:
    """The entry of the MODEL that was typed."""
    if not model:
        raise click.UsageError("say which MODEL to train; zoo list shows them")
    from zoo_core.weights.manifest import find_model

    return find_model(model)


def taken(given: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Take what was typed for options of these names out of all that was given."""
    values = {name: given.pop(name) for name in names if name in given}
    return {name: value for name, value in values.items() if value not in (None, "")}


def typed_settings(given: dict[str, Any], entry: ModelEntry) -> dict[str, Any]:
    """What was set with --set, and with options of their own, which must not contradict it.

    given: what the command was given; these options are taken out of it.
    """
    assigned = parse_settings(given.pop("assignments"), entry)
    typed = taken(given, SETTINGS)
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
