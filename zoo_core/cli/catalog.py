"""zoo list and zoo info: what is installed. Nothing heavy is imported for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from zoo_core.cli.options import complete_models, runs_option
from zoo_core.cli.output import Answer, command, echo, note, print_fields, print_table
from zoo_core.io.console import UNITS, duration, label, matches, size, with_interval
from zoo_core.io.errors import UnknownName
from zoo_core.io.targets import install_hint, resolve
from zoo_core.spec.entries import (
    AugmentationEntry,
    DatasetEntry,
    ModelEntry,
    ReaderEntry,
    TrainerEntry,
)
from zoo_core.spec.plugins import load_plugins
from zoo_core.spec.registry import (
    find_models,
    how_to_get,
    is_path,
    matches_text,
    origin,
    plugin_of,
    registry,
)

TITLES = {"kinds": "kind", "parameters": "#parameters", "train": "#train", "test": "#test"}
# In the JSON, too wide for the table.
HIDDEN = ("trainable", "tags", "capabilities", "distribution", "version", "reference")


@command()
@click.argument("text", default="")
@click.option("--datasets", "sort", flag_value="datasets", help="Show datasets.")
@click.option("--readers", "sort", flag_value="readers", help="Show what else --dataset takes.")
@click.option("--trainers", "sort", flag_value="trainers", help="Show trainers.")
@click.option("--augmentations", "sort", flag_value="augmentations", help="Show augmentations.")
@click.option("--engines", "sort", flag_value="engines", help="Show engines.")
@click.option("--weights", "sort", flag_value="weights", help="Show trained weights.")
@click.option("--timm", "sort", flag_value="timm", help="Show timm's networks for timm_frozen.")
@click.option("--models", "sort", flag_value="models", default=True, help="Show models (default).")
@click.option("--kind", "--task",
              help="Only models or weights for this: classification, generation ...")  # fmt: skip
@click.option("--tag", default="", help="Only models or weights with this tag.")
@click.option("--dataset", default="", help="Only models or weights for this dataset.")
@click.option("--plugin", default="", help="Only what this plugin provides.")
def list_command(text: str, sort: str, kind: str | None, plugin: str, **filters: str) -> Answer:
    """List models, datasets, trainers, engines or trained weights.

    TEXT is a pattern such as "resnet*", or a word to look for in names, tags and summaries. For
    weights it can be a place that you share: file:FOLDER or hf:ORG. PARAMETERS are all parameters
    of a model, the frozen ones too.

    Examples:
      zoo list "fashion_*"
      zoo list --kind generation --dataset cifar10
      zoo list --datasets --json
      zoo list --readers                  what --dataset reads: folders, tables ...
      zoo list --augmentations            words for --set augment=...
      zoo list --weights cnn              what zoo.load and zoo pull can bring
      zoo list --weights file:/shared     what others have published there
      zoo list --timm "vit*"              names for --set model.backbone=NAME of timm_frozen
    """
    filters["kind"] = kind or ""
    if sort == "weights":
        from zoo_core.cli.weights import list_weights

        return list_weights(text, plugin=plugin, **filters)
    if sort == "timm":
        if plugin or any(filters.values()):
            raise click.UsageError("--timm has no filter but TEXT")
        return list_networks(text)
    catalog: Any = getattr(registry(), sort)
    if sort == "models":
        entries: list[Any] = find_models(catalog, text, plugin=plugin, **filters)
    elif any(filters.values()):
        raise click.UsageError("--kind, --tag and --dataset filter models and weights only")
    else:
        entries = [e for e in catalog if matches_text(e, text) and plugin in ("", plugin_of(e))]
    rows = [summary(catalog.label(entry), entry) for entry in entries]
    empty = f"None of the {len(catalog)} {sort} matches; zoo list without filters shows them all."
    if not len(catalog):
        empty = f"No {sort} are installed. Start with: {install_hint('zoo-cnn')}."

    def show() -> None:
        shown = [name for name in rows[0] if name not in HIDDEN] if rows else []
        columns = [TITLES.get(name, name) for name in shown]
        cells = [[row[name] for name in shown] for row in rows]
        print_table(columns, cells, spare=("framework", "plugin", "kind", "dataset"), empty=empty)

    return Answer(rows, show, remarks=load_plugins().remarks)


def list_networks(text: str) -> Answer:
    """The networks that the model timm_frozen takes; its plugin knows them."""
    models = registry().models
    if "timm_frozen" not in models:
        raise UnknownName(
            "zoo list --timm needs zoo-frozen, which is not installed", install_hint("zoo-frozen")
        )
    give = resolve(models.get("timm_frozen").capabilities["networks"], "zoo list --timm")
    rows = [row for row in give() if matches(text, [row["name"]], [row["name"]])]
    empty = "No network of timm matches; zoo list --timm shows them all."
    return Answer(rows, lambda: print_table(["name", "#pixels", "license"], rows, empty=empty))


def summary(label: str, entry: Any) -> dict[str, Any]:
    """One entry as a row; the table shows most of it, the JSON all."""
    row: dict[str, Any] = {"name": label}
    if isinstance(entry, ModelEntry):
        names = ("kinds", "dataset", "framework", "tags", "reference")
        row |= {"kinds": entry.kinds, "parameters": entry.total_parameters}
        row |= {name: getattr(entry, name) for name in names}
        row |= {"trainable": entry.parameters, "capabilities": tuple(entry.capabilities)}
    elif isinstance(entry, ReaderEntry):
        row["reads"] = (*entry.prefixes, *entry.suffixes) or ("folders",)
    elif isinstance(entry, DatasetEntry):
        row |= dataset_facts(entry) | {"tags": entry.tags, "reference": entry.reference}
    elif isinstance(entry, TrainerEntry):
        row["framework"] = entry.framework
    elif isinstance(entry, AugmentationEntry):
        row["example"] = entry.example
    return row | {
        "plugin": plugin_of(entry),
        "distribution": entry.provider.distribution,
        "version": entry.provider.version,
        "summary": entry.summary,
    }


def dataset_facts(entry: DatasetEntry) -> dict[str, Any]:
    return {
        "classes": len(entry.classes) if entry.classes else None,
        "image_size": entry.image_size,
        "train": entry.train_size,
        "test": entry.test_size,
    }


@command()
@click.argument("name", shell_complete=complete_models)
@runs_option
def info_command(name: str, runs: Path | None) -> Answer:
    """Show a model, dataset, trainer, run or trained weights in detail.

    Examples:
      zoo info cnn/cnn        when two plugins have a model of that name
      zoo info cifar10 --json
      zoo info cnn.cifar10    trained weights: what they scored, where they come from
      zoo info latest         a run: its summary, and its model
    """
    known = registry()
    for catalog in (known.models, known.datasets, known.trainers, known.augmentations):
        if name in catalog:
            entry: Any = catalog.get(name)
            return Answer(entry, partial(show_entry, entry))
    facts, model = trained(name, runs)

    def show() -> None:
        print_fields(readable(facts))
        if model:
            echo("\nIts model")
            show_entry(model)
        elif needs := facts.get("distribution"):
            note(f"\nIts model is not available: {how_to_get(needs)}.")

    return Answer({**facts, "entry": model}, show)


def trained(name: str, runs: Path | None) -> tuple[dict[str, Any], ModelEntry | None]:
    """What is known of weights or of a run, and its model, where that is installed."""
    from zoo_core.runs.run import Run
    from zoo_core.runs.summary import summarize
    from zoo_core.weights.listing import facts_of, published

    if weights := published(name):
        facts, model = facts_of(weights), f"{weights.plugin}/{weights.model}"
    else:
        try:
            run = Run.find(name, runs)
        except UnknownName:
            if not is_path(name) and name != "latest":
                registry().models.get(name)  # says which names are like it
            raise
        facts, document = asdict(summarize(run)), run.read()
        sizes = document.get("parameters") or {}  # all and trained, as of a model
        facts |= {"parameters": sizes.get("total"), "trainable": sizes.get("trainable")}
        model = f"{document['model'].get('plugin')}/{facts['model']}"
    models = registry().models
    return facts, models.get(model) if model in models else None


def readable(facts: Mapping[str, Any]) -> dict[str, object]:
    """Facts for people: each figure on a line of its own, with its unit."""
    units: dict[str, Callable[[Any], str]] = {"bytes": size, "seconds": duration}
    shown: dict[str, object] = {}
    given, ends = facts.get("units", UNITS), facts.get("intervals", {})
    for name, value in facts.items():
        if name in ("units", "merit", "intervals"):
            continue
        if isinstance(value, Mapping):
            told = {key: with_interval(key, number, ends, given) for key, number in value.items()}
            shown |= {label(key): text for key, text in told.items()}
        elif name in units or isinstance(value, float):
            form = units.get(name, partial(with_interval, name, known=ends, units=given))
            shown[label(name)] = None if value is None else form(value)
        else:
            shown[label(name)] = value
    return shown


def show_entry(entry: ModelEntry | DatasetEntry | TrainerEntry) -> None:
    from zoo_core.spec.settings import as_typed, what_it_sets
    from zoo_core.weights.manifest import all_weights

    if not isinstance(entry, ModelEntry):
        hidden = {"provider", "digests", "config", "target"}
        names = [spec.name for spec in fields(entry) if spec.name not in hidden]
        shown = {name.replace("_", " "): getattr(entry, name) for name in names}
        if isinstance(entry, DatasetEntry):
            shown["options"] = tuple(f"{k}={as_typed(v)}" for k, v in entry.config.items())
        print_fields(shown | {"code": entry.target, "from": origin(entry)})
        return
    frozen = entry.total_parameters != entry.parameters
    unknown = "depends on the options or on the data"
    ours = (entry.name, plugin_of(entry))
    listed = [weights for _, weights in all_weights()[0]]
    weights = tuple({one.name: None for one in listed if (one.model, one.plugin) == ours})
    print_fields(
        {
            "model": entry.name,
            "summary": entry.summary,
            "kind": entry.kinds,
            "parameters": entry.total_parameters or unknown,
            "trainable": entry.parameters if frozen else None,
            "input": f"{entry.in_channels} x {entry.image_size} x {entry.image_size}",
            "dataset": entry.dataset,
            "trainer": entry.trainer,
            "can": tuple(entry.capabilities),
            "tags": entry.tags,
            "reference": entry.reference,
            "code": entry.target,
            "from": origin(entry),
            "trained weights": weights or "none yet",
        }
    )
    echo("\nOptions, with defaults; a recipe may set others")
    allowed = {name: f"{low} to {high}" for name, (low, high) in entry.limits.items()}
    allowed |= {name: ", ".join(map(str, values)) for name, values in entry.choices.items()}
    options = [[k, as_typed(v), allowed.get(k)] for k, v in entry.options.items()]
    print_table(["option", "default", "may be"], options)
    trainers = registry().trainers
    if entry.trainer in trainers and (task := trainers.get(entry.trainer).options):
        echo("\nOptions of the training, with the default first")
        print_table(["option", "may be"], [[f"task.{k}", v] for k, v in task.items()])
    echo("\nRecipes")
    recipes = {name: what_it_sets(asdict(recipe)) for name, recipe in entry.recipes.items()}
    words = {name: [f"{k}={v}" for k, v in sets.items()] for name, sets in recipes.items()}
    print_table(["recipe", "what it sets"], [[name, "  ".join(words[name])] for name in words])
