"""zoo info."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import click

from zoo_core.cli.output import complete_models, print_fields, print_json, print_table
from zoo_core.io.errors import UnknownName
from zoo_core.spec.entries import DatasetEntry, ModelEntry, TrainerEntry
from zoo_core.spec.registry import origin, plugin_of, registry
from zoo_core.spec.settings import as_typed, what_it_sets


@click.command(
    epilog="""\b
Examples:
  zoo info cnn
  zoo info cnn/cnn        when two plugins have a model of that name
  zoo info cifar10 --json
"""
)
@click.argument("name", shell_complete=complete_models)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str, as_json: bool) -> None:
    """Show what a model, dataset or trainer is and how it can be used."""
    entry = find(name)
    if as_json:
        print_json(asdict(entry))
    elif isinstance(entry, ModelEntry):
        show_model(name, entry)
    else:
        show_other(entry)


def find(name: str) -> ModelEntry | DatasetEntry | TrainerEntry:
    """A model if there is one of that name, otherwise a dataset or a trainer."""
    known = registry()
    try:
        return known.models.get(name)
    except UnknownName:
        for catalog in (known.datasets, known.trainers):
            if name in catalog:
                return catalog.get(name)
        model, dot, _ = name.rpartition(".")
        if dot and model in known.models:
            raise UnknownName(
                f"{name!r} is not a model but weights of one",
                f"zoo info {model} shows the model, zoo list --weights {name} what they scored",
            ) from None
        raise


def show_model(name: str, entry: ModelEntry) -> None:
    frozen = entry.total_parameters != entry.parameters
    print_fields(
        {
            "model": entry.name,
            "summary": entry.summary,
            "kind": entry.kinds,
            "parameters": "depends on the options"
            if entry.parameters is None
            else entry.parameters,
            "with frozen": entry.total_parameters if frozen else None,
            "input": f"{entry.in_channels} x {entry.image_size} x {entry.image_size}",
            "dataset": entry.dataset,
            "trainer": entry.trainer,
            "can": tuple(entry.capabilities),
            "tags": entry.tags,
            "reference": entry.reference,
            "code": entry.target,
            "from": origin(entry),
            "trained weights": weights_of(entry) or "none yet",
        }
    )
    click.echo("\nOptions, with defaults; a recipe may set others")
    options = [[k, as_typed(v), entry.choices.get(k, ())] for k, v in entry.options.items()]
    columns = ["option", "default", "one of"]
    if not entry.choices:
        columns, options = columns[:2], [row[:2] for row in options]
    print_table(columns, options)
    click.echo("\nRecipes")
    print_table(
        ["recipe", "what it sets"],
        [
            [recipe, "  ".join(f"{k}={v}" for k, v in what_it_sets(asdict(value)).items())]
            for recipe, value in entry.recipes.items()
        ],
    )


def weights_of(entry: ModelEntry) -> tuple[str, ...]:
    from zoo_core.weights.manifest import all_weights

    ours = (entry.name, plugin_of(entry))
    listed = [weights for _, weights in all_weights()[0]]
    return tuple({one.name: None for one in listed if (one.model, one.plugin) == ours})


def show_other(entry: DatasetEntry | TrainerEntry) -> None:
    hidden = {"provider", "digests", "config", "target"}
    shown: dict[str, Any] = {
        spec.name.replace("_", " "): getattr(entry, spec.name)
        for spec in fields(entry)
        if spec.name not in hidden
    }
    if isinstance(entry, DatasetEntry):
        shown["options"] = tuple(f"{k}={as_typed(v)}" for k, v in entry.config.items())
    print_fields(shown | {"code": entry.target, "from": origin(entry)})
