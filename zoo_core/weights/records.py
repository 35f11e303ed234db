"""What is on record of a training that somebody wants to repeat.

Light on purpose: the record is read before anything imports NumPy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from zoo_core.io.documents import conform, read_document, read_json
from zoo_core.io.errors import UsageError, ZooError
from zoo_core.io.process import ONE_THREAD, be_portable
from zoo_core.io.targets import describe
from zoo_core.runs.run import FORMAT, Run
from zoo_core.runs.schema import Digest, Options, RunDocument, Text
from zoo_core.runs.summary import final_scores, number
from zoo_core.spec.recipe import freeze
from zoo_core.spec.settings import FIELDS, SECTIONS, merge, read_request
from zoo_core.weights.listing import published
from zoo_core.weights.manifest import Weights, packaged_file


@dataclass(frozen=True)
class Record:
    """A training on record: what decides it, and what it gave."""

    reference: str  # as a person names it
    of: str
    model: str
    dataset: str
    recipe_name: str
    settings: Mapping[str, Any]  # every field of the recipe, as `override` takes them
    config: Mapping[str, Any]  # every option that the model had then
    sha256: str
    dtype: str  # "": as it was trained
    metrics: Mapping[str, float]
    images: int  # in the test set; 0 is not known
    digest: str  # of the dataset; "" is not known
    environment: Mapping[str, Any] = field(default_factory=dict)
    states: Sequence[str] = ()  # of metrics.jsonl, epoch by epoch
    run: Run | None = None  # where it is on this machine


def read_record(reference: str, runs: Path | None = None) -> Record:
    """The record of published weights by name, of a run, or of a run.json alone."""
    path = Path(reference)
    if path.suffix == ".json":
        return _of_run(reference, path, Run(path.parent) if path.name == Run.document else None)
    if weights := published(reference):
        return _of_weights(reference, weights)
    run = Run.find_trained(reference, runs)
    return _of_run(reference, run.settings_file, run)


def compute_as(record: Record) -> None:
    """Let NumPy and torch, which read this when they are imported, compute as on record."""
    if record.settings.get("portable"):
        be_portable()
    elif "numpy" not in sys.modules and (threads := record.environment.get("threads")):
        for variable in ONE_THREAD:  # rounding depends on their number
            os.environ.setdefault(variable, str(threads))


def _of_run(reference: str, path: Path, run: Run | None) -> Record:
    try:
        document = read_document(path, FORMAT, RunDocument)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    request = read_request(path)
    if document["status"] != "complete":
        hint = "zoo train --resume finishes a run"
        raise UsageError(f"{path} is {document['status']}: nothing came out of it yet", hint)
    try:
        result, data = document["result"], document["dataset"]
        split, figures = final_scores(result, ())
        return Record(
            reference=reference,
            of=document.get("name") or path.stem,
            model=request.model,
            dataset=request.dataset,
            recipe_name=request.recipe,
            settings=request.settings,
            config=document["model"]["config"],
            sha256=result["model"]["sha256"],
            dtype="",
            metrics={f"{split}_{n}": v for n, v in figures.items() if number(v) is not None},
            images=data.get("test") or 0,
            digest=data.get("digest") or "",
            environment=document["environment"],
            states=states_of(run) if run else (),
            run=run,
        )
    except (LookupError, TypeError, AttributeError) as error:
        raise ZooError(f"{path} is damaged: {describe(error)}") from error


def states_of(run: Run) -> list[str]:
    """The digest after each epoch; [] where a run of an older zoo has none."""
    states = [line.get("state") for line in run.metrics()]
    return states if all(states) else []  # type: ignore[return-value]


class Beside(Struct):
    """What NAME.json beside shipped weights says of their training."""

    recipe_name: Text = ""
    dataset: Options = {}
    environment: Options = {}
    states: Annotated[list[Digest], Meta(max_length=1_000_000)] = []


def _of_weights(reference: str, weights: Weights) -> Record:
    if weights.recipe.get("init"):
        what = f"{weights.name} began from trained weights that its record does not name"
        raise UsageError(what, "a run.json names them: zoo reproduce RUN")
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    plain = {name: value for name, value in FIELDS.items() if name not in SECTIONS}
    for name, value in weights.recipe.items():
        section, dot, option = name.partition(".")
        if dot:
            sections[section][option] = value
        else:
            plain[name] = value
    settings = merge({**plain, **sections}, {"model": weights.config})
    told, path = Beside(), packaged_file(weights)
    if path and (beside := path.with_suffix(".json")).exists():
        import msgspec

        told = msgspec.convert(conform(read_json(beside), Beside, str(beside)), Beside)
    return Record(
        reference=reference,
        of=weights.name,
        model=f"{weights.plugin}/{weights.model}",
        dataset=weights.dataset,
        recipe_name=told.recipe_name,
        settings=freeze(settings),
        config=weights.config,
        sha256=weights.sha256,
        dtype=weights.dtype,
        metrics=weights.metrics,
        images=int(told.dataset.get("test") or 0),
        digest=str(told.dataset.get("digest") or ""),
        environment=told.environment,
        states=told.states,
    )
