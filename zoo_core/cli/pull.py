"""zoo pull."""

from __future__ import annotations

import click

from zoo_core.cli.output import complete_weights, print_json
from zoo_core.io.console import size


@click.command(
    epilog="""\b
Examples:
  zoo pull cnn.cifar10
  zoo pull cnn mlp                the weights of each one's own dataset
  zoo pull hf:org/name@v1
"""
)
@click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_weights
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Bring weights to this machine and check them.

    NAME is a model, model.tag, hf:ORG/NAME[@REVISION] or file:FOLDER. The model's plugin need not
    be installed; if it is, the tensors are compared with the model as well.
    """
    from zoo_core.weights.references import obtain

    rows = []
    for name in names:
        weights = obtain(name)
        path = weights.located.path
        rows.append({"name": name, "path": str(path), "bytes": weights.bytes,
                     "sha256": weights.sha256, "fits": weights.fits})  # fmt: skip
        if not as_json:
            click.echo(f"{name}  {size(weights.bytes)}  {path}")
    if as_json:
        print_json(rows)
