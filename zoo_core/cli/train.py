"""zoo train."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_core.cli.output import complete_datasets, complete_models, complete_runs, print_json
from zoo_core.io.console import named

if TYPE_CHECKING:
    from zoo_core.train.runner import Reporter


@click.command(
    epilog="""\b
Examples:
  zoo train cnn
  zoo train cnn --recipe paper --epochs 3 --set lr=1e-3 --set model.dropout=0.3
  zoo train cnn --dataset ./my_pictures           a folder of pictures for each class
  zoo train cnn --dataset ./my_pictures --init latest   start from trained weights
  zoo train --config runs/cnn-cifar10-20261116T101500Z/run.json   the same run once more
  zoo train cnn --tune                            search the learning rate, then train
  zoo train --resume latest
  torchrun --nproc-per-node 2 -m zoo train cnn    in two processes (needs zoo-core[distributed])
"""
)
@click.argument("model", default="", shell_complete=complete_models)
@click.option("--dataset", default="", shell_complete=complete_datasets, help="Name or folder.")
@click.option("--recipe", default="", help="One of the model's recipes (default: default).")
@click.option("--epochs", type=int, help="As --set epochs=N.")
@click.option("--lr", type=float, help="As --set lr=X.")
@click.option("--seed", type=int, help="As --set seed=N.")
@click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Any other setting."
)
@click.option("--config", type=click.Path(path_type=Path), help="TOML file, or a run.json.")
@click.option("--init", default="", help="Weights to start from: a run or a .safetensors file.")
@click.option("--resume", default="", shell_complete=complete_runs, help="Go on with this run.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps.")
@click.option("--tune", is_flag=True, help="First search the learning rate; zoo tune has more.")
@click.option("--compile", "compiled", is_flag=True, help="As --set compile=true.")
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option(
    "--checkpoint-every", type=float, default=30.0, show_default=True, metavar="SECONDS",
    help="How much work a kill may cost.",
)  # fmt: skip
@click.option("--no-report", is_flag=True, help="Write no report; zoo report does it later.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    model: str,
    dataset: str,
    recipe: str,
    epochs: int | None,
    lr: float | None,
    seed: int | None,
    assignments: tuple[str, ...],
    config: Path | None,
    init: str,
    resume: str,
    device: str,
    tune: bool,
    compiled: bool,
    runs: Path | None,
    checkpoint_every: float,
    no_report: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train a model.

    Settings come from the recipe, then --config, then the options here. Ctrl-C finishes the step,
    saves, and says how to resume; a resumed run ends with the same weights as an undisturbed one.
    """
    if checkpoint_every <= 0:
        raise click.UsageError("--checkpoint-every must be above 0 seconds")
    how: dict[str, Any] = {
        "runs": runs,
        "quiet": quiet,
        "checkpoint_seconds": checkpoint_every,
    }
    if resume:
        given = (model, config, assignments, init, epochs, lr, dataset, tune)
        if any(given) or seed is not None:
            raise click.UsageError("--resume goes on with the settings of the run; give only RUN")
        from zoo_core.train.runner import resume as go_on

        on = "" if device == "auto" else device
        _show(go_on(resume, device=on, report=_reporter(no_report), **how), as_json)
        return

    # Settings are checked before anything heavy is imported: mistakes come back at once.
    from zoo_core.spec.registry import registry
    from zoo_core.spec.settings import (
        TrainingRequest,
        choose_recipe,
        merge,
        override,
        parse_settings,
        read_request,
    )

    asked = read_request(config) if config else TrainingRequest()
    model = model or asked.model
    if not model:
        raise click.UsageError("say which MODEL to train; zoo list shows them")
    entry = registry().models.get(model)
    shortcuts = {"epochs": epochs, "lr": lr, "seed": seed, "init": init or None}
    settings = merge(asked.settings, parse_settings(assignments, entry))
    settings |= {name: value for name, value in shortcuts.items() if value is not None}
    if compiled:
        settings["compile"] = True
    recipe = recipe or asked.recipe or "default"
    override(choose_recipe(entry, recipe), settings)

    from zoo_core.train.builder import command_line
    from zoo_core.train.runner import train

    if tune:
        from zoo_core.tune.search import SearchSettings
        from zoo_core.tune.tuning import run_search

        found = run_search(
            SearchSettings(
                model=model, dataset=dataset or asked.dataset, recipe=recipe, settings=settings,
                device=device, command=command_line(), train=True, **how,
            )
        )  # fmt: skip
        _show(found.trained, as_json)
        return
    result = train(
        model,
        dataset or asked.dataset,
        recipe=recipe,
        settings=settings,
        device=device,
        command=command_line(),
        report=_reporter(no_report),
        **how,
    )
    _show(result, as_json)


def _reporter(left_out: bool) -> Reporter | None:
    from zoo_core.report.write import write_report

    return None if left_out else write_report


def _show(result: Any, as_json: bool) -> None:
    if as_json:
        document = result.run.read()
        print_json(
            {
                "run": str(result.path),
                "report": str(result.report) if result.report else None,
                **{key: document[key] for key in ("model", "dataset", "parameters", "result")},
            }
        )
        return
    figures = [
        named(name, value) for name, value in result.metrics.items() if isinstance(value, float)
    ]
    click.echo(f"Trained in {result.seconds:.1f} s: {', '.join(figures)}.")
    if result.report:
        click.echo(f"Report: {result.report}")
    click.echo(str(result.path))
