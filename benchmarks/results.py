"""Keep run.json of finished runs in docs/results, and write the tables of docs/results.md.

    python benchmarks/results.py RUN...     keep these runs, then write the tables
    python benchmarks/results.py            write the tables again
    python benchmarks/results.py --distance CLASSIFIER RUN...
                                            also measure the feature distance of generative runs

Runs of one model, dataset and recipe that differ by their seed are one row, with the mean. Models
that generate have a table of their own, and their pictures are kept beside run.json.
"""

from __future__ import annotations

import json
import re
import shlex
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from zoo_core.registry import registry
from zoo_core.types import Recipe

DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- table: python benchmarks/results.py -->", "<!-- end of table -->"
BEGIN_GENERATIVE = "<!-- generative: python benchmarks/results.py -->"
PICTURES = ("samples", "reconstructions", "latent")
LARGEST = 200_000  # bytes of a picture that is kept
COLUMNS = (
    "model", "dataset", "recipe", "parameters", "reported", "test accuracy", "seeds", "test loss",
    "epochs", "minutes", "weights",
)  # fmt: skip

GENERATIVE = {  # column -> figures of the test set, the first that is there; digits after the point
    "MSE": (("reconstruction_mse",), 5),
    "KL": (("kl",), 1),
    "bits/dim": (("bits_per_dim",), 3),
    "codes used": (("codes_used",), 3),
    "diversity": (("diversity",), 2),
}

# What others measured with what `paper` repeats; accuracies of test sets in percent.
REPORTED = {
    ("mlp", "paper"): "54.44 %",
    ("cnn", "paper"): "77.33 %",
    ("resnet18", "paper"): "83.46 %",
    ("resnet18_finetune", "paper"): "89.06 %",
    ("nano_vit", "paper"): "73.24 %",
    ("nano_vit", "paper_3_heads"): "69.17 %",
    ("nano_vit_p4", "paper"): "69.90 %",
    ("patch_lstm", "paper"): "68.11 %",
    ("fashion_cnn", "paper"): "91.16 %",
    ("fashion_cnn", "paper_leaky"): "91.61 %",
    ("fashion_resnet18", "paper"): "91.89 %",
    ("fashion_vit", "paper"): "10.00 %",
    ("mnist_cnn1", "paper"): "98.45 %",
    ("mnist_cnn2", "paper"): "98.98 %",
    ("mnist_cnn2", "paper_leaky"): "99.26 %",
    ("resnet8", "paper"): "99.28 %",
    ("mnist_vit", "paper"): "99 %",
    ("fcn_numpy", "paper"): "95 %",
    ("lenet_numpy", "paper"): "99.26 %",
    ("lenet_numpy", "mse"): "97.62 %",
    ("lenet_numpy", "no_augment"): "99.03 %",
    ("lenet_numpy", "no_batch_norm"): "98.61 %",
    ("vit_scratch", "paper"): "81.2 %",
    ("vae_cluster", "paper"): "23.59 to 24.64 %",
    ("cvae", "paper"): "about 10 %",
    ("cvae_classifier", "paper"): "82 %",
}


def main() -> None:
    arguments = sys.argv[1:]
    classifier = arguments[1] if arguments[:1] == ["--distance"] else ""
    for argument in arguments[2:] if classifier else arguments:
        keep(Path(argument), classifier)
    page = DOCS / "results.md"
    text = page.read_text(encoding="utf-8")
    for begin, made in ((BEGIN, table()), (BEGIN_GENERATIVE, generative_table())):
        before, rest = text.split(begin)
        _, after = rest.split(END, 1)
        text = f"{before}{begin}\n{made}\n{END}{after}"
    page.write_text(text, encoding="utf-8")


def keep(run: Path, classifier: str) -> None:
    """Copy run.json without what says nothing to others: the confusion matrix and local paths."""
    document = json.loads((run / "run.json").read_text(encoding="utf-8"))
    if document["status"] != "complete":
        sys.exit(f"{run} is {document['status']}, not complete")
    document["result"]["test"].pop("confusion", None)
    document["command"] = without_local(document["command"])
    words = [document["model"]["name"], document["dataset"]["name"], recipe_name(document)]
    name = "-".join(re.sub(r"[^\w]+", "_", word) for word in words)
    path = DOCS / "results" / f"{name}-seed{document['recipe']['seed']}.json"
    if is_generative(document):
        if classifier and "generate" in registry().models.get(words[0]).capabilities:
            document["result"]["distance"] = distance(run, classifier)
        keep_pictures(run, path)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(path.name)


def is_generative(document: dict[str, Any]) -> bool:
    return "generation" in document["model"]["kinds"]


def distance(run: Path, classifier: str) -> dict[str, object]:
    """The feature distance, with the classifier named by what it is and not by where it lies."""
    from zoo_core.data.datasets import open_dataset
    from zoo_core.hub.find import find
    from zoo_core.train.distance import feature_distance
    from zoo_core.train.generate import load_source

    source, loaded = load_source(str(run.absolute()))
    data = open_dataset(loaded.dataset, **loaded.options)
    found = feature_distance(source, data, classifier).to_dict()
    return found | {"classifier": find(classifier).model}


def keep_pictures(run: Path, path: Path) -> None:
    """The pictures of a report as WebP, small enough to be read on a page."""
    from PIL import Image

    for name in PICTURES:
        source = run / "pictures" / f"{name}.png"
        if not source.exists():
            continue
        kept = path.with_name(f"{path.stem}-{name}.webp")
        with Image.open(source) as picture:
            for quality in (85, 70, 55):
                picture.convert("RGB").save(kept, quality=quality, method=6)
                if kept.stat().st_size < LARGEST:
                    break


def without_local(command: str) -> str:
    """The command line without options that change no result."""
    words, kept = iter(shlex.split(command)), []
    for word in words:
        if word == "--runs":
            next(words, None)
        elif word not in ("--no-report", "--quiet", "--json"):
            kept.append(word)
    return shlex.join(kept)


def recipe_name(document: dict[str, Any]) -> str:
    """The recipe, with what was changed of it besides the seed."""
    entry = registry().models.get(document["model"]["name"])
    name = document["recipe_name"]
    known = entry.recipes.get(name) or Recipe()
    plain = json.loads(json.dumps({f: getattr(known, f) for f in document["recipe"]}))
    changed = {
        key: value
        for key, value in document["recipe"].items()
        if key not in ("seed", "preprocess") and value != plain[key]
    }
    shown = {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in changed.items()}
    return ", ".join([name, *(f"{key} {value}" for key, value in sorted(shown.items()))])


Key = tuple[str, str, str]  # model, dataset, recipe


def kept_runs(*, generative: bool) -> list[tuple[Key, list[tuple[str, dict[str, Any]]]]]:
    """The runs that are kept, by what they have in common but for the seed."""
    rows: dict[Key, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for path in sorted((DOCS / "results").glob("*.json")):
        if "-tuned_" in path.name:
            continue  # what searches found; docs/search.md tells of them
        document = json.loads(path.read_text(encoding="utf-8"))
        key = document["model"]["name"], document["dataset"]["name"], recipe_name(document)
        if is_generative(document) == generative:
            rows[key].append((path.name, document))
    order = list(registry().models.labels())
    return sorted(rows.items(), key=lambda row: (order.index(row[0][0]), row[0]))


def markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def table() -> str:
    return markdown(COLUMNS, (cells(*key, found) for key, found in kept_runs(generative=False)))


def generative_table() -> str:
    titles = (
        "model", "dataset", "recipe", "parameters", "reported", "accuracy", *GENERATIVE,
        "feature distance", "pictures", "seed", "epochs", "minutes",
    )  # fmt: skip
    rows = [
        generative_cells(*key, name, document)
        for key, found in kept_runs(generative=True)
        for name, document in found
    ]
    return markdown(titles, rows)


def generative_cells(
    model: str, dataset: str, recipe: str, name: str, document: dict[str, Any]
) -> list[str]:
    result = document["result"]
    test = result["test"]
    stem = name.removesuffix(".json")
    figures = []
    for names, digits in GENERATIVE.values():
        value = next((test[n] for n in names if n in test), None)
        figures.append("-" if value is None else f"{value:.{digits}f}")
    accuracy = f"**{100 * test['accuracy']:.2f} %**" if "accuracy" in test else "-"
    if "own_vote_accuracy" in test:
        accuracy += f" ({100 * test['own_vote_accuracy']:.2f} % by its own votes)"
    pictures = [p for p in PICTURES if (DOCS / "results" / f"{stem}-{p}.webp").exists()]
    apart = result.get("distance")
    return [
        f"`{model}`",
        dataset,
        recipe,
        f"{document['parameters']['trainable']:,}",
        REPORTED.get((model, recipe.partition(",")[0]), "-"),
        accuracy,
        *figures,
        f"{apart['feature_distance']:.1f}" if apart else "-",
        " ".join(f"[{p}](results/{stem}-{p}.webp)" for p in pictures) or "-",
        f"[{document['recipe']['seed']}](results/{name})",
        str(result["epochs"]),
        f"{result['seconds'] / 60:.1f}",
    ]


def cells(
    model: str, dataset: str, recipe: str, found: list[tuple[str, dict[str, Any]]]
) -> list[str]:
    documents = [document for _, document in found]
    results = [document["result"] for document in documents]
    accuracies = [100 * result["test"]["accuracy"] for result in results]
    accuracy = f"**{statistics.mean(accuracies):.2f} %**"
    if len(found) > 1:
        accuracy += f" ({min(accuracies):.2f} to {max(accuracies):.2f})"
    links = [f"[{document['recipe']['seed']}](results/{name})" for name, document in found]
    return [
        f"`{model}`",
        dataset,
        recipe,
        f"{documents[0]['parameters']['trainable']:,}",
        REPORTED.get((model, recipe), "-"),
        accuracy,
        " ".join(links),
        f"{statistics.mean(result['test']['loss'] for result in results):.4f}",
        str(max(result["epochs"] for result in results)),
        f"{statistics.mean(result['seconds'] for result in results) / 60:.1f}",
        " ".join(f"`{result['model']['sha256'][:8]}`" for result in results),
    ]


if __name__ == "__main__":
    main()
