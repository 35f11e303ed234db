"""zoo reproduce: the same training once more, and what came of it."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import structs

from zoo_core.cli.options import PATH, complete_trained, training_options
from zoo_core.cli.output import Answer, command


@command(json_help="Print the statement as JSON.")
@click.argument("record", metavar="NAME|RUN|RUN.JSON", shell_complete=complete_trained)
@click.option("--statement", type=PATH, help="File to add the statement to, a line of JSON.")
@training_options
def reproduce_command(
    record: str, statement: Path | None, name: str, device: str, runs: Path | None,
    checkpoint_seconds: float, quiet: bool,
) -> Answer:  # fmt: skip
    """Train published weights or a run once more, and compare.

    The record gives the recipe, the digest of the images, and the libraries. The command says what
    is different here, trains in a new run directory, and compares the sha256 of the weights. Where
    it differs, it compares the accuracy, and names the first epoch after which the weights differ.
    The exit code is 1 if the accuracy is another one.

    Examples:
      zoo reproduce mlp.cifar10
      zoo reproduce runs/cnn-cifar10-20261116T101500Z
      zoo reproduce docs/results/fcn_numpy-mnist-default-seed0.json --statement all.jsonl
      zoo reproduce mlp.cifar10 --name again     start it, or go on with it
    """
    from zoo_core.weights.records import compute_as, read_record

    found = read_record(record, runs)
    compute_as(found)
    from zoo_core.publish.reproduce import reproduce, summary
    from zoo_core.train.builder import command_line

    made = reproduce(
        found, name=name, runs=runs, device="" if device == "auto" else device, quiet=quiet,
        checkpoint_seconds=checkpoint_seconds, command=command_line(), statement=statement,
    )  # fmt: skip
    text = "\n".join(summary(made))
    return Answer(structs.asdict(made), text, failed=made.verdict == "differs", brief=made.verdict)
