"""zoo verify."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zoo_core.cli.output import complete_weights, note, print_json, print_table
from zoo_core.io.console import size
from zoo_core.io.errors import UnknownName, ZooError


@click.command(
    epilog="""\b
Examples:
  zoo verify                      everything on this machine
  zoo verify cnn.cifar10
  zoo verify latest               the weights of a run
"""
)
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=complete_weights)
@click.option("--runs", type=click.Path(path_type=Path), help="Folder of runs (default: runs).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(names: tuple[str, ...], runs: Path | None, as_json: bool) -> int:
    """Read weights on this machine again, every byte, and check them.

    NAME is a model, model.tag, a run, a .safetensors file or a repository, which is asked what it
    holds. No weights are fetched.
    """
    rows = [check(name, runs) for name in names] if names else everything()
    if as_json:
        print_json(rows)
    elif rows:
        print_table(
            ["weights", "#size", "state"],
            [[r["name"], size(r["bytes"]) if r.get("bytes") else None, r["state"]] for r in rows],
        )
    else:
        note("There are no weights on this machine; zoo pull NAME brings some.")
    return 0 if all(row["ok"] for row in rows) else 1


def everything() -> list[dict[str, Any]]:
    """What plugins bring along and what is in the store, by the names of the manifests.

    What no manifest lists goes by its digest.
    """
    from zoo_core.io.files import cache_dir
    from zoo_core.weights.manifest import all_weights, packaged_file
    from zoo_core.weights.store import stored_digests

    listed = [weights for _, weights in all_weights()[0]]
    names = {weights.sha256: weights.name for weights in reversed(listed)}
    packaged = {weights.sha256 for weights in listed if packaged_file(weights)}
    here = sorted((names.get(digest, digest), digest) for digest in stored_digests() | packaged)
    return [
        check(name if digest in names else str(cache_dir("weights") / f"{digest}.safetensors"))
        for name, digest in here
    ]


def check(name: str, runs: Path | None = None) -> dict[str, Any]:
    from zoo_core.weights import verify
    from zoo_core.weights.references import locate

    try:
        located = locate(name, runs)
        if not located.path.exists():
            return {"name": name, "ok": False, "state": "not on this machine"}
        weights = verify.check(located)
    except UnknownName:
        raise  # a mistake of whoever typed it, and nothing about any weights
    except ZooError as error:
        return {"name": name, "ok": False, "state": str(error)}
    words = ["ok" if located.sha256 else "readable, but there is no digest to compare with"]
    if weights.fits:
        words.append(f"fits {weights.located.model}")
    return {
        "name": name,
        "ok": True,
        "state": ", ".join(words),
        "path": str(located.path),
        "bytes": weights.bytes,
        "sha256": weights.sha256,
    }
