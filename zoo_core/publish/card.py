"""The card of published weights: README.md, for people and for the Hub's own pages.

It does not tell the time of publishing, so that the same run has the same card.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from zoo_core.io.console import duration, figure, interval_text, label, size, typed, visible
from zoo_core.runs.summary import final_scores, intervals_of
from zoo_core.spec.answers import Targets
from zoo_core.spec.settings import as_typed
from zoo_core.weights.manifest import Weights, backbone_of

TASKS = {
    "classification": "image-classification",
    "generation": "unconditional-image-generation",
    "clustering": "image-feature-extraction",
}
ANSWERING = {"classification", "clustering", "regression"}  # kinds that zoo predict works with
TOLD = {  # section of run.json -> what of it a card tells; nothing that names a place on a disk
    "model": ("kinds",),
    "dataset": ("train", "validation", "test", "digest"),
    "recipe": ("seed", "subset"),
    "environment": (
        "device", "processor", "processor_model", "processor_flags", "threads", "instructions",
        "blas", "zoo-core", "python", "numpy", "torch", "torchvision",
    ),
    "result": ("epochs", "seconds", "cpu_seconds", "best_epoch", "stopped_early", "temperature"),
}  # fmt: skip


def training_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says of the training that a card tells."""
    told: dict[str, Any] = {
        section: {name: document[section][name] for name in names if name in document[section]}
        for section, names in TOLD.items()
    }
    init = bool(document["recipe"].get("init"))  # a trainer may not know it
    _, scores = final_scores(document["result"], ())
    sure = intervals_of(scores, scores.get("images"))
    return told | {"recipe_name": document["recipe_name"], "init": init, "intervals": sure}


def card(weights: Weights, training: Mapping[str, Any], reference: str) -> str:
    """The text of README.md. training: what training_of tells of its run."""
    split = next(iter(weights.metrics), "test").partition("_")[0]
    kinds, backbone = training["model"]["kinds"], backbone_of(weights)
    inside = {None: "", "": ", backbone inside"}.get(
        backbone, "; the frozen backbone is found or fetched by its digest"
    )
    options = {name: value for name, value in weights.config.items() if value != ""}
    targets = Targets.from_dict(weights.classes, weights.targets)
    names = ", ".join((*weights.classes[:20], *["..."] * (len(weights.classes) > 20)))
    scores = {label(name): figure(name, value) for name, value in weights.metrics.items()}
    accuracy = {"accuracy": weights.metrics.get(f"{split}_accuracy")}
    sure = intervals_of(accuracy, training["dataset"][split]) | training.get("intervals", {})
    for name, ends in sure.items():
        if (told := label(f"{split}_{name}")) in scores:
            scores[told] += f" ({interval_text(name, ends)})"
    recipe = {name: as_typed(value) for name, value in weights.recipe.items()}
    return visible(f"""---
{_front(weights, kinds, split)}---

# {weights.name}

`{weights.model}` of [{weights.distribution}](#use-it), trained on {weights.dataset}.

| | |
|---|---|
| parameters | {weights.parameters:,} |
| size | {size(weights.bytes)}, {weights.dtype}{inside} |
| options | {", ".join(f"{name} {as_typed(value)}" for name, value in options.items())} |
| labels | {targets}{f": {names}" if names else ""} |
| sha256 | `{weights.sha256}` |

## Figures

| measured on the {split} split, {training["dataset"][split]:,} images | |
|---|---|
{_rows(scores)}
In brackets: 95 % intervals, for other images of this kind.

## Use it

```console
$ pip install {weights.distribution}
```

{_use(kinds, reference)}

## How it was trained

{_training(training, backbone is not None, "epochs" in weights.recipe)}

| recipe: {training["recipe_name"]} | |
|---|---|
{_rows(recipe)}""")


def _front(weights: Weights, kinds: Sequence[str], split: str) -> str:
    """YAML; every value is written as JSON, which is YAML as well and needs no library."""
    task, data = TASKS.get(kinds[0]), weights.dataset
    metrics = [
        {"type": name.partition("_")[2], "name": name, "value": value, "verified": False}
        for name, value in weights.metrics.items()
    ]
    dataset = {"type": data, "name": data, "split": split}
    results = {"task": {"type": task or kinds[0]}, "dataset": dataset, "metrics": metrics}
    fields: dict[str, Any] = {
        **({"license": weights.license} if weights.license else {}),
        "library_name": "zoo",
        **({"pipeline_tag": task} if task else {}),  # the Hub takes none but its own
        "tags": ["zoo", weights.model, *(() if task else kinds)],
        "datasets": [data],
        "model-index": [{"name": weights.name, "results": [results] if metrics else []}],
    }
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items())


def _rows(table: Mapping[str, str]) -> str:
    return "".join(f"| {name} | {value} |\n" for name, value in table.items())


def _use(kinds: Sequence[str], reference: str) -> str:
    """How to use it, in code: what classifies predicts, what generates draws samples."""
    parts = []
    if "generation" in kinds:
        parts.append(f"```console\n$ {typed('zoo generate', reference)}\n```\n")
    if set(kinds) & ANSWERING:
        code = f'import zoo\n\nmodel = zoo.load("{reference}")\n'
        parts.append(f'```python\n{code}print(zoo.predict(model, "image.jpg"))\n```')
    return "\n".join(parts).rstrip()


def _training(training: Mapping[str, Any], frozen: bool, epochs: bool) -> str:
    """What a reader has to know to believe the figures, the inconvenient parts too."""
    data, recipe, place = training["dataset"], training["recipe"], training["environment"]
    heat = training["result"].get("temperature")
    result, kept, subset = training["result"], data["validation"], recipe["subset"]
    again = training.get("rederived", 0)
    early, best = result["stopped_early"], result["best_epoch"]
    versions = [f"{n} {place[n]}" for n in ("zoo-core", "python", "numpy", "torch") if n in place]
    last, passes = "; the weights are the last epoch's", f" for {result['epochs']} epoch(s)"
    if not epochs:  # trained in one go
        last = passes = ""
    share = f"{100 * subset:.3g} % of the training set was used"
    remarks = {  # sentence -> whether it is true of this run
        f"{kept:,} images of the training set were kept out to choose by.": kept,
        f"It was trained on the whole training set{last}.": not kept and subset == 1,
        f"Only {share}{last}.": not kept and subset < 1,
        f"Only {share}, those images included.": kept and subset < 1,
        "It stopped early, when the validation loss no longer fell.": early,
        f"The best epoch of the validation loss was {best}.": best,
        "Its backbone was not trained; only the head on its features was.": frozen,
        f"It was trained {again} more time(s), to the same bytes.": again,
        f"Its probabilities are calibrated: validation images chose the temperature {heat}.": heat,
        "It did not start from random weights but from trained ones.": training["init"],
    }
    sentences = [
        f"One run with seed {recipe['seed']}, on {data['train']:,} images{passes}, "
        f"{duration(result['seconds'])} of training on "
        f"{place.get('device', '?')} ({place.get('processor', 'unknown processor')}).",
        "It is a single run: its figures do not say how much another seed would change them; "
        f"the test set has {data['test']:,} images.",
        *(sentence for sentence, true in remarks.items() if true),
        f"Versions: {', '.join(versions)}. The data has the digest `{data['digest'][:16]}`.",
    ]
    return "\n".join(sentences)
