"""zoo list --weights. Made for 10,000 entries: it looks into no weight file."""

from __future__ import annotations

import fnmatch
import gc
from typing import Any

from zoo_core.cli.output import note, print_json, print_table
from zoo_core.io.console import label, percent, size
from zoo_core.spec.registry import find_models, plugin_of, registry
from zoo_core.weights.manifest import Weights, all_weights, backbone_of, packaged_file
from zoo_core.weights.store import stored_digests


def show_weights(text: str, kind: str, tag: str, dataset: str, plugin: str, as_json: bool) -> None:
    gc.disable()  # for the rest of this process: it would search 10,000 entries for cycles
    listed, problems = all_weights()
    models = registry().models
    wanted = {(m.name, plugin_of(m)) for m in find_models(models, kind=kind, tag=tag)}
    chosen = [
        (who, weights)
        for who, weights in listed
        if (not text or matches_weights(weights, text))
        and dataset in ("", weights.dataset)
        and plugin in ("", weights.plugin)
        and (not (kind or tag) or (weights.model, weights.plugin) in wanted)
    ]
    here = stored_digests()
    installed = {(entry.name, plugin_of(entry)) for entry in models}
    rows = [weights_row(who, weights, here, installed) for who, weights in chosen]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(
            ["name", "dataset", "#parameters", "#size", "#score", "here", "needs"],
            [
                [r["name"], r["dataset"], r["parameters"],
                 size(r["bytes"]) + " + backbone" * bool(r["backbone"]),
                 score(r["metrics"]), r["here"], r["install"] or "-"]
                for r in rows
            ],
        )  # fmt: skip
    elif listed:
        note(f"None of the {len(listed)} weights matches; zoo list --weights shows them all.")
    else:
        note("No installed plugin brings weights along. pip install zoo-cnn would be a start.")
    for problem in problems.values():
        note(f"Warning: {problem}")


def matches_weights(weights: Weights, text: str) -> bool:
    if any(character in text for character in "*?["):
        return fnmatch.fnmatchcase(weights.name, text)
    return text.lower() in weights.name


def weights_row(
    who: str, weights: Weights, here: set[str], installed: set[tuple[str, str]]
) -> dict[str, Any]:
    known = (weights.model, weights.plugin) in installed
    return {
        "name": weights.name,
        "model": weights.model,
        "plugin": weights.plugin,
        "dataset": weights.dataset,
        "parameters": weights.parameters,
        "bytes": weights.bytes,
        "backbone": backbone_of(weights),
        "metrics": weights.metrics,
        "here": weights.sha256 in here or packaged_file(weights) is not None,
        "install": "" if known else f"pip install {weights.distribution}",
        "sha256": weights.sha256,
        "license": weights.license,
        "sources": weights.sources,
        "manifest": who,
    }


def score(metrics: dict[str, float]) -> str | None:
    """The accuracy if there is one (that of a GAN's discriminator is none), or the first figure."""
    if "test_accuracy" in metrics:
        return percent(metrics["test_accuracy"])
    name, value = next(iter(metrics.items()), ("", 0.0))
    return f"{label(name.removeprefix('test_'))} {value:.4g}" if name else None
