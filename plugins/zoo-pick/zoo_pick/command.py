"""zoo pick: what `zoo.pick` finds, for people."""

from __future__ import annotations

import math
from typing import Any

import click

from zoo import kit
from zoo_pick.pick import SET, pick
from zoo_pick.verdict import table


@kit.command(json_help="Print the result as JSON.")
@click.argument("reference")
@click.option("--budget", default="20m", show_default=True, help="Time to choose in: 90s, 20m, 1h.")
@click.option("--max-ms", type=click.FloatRange(0, min_open=True), default=math.inf,
              show_default="no limit", help="Milliseconds that an image may take.")  # fmt: skip
@click.option("--max-mb", type=click.FloatRange(0, min_open=True), default=math.inf,
              show_default="no limit", help="Megabytes that the model may have.")  # fmt: skip
@click.option(
    "--model", "models", multiple=True, help="Only this model, or NAME:RECIPE; may be repeated."
)
@kit.set_option(f"A setting of all trainings: data.NAME, {', '.join(SET)}.")
@click.option("--train", is_flag=True, help="Then train the chosen model on everything.")
@kit.engine_options
@click.option("--name", default="", help="Name of the folder; the same command continues it.")
@kit.device_option
@kit.runs_option
@kit.quiet_option
def pick_command(reference: str, assignments: tuple[str, ...], **how: Any) -> kit.Answer:
    """Choose a model for your own images among all that are installed.

    First each model is measured, so that the budget is kept. Then all train for the same short
    time, the best third for longer, and so on. Validation images alone judge; the test set is not
    touched. The result is a table, a plot of error against cost, a recommendation, and best.toml,
    a recipe for zoo train --config. Ctrl-C saves.

    Examples:
      zoo pick ./my_photos                           twenty minutes
      zoo pick ./my_photos --budget 1h --train       then train what was chosen
      zoo pick cifar10 --set subset=0.1 --budget 10m --max-ms 5 --max-mb 10
      zoo pick photos.csv --name photos              the same command again continues it
    """
    settings: dict[str, Any] = {}
    for text in assignments:
        name, _, value = text.partition("=")
        if name in SET:
            settings[name] = _number(name, value)
        else:
            settings.setdefault("data", {}).update(kit.data_options((text,)))
    found = pick(reference, settings=settings, **how)

    def show() -> None:
        titles, lines = table(found.race)
        if lines:
            kit.print_table(titles, lines, ["#epochs", "#images", "interval"])
        if found.left_out:
            kit.echo()
            kit.print_table(["left out", "why"], [*found.left_out.items()])
        kit.echo(f"\n{found.recommendation}")
        if found.trained:
            known = [n for n in ("accuracy", "loss") if n in found.trained.metrics]
            words = (f"{found.trained.split} {n} {found.trained.metrics[n]:.4g}" for n in known)
            figures = ", ".join(words)
            kit.echo(f"Trained on everything: {found.trained.path}: {figures}")
        elif found.best:
            kit.echo(f"Train it: zoo train --config {found.recipe}")
        kit.echo(f"Report: {found.path / 'report.md'}")

    return kit.Answer(found.to_dict(), show, brief=str(found.path), failed=not found.best)


def _number(name: str, value: str) -> float | int:
    try:
        return int(value) if name == "seed" else float(value)
    except ValueError:
        raise click.UsageError(f"--set {name} must be a number, not {value!r}") from None
