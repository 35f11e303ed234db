"""Completion of names in the shell, and the remark about plugins that could not be loaded."""

from __future__ import annotations

import click

from zoo_core.cli.output import note


def complete_models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from zoo_core.registry import registry

    return [name for name in registry().models.labels() if name.startswith(incomplete)]


def complete_datasets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from zoo_core.registry import registry

    return [name for name in registry().datasets.labels() if name.startswith(incomplete)]


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from zoo_core.train.run import all_runs, runs_root

    names = ["latest", *(run.name for run in all_runs(runs_root(ctx.params.get("runs"))))]
    return [name for name in names if name.startswith(incomplete)]


def complete_weights(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from zoo_core.manifest import all_weights

    names = sorted({one.weights.name for one in all_weights()[0]})
    return [name for name in names if name.startswith(incomplete)]


def complete_trained(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [
        *complete_runs(ctx, param, incomplete),
        *complete_weights(ctx, param, incomplete),
    ]


def remark_on_broken_plugins() -> None:
    from zoo_core.plugins import load_plugins

    broken = load_plugins().broken
    if broken:
        what = "1 plugin" if len(broken) == 1 else f"{len(broken)} plugins"
        note(
            f"{what} could not be loaded ({', '.join(r.id for r in broken)}): zoo plugins says why"
        )
