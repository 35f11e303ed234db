"""zoo list."""

from __future__ import annotations

from typing import Any

import click

from zoo_core.cli.output import note, print_json, print_table, remark_on_broken_plugins
from zoo_core.spec.entries import KINDS, DatasetEntry, ModelEntry
from zoo_core.spec.registry import find_models, matches_text, plugin_of, registry


@click.command(
    epilog="""\b
Examples:
  zoo list
  zoo list "fashion_*"
  zoo list --kind generation --dataset cifar10
  zoo list --datasets --json
  zoo list --weights cnn              what zoo.load and zoo pull can bring
"""
)
@click.argument("text", default="")
@click.option("--datasets", "sort", flag_value="datasets", help="Show datasets.")
@click.option("--trainers", "sort", flag_value="trainers", help="Show trainers.")
@click.option("--weights", "sort", flag_value="weights", help="Show trained weights.")
@click.option("--models", "sort", flag_value="models", default=True, help="Show models (default).")
@click.option("--kind", "--task", type=click.Choice(KINDS), help="Only what does this task.")
@click.option("--tag", default="", help="Only what has this tag.")
@click.option("--dataset", default="", help="Only what trains on this dataset.")
@click.option("--plugin", default="", help="Only what this plugin provides.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    text: str, sort: str, kind: str | None, tag: str, dataset: str, plugin: str, as_json: bool
) -> None:
    """Show the models, datasets, trainers or trained weights that there are.

    TEXT is a pattern such as "resnet*", or a word to look for in names, tags and summaries.
    """
    if sort == "weights":
        from zoo_core.cli.weights import show_weights

        show_weights(text, kind or "", tag, dataset, plugin, as_json)
        return
    known = registry()
    if sort != "models":
        if kind or tag or dataset:
            raise click.UsageError("--kind, --tag and --dataset filter models and weights only")
        catalog: Any = getattr(known, sort)
        entries: list[Any] = [
            entry
            for entry in catalog
            if matches_text(entry, text) and plugin in ("", plugin_of(entry))
        ]
    else:
        catalog = known.models
        entries = find_models(
            known.models, text, kind=kind or "", tag=tag, dataset=dataset, plugin=plugin
        )

    if as_json:
        print_json([summary(catalog.label(entry), entry) for entry in entries])
    elif entries:
        rows = [summary(catalog.label(entry), entry) for entry in entries]
        titles = {"kinds": "kind", "parameters": "#parameters", "train": "#train", "test": "#test"}
        shown = [name for name in rows[0] if name not in HIDDEN]
        print_table(
            [titles.get(n, n) for n in shown],
            [[row[n] for n in shown] for row in rows],
            spare=("framework", "plugin", "kind", "dataset"),
        )
    elif len(catalog):
        note(f"None of the {len(catalog)} {sort} matches; zoo list without filters shows them all.")
    else:
        note(f"No {sort} are installed. pip install zoo-cnn would be a start.")
    remark_on_broken_plugins()


HIDDEN = (
    "tags",
    "capabilities",
    "distribution",
    "version",
    "reference",
)  # in the JSON, too wide for the table


def summary(label: str, entry: Any) -> dict[str, Any]:
    """One entry as a row; the table shows most of it, the JSON all."""
    row: dict[str, Any] = {"name": label}
    if isinstance(entry, ModelEntry):
        row |= {
            "kinds": entry.kinds,
            "parameters": entry.parameters,
            "dataset": entry.dataset,
            "framework": entry.framework,
            "tags": entry.tags,
            "capabilities": tuple(entry.capabilities),
            "reference": entry.reference,
        }
    elif isinstance(entry, DatasetEntry):
        row |= {
            "classes": len(entry.classes) if entry.classes else None,
            "image_size": entry.image_size,
            "train": entry.train_size,
            "test": entry.test_size,
            "tags": entry.tags,
            "reference": entry.reference,
        }
    else:
        row |= {"framework": entry.framework}
    return row | {
        "plugin": plugin_of(entry),
        "distribution": entry.provider.distribution,
        "version": entry.provider.version,
        "summary": entry.summary,
    }
