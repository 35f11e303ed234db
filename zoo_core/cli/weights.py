"""zoo list --weights, pull, verify and remove: trained weights on this machine."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path
from typing import Any

import click

from zoo_core.cli.options import complete_weights, runs_option, weights_argument
from zoo_core.cli.output import Answer, command, echo, note, print_part, print_table
from zoo_core.io.console import label, percent, size
from zoo_core.io.errors import AmbiguousName, UnknownName, UsageError, ZooError
from zoo_core.io.files import cache_dir, user_manifest
from zoo_core.io.targets import install_hint
from zoo_core.weights import listing, store
from zoo_core.weights.manifest import USERS, all_weights, changing, labels, packaged_file
from zoo_core.weights.repository import is_repository


def list_weights(text: str, **filters: str) -> Answer:
    """Made for 10,000 entries: it looks into no weight file."""
    gc.disable()  # for the rest of this process: it would search 10,000 entries for cycles
    rows, place = listing.list_weights(text, **filters), is_repository(text)
    empty = "No weights match; zoo list --weights shows them all."
    if place and not any(filters.values()):
        empty = f"There are no weights in {text}; zoo publish RUN --to {text}/NAME puts some there."
    elif not place and not rows and not all_weights()[0]:
        empty = f"No installed plugin ships weights. Start with: {install_hint('zoo-cnn')}."

    def show() -> None:
        for row in rows:
            row["size"] = size(row["bytes"]) + " + backbone" * bool(row["backbone"])
            needs = row["distribution"] if row["install"] else None
            row["re-derived"] = f"{row['rederived']}x" if row["rederived"] else None
            row |= {"score": score(row["metrics"]), "needs": needs}
            row["name"] = row["name" if place else "reference"]
        columns = ["name", "dataset", "#parameters", "#size", "#score", "re-derived", "here"]
        columns += ["needs", *["reference"] * place]
        print_table(columns, rows, spare=("here", "re-derived", "dataset"), empty=empty)

    return Answer(rows, show)


def score(metrics: dict[str, float]) -> str | None:
    """The accuracy if there is one (that of a GAN's discriminator is none), or the first figure."""
    if "test_accuracy" in metrics:
        return percent(metrics["test_accuracy"])
    name, value = next(iter(metrics.items()), ("", 0.0))
    return f"{label(name.removeprefix('test_'))} {value:.4g}" if name else None


@command()
@weights_argument
def pull_command(names: tuple[str, ...]) -> Answer:
    """Bring weights to this machine and check them.

    NAME is a model, model.tag, hf:ORG/NAME[@REVISION] or file:FOLDER. The model's plugin need not
    be installed; if it is, the tensors are compared with the model as well.

    Examples:
      zoo pull cnn.cifar10
      zoo pull cnn mlp                the weights for each model's own dataset
      zoo pull hf:org/name@v1
    """
    from zoo_core.weights.references import obtain

    rows = []
    for name in names:
        found = obtain(name)
        print_part(f"{name}  {size(found.bytes)}  {found.located.path}")
        facts = {"path": found.located.path, "bytes": found.bytes, "sha256": found.sha256}
        rows.append({"name": name, **facts, "fits": found.fits})
    return Answer(rows)


@command()
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=complete_weights)
@runs_option
def verify_command(names: tuple[str, ...], runs: Path | None) -> Answer:
    """Read weights on this machine again, every byte, and check them.

    NAME is a model, model.tag, a run, a .safetensors file or a repository. The command asks a
    repository which weights it holds, and fetches none.

    Examples:
      zoo verify                      everything on this machine
      zoo verify cnn.cifar10
      zoo verify latest               the weights of a run
    """
    rows = [verified(name, runs) for name in names] if names else everything()
    empty = "There are no weights on this machine; zoo pull NAME brings some."
    cells = [[r["name"], size(r["bytes"]) if "bytes" in r else None, r["state"]] for r in rows]
    columns, ok = ["weights", "#size", "state"], all(row["ok"] for row in rows)
    remarks = [] if names else shared_names()
    show = partial(print_table, columns, cells, empty=empty)
    return Answer(rows, show, failed=not ok, remarks=remarks)


def everything() -> list[dict[str, Any]]:
    """What plugins ship and what is in the store; what no manifest names, by its digest."""
    listed = [weights for _, weights in all_weights()[0]]
    stored, folder = store.stored_digests(), cache_dir("weights")
    names = [
        name
        for weights, name in zip(listed, labels(listed), strict=True)
        if weights.sha256 in stored or packaged_file(weights)
    ]
    others = sorted(stored - {weights.sha256 for weights in listed})
    return [
        verified(name) for name in sorted(names) + [f"{folder / d}.safetensors" for d in others]
    ]


def shared_names() -> list[str]:
    """A sentence about each name that means several weights: a matter of names, not of bytes."""
    listed = [weights for _, weights in all_weights()[0]]
    found: dict[str, list[str]] = {}
    for weights, reference in zip(listed, labels(listed), strict=True):
        if reference != weights.name:
            found.setdefault(weights.name, []).append(reference)
    return [f"{name} means several weights: write {' or '.join(r)}." for name, r in found.items()]


def verified(name: str, runs: Path | None = None) -> dict[str, Any]:
    """What came of reading the weights of one name again."""
    from zoo_core.weights.references import locate
    from zoo_core.weights.verify import check

    try:
        located = locate(name, runs)
        if not located.path.exists():
            return {"name": name, "ok": False, "state": "not on this machine"}
        found = check(located)
    except (AmbiguousName, UnknownName):
        raise  # it is about what the user typed and says nothing about weights
    except ZooError as error:
        return {"name": name, "ok": False, "state": str(error)}
    state = "ok" if located.sha256 else "readable, but there is no digest to compare with"
    return {
        "name": name,
        "ok": True,
        "state": f"{state}, fits {found.located.model}" if found.fits else state,
        "path": located.path,
        "bytes": found.bytes,
        "sha256": found.sha256,
    }


@command(json_help="")
@weights_argument
@click.option("--forget", is_flag=True, help="Also drop NAME from your own manifest.")
def remove_command(names: tuple[str, ...], forget: bool) -> None:
    """Delete the copy of weights on this machine.

    NAME is a model, model.tag or a repository. What is published stays published.

    Examples:
      zoo remove cnn.cifar10
      zoo remove --forget cnn.mine      also remove it from your manifest
    """
    from zoo_core.weights.listing import published

    for name in names:
        if forget:  # of several that a name may mean, yours is meant
            bare, _, digest = name.rpartition("/")[2].partition("@")
            with changing(user_manifest()) as entries:  # nothing changes if the block raises
                weights = entries.pop(bare, None)
                if weights is None or not weights.sha256.startswith(digest):
                    raise UnknownName(f"your manifest does not list {name!r}", str(user_manifest()))
                deleted = store.remove(weights)  # first: after a kill the manifest still names it
            echo(f"{bare} is no longer in {user_manifest()}")
        else:
            weights = published(name)
            if weights is None:
                raise UsageError(f"{name} is not published", "zoo runs remove deletes runs")
            deleted = store.remove(weights)
        if deleted:
            outcome = "deleted"
        elif not forget and packaged_file(weights):
            outcome = f"is a part of {weights.distribution}; pip uninstall removes both"
        else:
            outcome = "was not on this machine"
        echo(f"{name}: {outcome}")
        if not forget and weights in [one for who, one in all_weights()[0] if who == USERS]:
            why = f"it stays in your manifest, so that zoo pull {weights.name} brings it back"
            note(f"{why}; zoo remove --forget {weights.name} takes it out.")
