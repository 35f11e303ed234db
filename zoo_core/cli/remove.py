"""zoo remove."""

from __future__ import annotations

import click

from zoo_core.cli.output import complete_weights
from zoo_core.io.errors import UnknownName, UsageError


@click.command(
    epilog="""\b
Examples:
  zoo remove cnn.cifar10
  zoo remove --forget cnn.mine      take your own publication out of the list as well
"""
)
@click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_weights
)
@click.option("--forget", is_flag=True, help="Also drop NAME from your own manifest.")
def command(names: tuple[str, ...], forget: bool) -> None:
    """Delete the copy of weights on this machine.

    NAME is a model, model.tag or a repository. What is published stays published.
    """
    from zoo_core.io.files import user_manifest
    from zoo_core.weights import store
    from zoo_core.weights.manifest import changing, packaged_file
    from zoo_core.weights.references import published

    for name in names:
        if forget:
            with changing(user_manifest()) as entries:
                weights = entries.pop(name, None)
            if weights is None:
                raise UnknownName(f"your manifest does not list {name!r}", str(user_manifest()))
            click.echo(f"{name} is no longer in {user_manifest()}")
        else:
            weights = published(name)
            if weights is None:
                raise UsageError(f"{name} is not published", "zoo runs remove deletes runs")
        if store.remove(weights):
            outcome = "deleted"
        elif not forget and packaged_file(weights):
            outcome = f"is a part of {weights.distribution}; pip uninstall removes both"
        else:
            outcome = "was not on this machine"
        click.echo(f"{name}: {outcome}")
