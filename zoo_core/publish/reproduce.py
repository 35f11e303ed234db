"""Trains once more what a record describes, and says whether the same weights came out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_core.io.console import say, typed
from zoo_core.io.errors import Interrupted, UsageError, ZooError, signal_of
from zoo_core.io.tensors import read
from zoo_core.publish.publish import converted
from zoo_core.runs.run import Run, runs_root
from zoo_core.runs.statistics import Difference, independent, paired
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.settings import choose_recipe, override
from zoo_core.train import runner
from zoo_core.train.builder import differences, environment, open_data
from zoo_core.use.evaluate import as_known, measure_model
from zoo_core.use.load import load_model
from zoo_core.weights.manifest import find_model
from zoo_core.weights.records import Record, states_of
from zoo_core.weights.references import obtain, of_run
from zoo_core.weights.statements import Statement, keep
from zoo_core.weights.verify import Verified, check

if TYPE_CHECKING:
    import numpy as np

BESIDE = "reproduced.jsonl"  # in the new run directory
ACCURACY = "test_accuracy"


def reproduce(
    record: Record,
    *,
    name: str = "",
    runs: Path | None = None,
    device: str = "",
    quiet: bool = False,
    checkpoint_seconds: float = 30.0,
    command: str = "",
    statement: Path | None = None,
) -> Statement:
    """Train in the run directory `name`, compare, and keep the statement there.

    name: of a run that goes on if it has begun; "": a new one. statement: one more file to add to.
    """
    name = name or f"{record.model.rpartition('/')[2]}-again-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    entry = find_model(record.model)
    recipe_name = record.recipe_name if record.recipe_name in entry.recipes else "default"
    recipe = override(choose_recipe(entry, recipe_name), record.settings)
    if record.run and record.run.path.resolve() == (runs_root(runs) / name).resolve():
        raise UsageError(f"{name} is the run on record", "choose another --name for the new one")
    if not device:  # a GPU of another machine is no reason to stop
        device = "cpu" if record.environment.get("device") == "cpu" else "auto"
    data, _ = open_data(entry, recipe, record.dataset, say)
    if record.digest and data.digest != record.digest:
        what = f"dataset {data.name} has other images than those that {record.of} was trained on"
        raise UsageError(what, "fetch them again, or name the folder of the old ones")
    different = differences(record.environment, environment(entry, device))
    for sentence in different or ["Nothing on record is different here."]:
        say(sentence)
    try:
        run = runner.train(
            record.model, record.dataset, recipe=recipe_name, settings=record.settings, name=name,
            device=device, runs=runs, quiet=quiet, checkpoint_seconds=checkpoint_seconds,
            command=command,
        ).run  # fmt: skip
    except Interrupted as error:
        again = typed("zoo reproduce", record.reference, "--name", name)
        raise Interrupted(str(error), again, signal_of(error)) from error
    made = _statement(record, run, different)
    for path in (run.path / BESIDE, *([statement] if statement else ())):
        keep(path, made)
    return made


def _statement(record: Record, run: Run, different: list[str]) -> Statement:
    document, verified = run.read(), check(of_run(run), exact=True)
    found, about = verified.sha256, _as_recorded(record, verified)
    dtype = record.dtype if record.dtype != _dtype(verified) else ""
    if dtype or about:
        found = hashlib.sha256(converted(verified, dtype, about)).hexdigest()
    figures: dict[str, tuple[float | None, float | None]] = {
        name: (value, verified.located.metrics.get(name)) for name, value in record.metrics.items()
    }
    said: dict[str, Any] = {"verdict": "bytes"}
    if found != record.sha256:
        apart = _difference(record, run, figures)
        said["verdict"] = "unknown"
        if apart:
            said["verdict"] = "differs" if apart.significant else "interval"
            said |= {"test": apart.test, "p": apart.p, "interval": apart.interval}
    pairs = [*zip(record.states, states_of(run), strict=False)]
    return Statement(
        of=record.of,
        sha256=record.sha256,
        found=found,
        dtype=record.dtype or _dtype(verified),
        run=run.name,
        created=document["created"],
        trained=verified.sha256,
        different=different,
        epochs=len(pairs),
        first_epoch=next((n for n, (then, now) in enumerate(pairs, 1) if then != now), None),
        figures=figures,
        dataset=document["dataset"]["digest"] or "",
        recipe=document["recipe"],
        environment=document["environment"],
        **said,
    )


def _as_recorded(record: Record, verified: Verified) -> str:
    """What the file would say of itself without options that the model has had only since then, if
    there are such; "": nothing else. They have their defaults, so the model is the same one."""
    entry, _, _ = verified.model
    about = json.loads(verified.header.metadata.get("zoo") or "{}")
    config: dict[str, Any] = about.get("config", {})
    plain = json.loads(json.dumps(entry.options))
    newer = {name for name in config.keys() - record.config if config[name] == plain.get(name)}
    if not newer or not record.config:
        return ""
    kept = {name: value for name, value in config.items() if name not in newer}
    return json.dumps(about | {"config": kept}, sort_keys=True)


def _dtype(verified: Verified) -> str:
    floats = {place.dtype for place in verified.header.places.values() if "float" in place.dtype}
    return floats.pop() if len(floats) == 1 else ""


def _difference(
    record: Record, run: Run, figures: Mapping[str, tuple[float | None, float | None]]
) -> Difference | None:
    """Of the accuracy, now minus then: on the same images, or else by the two figures."""
    then, now = figures.get(ACCURACY, (None, None))
    if then is None or now is None:
        return None
    ours, theirs = _right(run), _right(record.run) if record.run else None
    if ours is not None and theirs is None and not record.run:
        theirs = _right_of_weights(record, run)
    if ours is not None and theirs is not None and len(ours) == len(theirs):
        won, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
        return paired(won, lost, len(ours))
    images = record.images or run.read()["dataset"]["test"]
    return independent(now, images, then, images)


def _right(run: Run) -> np.ndarray | None:
    """Which test images a run classifies rightly, by its predictions."""
    if not run.predictions_file.exists():
        return None
    with run.predictions_file.open("rb") as file:
        arrays = read(file)
    said, labels = arrays["probabilities"], arrays.get("labels")
    return None if labels is None or labels.ndim != 1 else said.argmax(1) == labels


def _right_of_weights(record: Record, run: Run) -> np.ndarray | None:
    """The same of the weights on record, where they can be had; the run tells the images."""
    try:
        weights = obtain(record.reference)
    except ZooError:
        return None  # a run.json alone, say: its figures are known
    if weights.sha256 != record.sha256:
        return None
    document = run.read()
    model, recipe = load_model(weights), Recipe(**document["recipe"])
    data, _ = open_data(model.zoo.entry, recipe, record.dataset, say)
    data = as_known(data, model.zoo.targets, record.of)
    if data.test is None or data.test.labels is None or data.test.labels.ndim != 1:
        return None
    about = model.zoo
    _, said, _ = measure_model(about.entry, model, about.preprocess, data, recipe)
    return None if said is None else said.argmax(1) == data.test.labels


def summary(statement: Statement) -> list[str]:
    """Sentences for a person."""
    then, now = statement.figures.get(ACCURACY, (None, None))
    told = {
        "bytes": f"{statement.of}: the same bytes, sha256 {statement.found}.",
        "interval": f"{statement.of}: other bytes, and an accuracy that may be the same.",
        "differs": f"{statement.of}: other bytes, and another accuracy.",
        "unknown": f"{statement.of}: other bytes; no accuracy is on record to compare.",
    }
    lines = [told[statement.verdict]]
    if statement.verdict != "bytes":
        if statement.first_epoch:
            lines.append(f"The weights differ from epoch {statement.first_epoch} on.")
        elif statement.epochs:
            lines.append(f"The weights after the first {statement.epochs} epochs are the same.")
        if then is not None and now is not None and statement.interval:
            low, high = (100 * value for value in statement.interval)
            lines.append(
                f"Accuracy {100 * then:.2f} % on record, {100 * now:.2f} % here; the difference is "
                f"between {low:+.2f} and {high:+.2f} points ({statement.test})."
            )
    return lines
