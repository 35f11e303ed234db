"""Keep run.json of finished runs in docs/results, and write the table of docs/results.md from them.

    python benchmarks/results.py RUN...     keep these runs, then write the table
    python benchmarks/results.py            write the table again

Runs of one model, dataset and recipe that differ by their seed are one row, with the mean.
"""

from __future__ import annotations

import json
import re
import shlex
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from zoo_core.registry import registry
from zoo_core.types import Recipe

DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- table: python benchmarks/results.py -->", "<!-- end of table -->"
COLUMNS = (
    "model", "dataset", "recipe", "parameters", "reported", "test accuracy", "seeds", "test loss",
    "epochs", "minutes", "weights",
)  # fmt: skip

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
}


def main() -> None:
    for argument in sys.argv[1:]:
        keep(Path(argument))
    page = DOCS / "results.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


def keep(run: Path) -> None:
    """Copy run.json without what says nothing to others: the confusion matrix and local paths."""
    document = json.loads((run / "run.json").read_text(encoding="utf-8"))
    if document["status"] != "complete":
        sys.exit(f"{run} is {document['status']}, not complete")
    document["result"]["test"].pop("confusion", None)
    document["command"] = without_local(document["command"])
    words = [document["model"]["name"], document["dataset"]["name"], recipe_name(document)]
    name = "-".join(re.sub(r"[^\w]+", "_", word) for word in words)
    path = DOCS / "results" / f"{name}-seed{document['recipe']['seed']}.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(path.name)


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


def table() -> str:
    rows: dict[tuple[str, str, str], list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for path in sorted((DOCS / "results").glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        key = document["model"]["name"], document["dataset"]["name"], recipe_name(document)
        rows[key].append((path.name, document))
    order = list(registry().models.labels())
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for key, found in sorted(rows.items(), key=lambda row: (order.index(row[0][0]), row[0])):
        lines.append(f"| {' | '.join(cells(*key, found))} |")
    return "\n".join(lines)


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
