"""zoo features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_core.cli.output import (
    complete_datasets,
    complete_models,
    note,
    print_fields,
    print_json,
    print_table,
)
from zoo_core.io.console import size
from zoo_core.io.errors import DataError, UsageError

if TYPE_CHECKING:
    from zoo_core.data.features import FeatureFile

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def complete_features(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from zoo_core.data.features import kept

    return [file.id for file in kept() if file.id.startswith(incomplete)]


as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(
    epilog="""\b
Examples:
  zoo features list
  zoo features compute efficientnet_lite0_finetune --dataset ./my_pictures
  zoo features export 252cd8 9f01ab -o cifar10.npz
  zoo features remove --max-size 5GB
"""
)
def command() -> None:
    """Show, compute and export the features of frozen backbones.

    A frozen backbone sees every picture once; what it says of it is kept here. ID is what
    `zoo features list` shows first, or the beginning of it.
    """


@command.command("list", epilog="\b\nExample:\n  zoo features list --json\n")
@as_json_option
def list_(as_json: bool) -> None:
    """Show the features in the cache; those that were used last come first."""
    from zoo_core.data.features import kept

    rows = [about(file) for file in kept()]
    if as_json:
        print_json(rows)
        return
    if not rows:
        note("There are no features yet; training a frozen model computes them.")
        return
    titles = ["id", "dataset", "split", "view", "backbone", "#pixels", "#pictures", "#width",
              "dtype", "#size", "used", "state"]  # fmt: skip
    for row in rows:
        row["size"] = size(row["bytes"])
        if "used" in row:  # people read their own time, programs the one that all share
            row["used"] = f"{datetime.fromisoformat(row['used']).astimezone():%Y-%m-%d %H:%M}"
    print_table(titles, [[row.get(title.lstrip("#")) for title in titles] for row in rows])
    print_total(rows)


def print_total(rows: Sequence[dict[str, Any]]) -> None:
    note(f"{size(sum(row['bytes'] for row in rows))} in all.")


@command.command(epilog="\b\nExample:\n  zoo features info 252cd8\n")
@click.argument("id_", metavar="ID", shell_complete=complete_features)
@as_json_option
def info(id_: str, as_json: bool) -> None:
    """Show all that decided some features, and how they were made."""
    from zoo_core.data.features import find_features

    file = find_features(id_)
    progress = file.progress()
    if progress is None:
        raise DataError(f"{file.record} cannot be read", f"zoo features remove {file.id}")
    document = {
        **about(file),
        "path": str(file.path if file.path.exists() else file.part),
        "key": progress.key,
        "made_with": progress.about["made_with"],
        "seconds": round(progress.seconds, 1),
        "images_per_second": round(progress.done / max(progress.seconds, 1e-9), 1),
        "sha256": progress.sha256,
    }
    if as_json:
        print_json(document)
        return
    flat = {**document, "size": size(document.pop("bytes"))}
    for section in ("key", "made_with"):
        flat |= {f"{section}: {name}": value for name, value in flat.pop(section).items()}
    print_fields(flat)


@command.command(epilog="\b\nExamples:\n  zoo features verify\n  zoo features verify 252cd8\n")
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=complete_features)
@as_json_option
def verify(ids: tuple[str, ...], as_json: bool) -> int:
    """Read features again, every byte, and check them.

    What is damaged is computed again by the next training that needs it, and only the part that is.
    """
    from zoo_core.data.features import find_features, kept

    rows = []
    for file in [find_features(id_) for id_ in ids] if ids else kept():
        try:
            state, sound = file.verify(), True
        except DataError as error:
            state, sound = str(error), False
        rows.append({"id": file.id, "ok": sound, "state": state, "path": str(file.path)})
    if as_json:
        print_json(rows)
    elif rows:
        print_table(["id", "state"], [[row["id"], row["state"]] for row in rows])
    else:
        note("There are no features yet.")
    return 0 if all(row["ok"] for row in rows) else 1


@command.command(
    epilog="""\b
Examples:
  zoo features remove 252cd8
  zoo features remove --max-size 5GB      what was not used for longest
"""
)
@click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=complete_features)
@click.option("--max-size", default="", metavar="SIZE", help="Keep at most this: 500MB, 5GB, 0.")
@as_json_option
def remove(ids: tuple[str, ...], max_size: str, as_json: bool) -> None:
    """Delete features; they can be computed again."""
    from zoo_core.data.features import beyond, find_features

    if bool(ids) == bool(max_size):
        raise click.UsageError("say which: ID..., or --max-size")
    files = beyond(parse_size(max_size)) if max_size else [find_features(id_) for id_ in ids]
    rows = [{"id": file.id, "bytes": file.remove(), "path": str(file.path)} for file in files]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        click.echo(f"{row['id']}: deleted, {size(int(str(row['bytes'])))}")
    if not rows:
        note("Nothing had to go.")


@command.command(
    epilog="""\b
Examples:
  zoo features compute efficientnet_lite0_finetune --dataset cifar10
  zoo features compute timm_frozen --set model.backbone=resnet50 --set augment=flip
"""
)
@click.argument("model", shell_complete=complete_models)
@click.option("--dataset", default="", shell_complete=complete_datasets, help="Name or folder.")
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE",
              help="As for zoo train: model.NAME, preprocess.NAME, augment.")  # fmt: skip
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or mps.")
@click.option("--quiet", is_flag=True, help="No progress.")
@as_json_option
def compute(
    model: str, dataset: str, assignments: tuple[str, ...], device: str, quiet: bool, as_json: bool
) -> None:
    """Compute the features that a training of MODEL would need, and train nothing.

    What is in the cache already is not computed again; after Ctrl-C or a kill the same command goes
    on where it was.
    """
    from zoo_core.spec.registry import registry
    from zoo_core.spec.settings import choose_recipe, override, parse_settings

    entry = registry().models.get(model)
    if "backbone" not in entry.capabilities:
        able = [one.name for one in registry().models if "backbone" in one.capabilities]
        raise UsageError(f"model {model!r} has no frozen backbone", f"these do: {', '.join(able)}")
    recipe = override(choose_recipe(entry, "default"), parse_settings(assignments, entry))

    from zoo_core.data.datasets import open_dataset
    from zoo_core.data.features import FeatureFile
    from zoo_core.train.builder import build_job, lasting
    from zoo_core.train.display import open_display

    display = open_display(quiet)
    data = open_dataset(lasting(dataset or entry.dataset), report=display.say, **recipe.data)
    job = build_job(entry, recipe, data, display, device=device)
    rows = [about(FeatureFile(path)) for path in job.trainer.prepare(job)]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        click.echo(f"{row['id']}  {row['dataset']} {row['split']} {row['view']}")


@command.command(
    epilog="""\b
Examples:
  zoo features export 252cd8 -o test.npz
  zoo features export 252cd8 9f01ab -o cifar10.safetensors
"""
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=complete_features)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True,
              help="A file that ends in .npz or .safetensors.")  # fmt: skip
@as_json_option
def export(ids: tuple[str, ...], output: Path, as_json: bool) -> None:
    """Write features and labels for other programs, scikit-learn for example.

    The file has the arrays train_features, train_labels, test_features and so on, float32 and
    int64, and the names of the classes.
    """
    from zoo_core.data.features import EXPORT_ENDINGS, export_features, find_features

    if output.suffix not in EXPORT_ENDINGS:
        raise UsageError(f"{output} must end in {' or '.join(EXPORT_ENDINGS)}")
    shapes = export_features([find_features(id_) for id_ in ids], output)
    if as_json:
        print_json({"file": str(output), "bytes": output.stat().st_size, "arrays": shapes})
        return
    for name, shape in shapes.items():
        click.echo(f"{name}  {' x '.join(map(str, shape))}")
    click.echo(f"{output}  {size(output.stat().st_size)}")


# ---------------------------------------------------------------- what is said of them


def about(file: FeatureFile) -> dict[str, Any]:
    progress = file.progress()
    row: dict[str, Any] = {"id": file.id, "bytes": file.bytes}
    if progress is None:
        return {**row, "state": "cannot be read"}
    key, complete = progress.key, file.path.exists() and bool(progress.sha256)
    return {
        **row,
        "dataset": progress.about["dataset"],
        "split": key["split"],
        "view": key["view"],
        "backbone": key["backbone"],
        "pixels": key["preprocess"]["size"],
        "pictures": progress.rows,
        "width": progress.about["width"],
        "dtype": key["dtype"],
        "used": datetime.fromtimestamp(file.last_used, UTC).isoformat(timespec="seconds"),
        "state": "complete" if complete else f"{progress.done:,} of {progress.rows:,}",
    }


def parse_size(text: str) -> int:
    """`500MB`, `5 GB`, `1000`: bytes."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)b?", text.strip().lower())
    if found is None:
        raise UsageError(f"{text!r} is no size", "write 500MB or 5GB")
    return int(float(found[1]) * UNITS[found[2]])
