"""Decorators for the options and arguments that many commands share; completion in the shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from zoo_core.cli.output import note
from zoo_core.io.errors import OptionError, UsageError, ZooError
from zoo_core.io.files import free_name

Complete = Callable[[click.Context, click.Parameter, str], list[str]]
Decorator = Callable[[Any], Any]


def completion(names: Callable[[click.Context], Iterable[str]]) -> Complete:
    """Make what click's `shell_complete` takes of a function that lists all names."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [name for name in names(ctx) if name.startswith(incomplete)]

    return complete


def _labels(sort: str) -> list[str]:
    from zoo_core.spec.registry import registry

    return list(getattr(registry(), sort).labels())


def _runs(ctx: click.Context) -> list[str]:
    from zoo_core.runs.run import Run, runs_root

    return ["latest", *(run.name for run in Run.every(runs_root(ctx.params.get("runs"))))]


def _any(ctx: click.Context) -> list[str]:
    from zoo_core.runs.run import runs_and_searches, runs_root

    root = runs_root(ctx.params.get("runs"))
    return ["latest", *(one.name for one in runs_and_searches(root))]


def _weights(ctx: click.Context) -> list[str]:
    from zoo_core.weights.manifest import all_weights

    return sorted({weights.name for _, weights in all_weights()[0]})


complete_models = completion(lambda ctx: _labels("models"))
complete_engines = completion(lambda ctx: _labels("engines"))
complete_datasets = completion(lambda ctx: _labels("datasets"))
complete_runs = completion(_runs)
complete_any = completion(_any)
complete_weights = completion(_weights)
complete_trained = completion(lambda ctx: [*_runs(ctx), *_weights(ctx)])

model_argument = click.argument("model", default="", shell_complete=complete_models)
run_argument = click.argument("run", shell_complete=complete_trained)
weights_argument = click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_weights
)

dataset_argument = click.argument("name", shell_complete=complete_datasets)

PATH = click.Path(path_type=Path)
runs_option = click.option("--runs", type=PATH, help="Folder of runs (default: runs).")
dataset_option = click.option(
    "--dataset", default="", shell_complete=complete_datasets, help="Name, folder or file."
)
device_option = click.option(
    "--device", default="auto", show_default=True, help="auto, cpu, cuda or mps."
)
html_option = click.option(
    "--html", type=PATH, metavar="FILE", help="Write one page for a browser instead."
)
quiet_option = click.option("--quiet", is_flag=True, help="Print only the result and errors.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirm(question: str, yes: bool) -> None:
    """Go on only if the person agrees, now or with `--yes`."""
    try:
        agreed = yes or click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise  # Ctrl-C
        note("")  # after the question, which has no answer on its line
        raise UsageError("there is nobody to ask; nothing was deleted", "add --yes") from None
    if not agreed:
        raise ZooError("nothing was deleted")


def set_option(help: str, metavar: str = "NAME=VALUE") -> Decorator:
    """`--set`, which may be repeated; the command gets `assignments`."""
    return click.option("--set", "assignments", multiple=True, metavar=metavar, help=help)


def output_option(*suffixes: str, help: str, **settings: Any) -> Decorator:
    """`-o`, a file to write that ends in one of these suffixes; settings are click's.

    The file that somebody names is replaced; a default name that is taken gets a number.
    """

    def check(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
        if value is not None and ctx.get_parameter_source("output") is ParameterSource.DEFAULT:
            return free_name(value)
        if value is not None and value.suffix not in suffixes:
            *others, last = suffixes
            words = f"{', '.join(others)} or {last}" if others else last
            raise UsageError(f"{value} must end in {words}")
        return value

    return click.option(
        "-o", "--output", type=PATH, callback=check, show_default=True, help=help, **settings
    )


checkpoint_option = click.option(
    "--checkpoint-every", "checkpoint_seconds", type=click.FloatRange(0, min_open=True),
    default=30.0, show_default=True, metavar="SECONDS",
    help="Save a checkpoint this often; a kill loses at most this much work.",
)  # fmt: skip


def _amounts(ctx: click.Context, param: click.Parameter, value: str) -> dict[str, float]:
    try:
        pairs = (part.partition("=") for part in value.split(",") if part)
        return {name.strip(): float(amount) for name, _, amount in pairs}
    except ValueError:
        raise click.UsageError(
            f"{param.opts[0]} {value!r} must have the form cpus=2,gpus=0.5"
        ) from None


def engine_options(command: Any) -> Any:
    """`--workers`, `--engine`, `--address`, `--resources` and `--retries`: where work runs."""
    several = click.option(
        "--workers", type=int, default=1, show_default=True,
        help="How many trials, or workers, run at a time.",
    )  # fmt: skip
    engine = click.option(
        "--engine", default="local", show_default=True, shell_complete=complete_engines,
        help="Engine that runs the work; zoo list --engines shows them all.",
    )  # fmt: skip
    address = click.option("--address", default="", help="Address of a running cluster.")
    resources = click.option(
        "--resources", default="", callback=_amounts, metavar="cpus=2,gpus=0.5,memory=4e9",
        help="Resources of each trial or worker.",
    )  # fmt: skip
    retries = click.option(
        "--retries", type=click.IntRange(0), default=3, show_default=True,
        help="How often a trial, or worker, goes on elsewhere after its process died.",
    )  # fmt: skip
    return several(engine(address(resources(retries(command)))))


storage_option = click.option(
    "--storage", type=PATH, metavar="FOLDER",
    callback=lambda ctx, param, value: str(value.absolute()) if value else "",
    help="Keep the trials here: a folder that the workers of all machines reach.",
)  # fmt: skip


def training_options(command: Any) -> Any:
    """`--name`, `--device`, `--runs`, `--checkpoint-every` and `--quiet`."""
    name = click.option(
        "--name", default="", help="Name of the folder; the same command starts or continues it."
    )
    return name(device_option(runs_option(checkpoint_option(quiet_option(command)))))


def data_options(assignments: tuple[str, ...]) -> dict[str, Any]:
    """`option=value` texts, with numbers, true, false and null understood as in JSON."""
    options: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError(f"--set {text} has no value", "write --set image_size=64")
        options[name.removeprefix("data.")] = value
        with suppress(ValueError):
            options[name.removeprefix("data.")] = json.loads(value)
    return options
