"""zoo export."""

from __future__ import annotations

from pathlib import Path

import click

from zoo_core.cli.output import complete_trained, print_json
from zoo_core.io.console import size
from zoo_core.io.errors import UsageError

FORMATS = (".onnx", ".pt2")


@click.command(
    epilog="""\b
Examples:
  zoo export cnn.cifar10 -o cnn.onnx
  zoo export latest -o model.pt2
"""
)
@click.argument("reference", metavar="REF", shell_complete=complete_trained)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True,
              help="A file that ends in .onnx or .pt2.")  # fmt: skip
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(reference: str, output: Path, runs: Path | None, as_json: bool) -> None:
    """Write a trained model as ONNX or as a torch program.

    REF is a run or weights. The written file is run on a few pictures and compared with the model;
    only if it says the same is it kept. Its input is what the model's preprocessing makes.
    """
    if output.suffix not in FORMATS:
        raise UsageError(f"{output} must end in {' or '.join(FORMATS)}")
    from zoo_core.spec.framework import framework_of
    from zoo_core.use.load import load, probes

    model = load(reference, runs=runs)
    entry = model.zoo.entry
    difference = framework_of(entry).export(entry, model, probes(model), output)
    if as_json:
        print_json(
            {"file": str(output), "bytes": output.stat().st_size, "largest_difference": difference}
        )
        return
    click.echo(f"{output}  {size(output.stat().st_size)}  largest difference {difference:.1e}")
