"""The card of published weights: README.md, for people and for the Hub's own pages.

Written from an entry and from how it was trained, without the time of publishing: the same run has
the same card.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from zoo_core.io.console import duration, figure, label, size
from zoo_core.spec.settings import as_typed
from zoo_core.weights.manifest import Weights

TASKS = {
    "classification": "image-classification",
    "generation": "unconditional-image-generation",
    "clustering": "image-feature-extraction",
}


TOLD = {  # section of run.json -> what of it a card tells; nothing that names a place on a disk
    "model": ("kinds",),
    "dataset": ("train", "validation", "test", "digest"),
    "recipe": ("seed", "subset"),
    "environment": (
        "device", "processor", "threads", "zoo-core", "python", "numpy", "torch", "torchvision",
    ),
    "result": ("epochs", "seconds", "cpu_seconds", "best_epoch", "stopped_early"),
}  # fmt: skip


def training_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says of the training that a card tells."""
    told: dict[str, Any] = {
        section: {name: document[section][name] for name in names if name in document[section]}
        for section, names in TOLD.items()
    }
    return told | {"recipe_name": document["recipe_name"], "init": bool(document["recipe"]["init"])}


def card(weights: Weights, training: Mapping[str, Any], reference: str) -> str:
    """The text of README.md. training: what training_of tells of its run."""
    return f"---\n{_front(weights, training)}---\n\n{_body(weights, training, reference)}"


def _front(weights: Weights, training: Mapping[str, Any]) -> str:
    """YAML; every value is written as JSON, which is YAML as well and needs no library."""
    task = TASKS.get(next(iter(training["model"]["kinds"])), "image-classification")
    metrics = [
        {"type": name.partition("_")[2], "name": name, "value": value, "verified": False}
        for name, value in weights.metrics.items()
    ]
    results = {
        "task": {"type": task},
        "dataset": {"type": weights.dataset, "name": weights.dataset, "split": _split(weights)},
        "metrics": metrics,
    }
    fields: dict[str, Any] = {
        "library_name": "zoo",
        "pipeline_tag": task,
        "tags": ["zoo", weights.model],
        "datasets": [weights.dataset],
        "model-index": [{"name": weights.name, "results": [results] if metrics else []}],
    }
    if weights.license:
        fields = {"license": weights.license, **fields}
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items())


def _split(weights: Weights) -> str:
    return next(iter(weights.metrics), "test").partition("_")[0]


def _body(weights: Weights, training: Mapping[str, Any], reference: str) -> str:
    data = training["dataset"]
    options = ", ".join(
        f"{name} {as_typed(value)}" for name, value in weights.config.items() if value != ""
    )
    shown = weights.classes[:20]
    classes = ", ".join(shown) + (", ..." if len(shown) < len(weights.classes) else "")
    scores = "".join(
        f"| {label(name)} | {figure(name, value)} |\n" for name, value in weights.metrics.items()
    )
    recipe = "".join(f"| {name} | {as_typed(v)} |\n" for name, v in weights.recipe.items())
    return f"""# {weights.name}

`{weights.model}` of [{weights.distribution}](#use-it), trained on {weights.dataset}.

| | |
|---|---|
| parameters | {weights.parameters:,} |
| size | {size(weights.bytes)}, {weights.dtype}{_backbone(weights)} |
| options | {options} |
| classes | {f"{len(weights.classes)}: {classes}" if classes else "none"} |
| sha256 | `{weights.sha256}` |

## Figures

| measured on the {_split(weights)} split, {data[_split(weights)]:,} pictures | |
|---|---|
{scores}
## Use it

```console
$ pip install {weights.distribution}
```

{_use(training["model"]["kinds"], reference)}

## How it was trained

{_training(weights, training)}

| recipe: {training["recipe_name"]} | |
|---|---|
{recipe}"""


def _backbone(weights: Weights) -> str:
    """Whether the file is all that one needs."""
    if weights.backbone is None:
        return ""
    if weights.backbone:
        return "; the frozen backbone is found or fetched by its digest"
    return ", backbone inside"


def _use(kinds: Sequence[str], reference: str) -> str:
    """How to use it, in code: what classifies predicts, what generates is asked for samples."""
    parts = []
    if "generation" in kinds:
        parts.append(f"```console\n$ zoo generate {reference}\n```\n")
    if set(kinds) != {"generation"}:
        code = f'import zoo\n\nmodel = zoo.load("{reference}")\n'
        parts.append(f'```python\n{code}print(zoo.predict(model, "picture.jpg"))\n```')
    return "\n".join(parts).rstrip()


def _training(weights: Weights, training: Mapping[str, Any]) -> str:
    """What a reader has to know to believe the figures, the inconvenient parts too."""
    data, recipe, place = training["dataset"], training["recipe"], training["environment"]
    result = training["result"]
    sentences = [
        f"One run with seed {recipe['seed']}, on {data['train']:,} pictures for "
        f"{result['epochs']} epoch(s), {duration(result['seconds'])} of training on "
        f"{place.get('device', '?')} ({place.get('processor', 'unknown processor')}).",
        "It is a single run: its figures do not say how much another seed would change them; "
        f"the test set has {data['test']:,} pictures.",
        f"{data['validation']:,} pictures of the training set were kept out to choose by."
        if data["validation"]
        else "It was trained on the whole training set and kept as it was after the last epoch.",
    ]
    if result["stopped_early"]:
        sentences.append("It stopped early, when the validation loss no longer fell.")
    if result["best_epoch"]:
        sentences.append(f"The best epoch of the validation loss was {result['best_epoch']}.")
    if recipe["subset"] < 1:
        sentences.append(f"Only {recipe['subset']:.0%} of the training set was used.")
    if weights.backbone is not None:
        sentences.append("Its backbone was not trained; only the head on its features was.")
    if training["init"]:
        sentences.append("It did not start from random weights but from trained ones.")
    versions = ", ".join(
        f"{name} {place[name]}"
        for name in ("zoo-core", "python", "numpy", "torch")
        if name in place
    )
    sentences.append(f"Versions: {versions}. The data has the digest `{data['digest'][:16]}`.")
    return "\n".join(sentences)
