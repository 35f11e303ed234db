"""zoo plugins."""

from __future__ import annotations

from typing import Any

import click

from zoo_core.cli.output import note, print_json, print_table
from zoo_core.io.errors import UnknownName
from zoo_core.spec.entries import PluginRecord
from zoo_core.spec.plugins import SLOW, load_plugins


@click.command(
    epilog="""\b
Examples:
  zoo plugins
  zoo plugins --traceback my-plugin    why it failed, in full
  zoo plugins --requirements > zoo.txt && pip install -r zoo.txt    the same set elsewhere
  ZOO_STRICT=1 zoo plugins             fail if any plugin is not ok
"""
)
@click.argument("name", default="")
@click.option("--traceback", is_flag=True, help="Show where a plugin failed.")
@click.option("--requirements", is_flag=True, help="Print them as a requirements file for pip.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str, traceback: bool, requirements: bool, as_json: bool) -> None:
    """Show the installed plugins and what became of each.

    A plugin is ok, failed, disabled (by ZOO_PLUGINS or ZOO_DISABLE_PLUGINS), in conflict with
    another of the same id, or incompatible: made for a newer zoo. NAME shows one of them.
    """
    records = load_plugins().records
    if name:
        known = [record.id for record in records]
        records = tuple(record for record in records if record.id == name)
        if not records:
            raise UnknownName(f"there is no plugin {name!r}", f"installed: {', '.join(known)}")
    if requirements:
        wanted = sorted({f"{r.distribution}=={r.version}" for r in records if r.version})
        print_json(wanted) if as_json else click.echo("\n".join(wanted))
        return
    if as_json:
        print_json([as_dict(record, traceback) for record in records])
        return
    print_table(
        ["plugin", "state", "distribution", "version", "#ms", "provides"],
        [
            [r.id, r.state, r.distribution, r.version, f"{r.seconds * 1000:.0f}", provides(r)]
            for r in records
        ],
        spare=("distribution",),
    )
    for record in records:
        if record.reason:
            click.echo(f"\n{record.id} ({record.distribution}) is {record.state}: {record.reason}.")
        if traceback and record.traceback:
            click.echo(record.traceback.rstrip())
    for record in records:
        if record.seconds > SLOW:
            note(
                f"\n{record.id} adds {1000 * record.seconds:.0f} ms to every start of the zoo; "
                f"zoo plugin check {record.id} says why."
            )
    if not traceback and any(record.traceback for record in records):
        note("\nzoo plugins --traceback shows where they failed.")


def provides(record: PluginRecord) -> str:
    parts = [
        f"{sort}: {', '.join(entry.name for entry in entries)}"
        for sort, entries in (
            ("models", record.models),
            ("datasets", record.datasets),
            ("trainers", record.trainers),
        )
        if entries
    ]
    if record.manifests:
        parts.append(f"weights: {', '.join(record.manifests)}")
    listeners = [hook for hook in record.hooks if hook.startswith(("zoo_run", "zoo_epoch"))]
    if listeners:
        parts.append(f"listens to: {', '.join(listeners)}")
    return "; ".join(parts) or "-"


def as_dict(record: PluginRecord, traceback: bool) -> dict[str, Any]:
    return {
        "id": record.id,
        "state": record.state,
        "reason": record.reason,
        "distribution": record.distribution,
        "version": record.version,
        "entry_point": record.value,
        "hooks": record.hooks,
        "models": [entry.name for entry in record.models],
        "datasets": [entry.name for entry in record.datasets],
        "trainers": [entry.name for entry in record.trainers],
        "manifests": record.manifests,
        "seconds": round(record.seconds, 4),
        **({"traceback": record.traceback} if traceback else {}),
    }
