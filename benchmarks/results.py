"""Keep run.json of finished runs in docs/results; write the tables of docs/results.md and README.

    python benchmarks/results.py RUN...     keep these runs, then write the tables
    python benchmarks/results.py            write the tables again
    python benchmarks/results.py --distance CLASSIFIER RUN...
                                            also measure the feature distance of generative runs

Runs that differ by their seed alone are one figure, their mean. Models that generate have a table
of their own besides, and their plots are kept beside run.json.
"""

from __future__ import annotations

import json
import re
import shlex
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cost_picture import Point, draw_cost

from zoo_core.runs.statistics import spread, wilson
from zoo_core.spec.recipe import Recipe
from zoo_core.spec.registry import registry
from zoo_core.weights.manifest import all_weights, is_packaged, packaged_file
from zoo_core.weights.statements import SUFFIX, statements

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PICTURES = {"samples": "samples", "reconstructions": "task-reconstructions", "latent": "task-codes"}
LARGEST = 200_000  # bytes of a plot that is kept

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


REDERIVED = {  # the best verdict counts
    "bytes": "byte for byte", "interval": "within the interval", "differs": "**another accuracy**",
}  # fmt: skip


def main() -> None:
    arguments = sys.argv[1:]
    classifier = arguments[1] if arguments[:1] == ["--distance"] else ""
    for argument in arguments[2:] if classifier else arguments:
        keep(Path(argument), classifier)
    models = classifiers()
    write(DOCS / "results.md", "classifiers", table(models))
    write(DOCS / "results.md", "other runs", other_runs())
    write(DOCS / "results.md", "generative", generative_table())
    write(ROOT / "README.md", "results", short_table(models))
    draw_cost(
        [
            Point(
                m.dataset,
                m.model + m.without,
                100 * m.default.accuracy,
                m.default.cpu_minutes,
                m.default.precision,
            )
            for m in models
            if m.default
        ],
        DOCS / "results" / "cost.png",
    )


def write(page: Path, name: str, made: str) -> None:
    """Put a table between its two marks."""
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: python benchmarks/results.py -->", f"<!-- end of {name} -->"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    page.write_text(f"{before}{begin}\n{made}\n{end}{after}", encoding="utf-8")


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
    if generates(document):
        if classifier and "generate" in registry().models.get(words[0]).capabilities:
            document["result"]["distance"] = distance(run, classifier)
        keep_pictures(run, path)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(path.name)


def generates(document: dict[str, Any]) -> bool:
    return "generation" in document["model"]["kinds"]


def classifies(document: dict[str, Any]) -> bool:
    return "classification" in document["model"]["kinds"]


def distance(run: Path, classifier: str) -> dict[str, object]:
    """The feature distance, with the classifier named by what it is and not by where it lies."""
    from zoo_generate.distance import feature_distance

    from zoo_core.data.datasets import open_dataset
    from zoo_core.use.generate import load_sampler
    from zoo_core.weights.references import locate

    source, located = load_sampler(str(run.absolute()))
    data = open_dataset(located.dataset, located.data_options)
    found = feature_distance(source, data, classifier)
    return found | {"classifier": locate(classifier).model}


def keep_pictures(run: Path, path: Path) -> None:
    """The plots of a report as WebP, small enough to be read on a page."""
    from PIL import Image

    for name, file in PICTURES.items():
        source = run / "pictures" / f"{file}.png"
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
        if word in ("--runs", "--name"):
            next(words, None)
        elif word not in ("--no-report", "--quiet", "--json"):
            kept.append(word)
    return shlex.join(kept)


UNNAMED = ("seed", "preprocess", "precision", "portable", "evaluate_every")


def recipe_name(document: dict[str, Any]) -> str:
    """The recipe, with what was changed of it besides the seed, the precision, which the tables
    name where they name the cost, and how often the test set was measured."""
    entry = registry().models.get(document["model"]["name"])
    name = document["recipe_name"]
    known = entry.recipes.get(name) or Recipe()
    plain = json.loads(json.dumps({f: getattr(known, f) for f in document["recipe"]}))
    changed = {
        key: value
        for key, value in document["recipe"].items()
        if key not in UNNAMED and value != plain[key]
    }
    shown = {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in changed.items()}
    return ", ".join([name, *(f"{key} {value}" for key, value in sorted(shown.items()))])


Key = tuple[str, str, str]  # model, dataset, recipe


def kept_runs(
    wanted: Callable[[dict[str, Any]], bool],
) -> list[tuple[Key, list[tuple[str, dict[str, Any]]]]]:
    """The runs that are kept, by what they have in common but for the seed."""
    rows: dict[Key, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for path in sorted((DOCS / "results").glob("*.json")):
        if "-tuned_" in path.name:
            continue  # what searches found; docs/search.md tells of them
        document = json.loads(path.read_text(encoding="utf-8"))
        key = document["model"]["name"], document["dataset"]["name"], recipe_name(document)
        if wanted(document):
            rows[key].append((path.name, document))
    order = list(registry().models.labels())
    return sorted(rows.items(), key=lambda row: (order.index(row[0][0]), row[0]))


def markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


@dataclass(frozen=True)
class Figure:
    """What the seeds of one recipe reached."""

    names: list[str]  # of the kept files
    documents: list[dict[str, Any]]

    @property
    def accuracies(self) -> list[float]:
        return [document["result"]["test"]["accuracy"] for document in self.documents]

    @property
    def accuracy(self) -> float:
        return statistics.mean(self.accuracies)

    @property
    def epochs(self) -> int:
        return max(document["result"]["epochs"] for document in self.documents)

    def shown_epochs(self) -> str:
        """With those of the recipe, where the run had fewer."""
        first = self.documents[0]
        entry = registry().models.get(first["model"]["name"])
        recipe = entry.recipes.get(first["recipe_name"])
        whole = recipe.epochs if recipe else self.epochs
        return f"{self.epochs} of {whole}" if self.epochs < whole else str(self.epochs)

    @property
    def cpu_minutes(self) -> float:
        return statistics.mean(cpu_seconds(document)[0] for document in self.documents) / 60

    @property
    def precision(self) -> str:
        return " and ".join(
            sorted({d["recipe"].get("precision", "float32") for d in self.documents})
        )

    def minutes(self) -> str:
        """An upper bound where a run did not record what the processor worked."""
        known = all(cpu_seconds(document)[1] for document in self.documents)
        how = "" if self.precision == "float32" else f", {self.precision}"
        return f"{'' if known else '< '}{self.cpu_minutes:.1f}{how}"

    def shown(self) -> str:
        seeds = " ".join(
            f"[{document['recipe']['seed']}](results/{name})"
            for name, document in zip(self.names, self.documents, strict=True)
        )
        text = f"**{percent(self.accuracy)}**"
        if len(self.names) > 1:
            over = spread(self.accuracies)
            assert over.interval is not None
            low, high = (100 * end for end in over.interval)
            ends = f"{100 * over.low:.2f} to {100 * over.high:.2f}"
            return f"{text} {self.sure()} (seeds {seeds}: {ends}, mean ± {(high - low) / 2:.2f})"
        return f"{text} {self.sure()} (seed {seeds})"

    def sure(self) -> str:
        """The 95 % interval for other test images."""
        low, high = wilson(self.accuracy, self.documents[0]["dataset"]["test"])
        return f"[{100 * low:.2f}, {100 * high:.2f}]"

    def digests(self) -> str:
        return " ".join(f"`{d['result']['model']['sha256'][:8]}`" for d in self.documents)


def cpu_seconds(document: dict[str, Any]) -> tuple[float, bool]:
    """What a training cost, and whether it was measured or is only known to be no more."""
    result = document["result"]
    if "cpu_seconds" in result:
        return result["cpu_seconds"], True
    return result["seconds"] * document["environment"].get("threads", 1), False


@dataclass(frozen=True)
class Trained:
    """One classifier: what others reported, and what we measured."""

    model: str
    dataset: str
    parameters: int
    reported: str
    paper: Figure | None
    default: Figure | None

    @property
    def without(self) -> str:
        """What the CPU minutes leave out: features that were computed before."""
        figure = self.default or self.paper
        assert figure is not None
        frozen = figure.documents[0]["model"]["trainer"] == "frozen"
        return ", head alone" if frozen else ""

    @property
    def ahead(self) -> str:
        """Our default against what was reported, in points."""
        number = re.match(r"[\d.]+", self.reported)
        if not number or not self.default:
            return "-"
        return f"{100 * self.default.accuracy - float(number[0]):+.2f}"


def classifiers() -> list[Trained]:
    figures: dict[tuple[str, str], dict[str, Figure]] = defaultdict(dict)
    for (model, dataset, recipe), found in kept_runs(classifies):
        names, documents = zip(*found, strict=True)
        figures[model, dataset][recipe] = Figure(list(names), list(documents))
    return [
        Trained(
            model,
            dataset,
            next(iter(recipes.values())).documents[0]["parameters"]["trainable"],
            REPORTED.get((model, "paper"), "-"),
            recipes.get("paper"),
            recipes.get("default") or recipes.get(shortened(recipes)),
        )
        for (model, dataset), recipes in figures.items()
        if recipes.keys() & {"paper", "default", shortened(recipes)}
    ]


def shortened(recipes: Iterable[str]) -> str:
    """The `default` recipe with fewer epochs, where that is all that there was time for."""
    return next((name for name in recipes if re.fullmatch(r"default, epochs \d+", name)), "")


def table(models: list[Trained]) -> str:
    titles = (
        "model", "dataset", "parameters", "reported", "`paper`", "`default`", "ahead", "epochs",
        "CPU minutes", "weights", "re-derived",
    )  # fmt: skip
    return markdown(titles, (cells(model) for model in models))


def cells(model: Trained) -> list[str]:
    ours = model.default or model.paper
    assert ours is not None
    return [
        f"`{model.model}`",
        model.dataset,
        f"{model.parameters:,}",
        model.reported,
        model.paper.shown() if model.paper else "-",
        model.default.shown() if model.default else "-",
        model.ahead,
        ours.shown_epochs(),
        ours.minutes() + model.without,
        ours.digests(),
        rederived(ours),
    ]


def short_table(models: list[Trained]) -> str:
    """For README.md: what `zoo.load` gives, or would after a training."""
    shipped = {
        (weights.model, weights.dataset): weights
        for _, weights in all_weights()[0]
        if any(map(is_packaged, weights.sources))
    }
    titles = "model", "dataset", "parameters", "reported", "ours", "CPU minutes", "in the wheel"
    rows = []
    for model in models:
        if model.default is None:
            continue
        weights = shipped.get((model.model, model.dataset))
        rows.append(
            [
                f"`{model.model}`",
                model.dataset,
                f"{model.parameters:,}",
                model.reported,
                f"**{percent(model.default.accuracy)}** {model.default.sure()}"
                + (
                    f" ({whole} epochs)"
                    if " of " in (whole := model.default.shown_epochs())
                    else ""
                ),
                model.default.minutes() + model.without,
                f"{weights.bytes / 1e6:.1f} MB" if weights else "-",
            ]
        )
    return markdown(titles, rows)


def other_runs() -> str:
    """Other recipes than these two, and parts of the training set."""
    titles = "model", "dataset", "recipe", "reported", "accuracy", "epochs", "CPU minutes"
    rows = []
    for (model, dataset, recipe), found in kept_runs(lambda document: not generates(document)):
        if recipe not in ("paper", "default", shortened([recipe])):
            names, documents = zip(*found, strict=True)
            figure = Figure(list(names), list(documents))
            rows.append(
                [
                    f"`{model}`", dataset, recipe, REPORTED.get((model, recipe), "-"),
                    figure.shown(), str(figure.epochs), figure.minutes(),
                ]
            )  # fmt: skip
    return markdown(titles, rows)


def rederived(figure: Figure) -> str:
    """What came of training the same once more, by the statements that zoo reproduce wrote."""
    shipped = filter(None, (packaged_file(weights) for _, weights in all_weights()[0]))
    files = [DOCS / "results" / "reproduced.jsonl", *(file.with_suffix(SUFFIX) for file in shipped)]
    every = [one for file in files for one in statements(file)]
    found: dict[str, int] = defaultdict(int)
    for document in figure.documents:
        digest = document["result"]["model"]["sha256"]
        # Weights in a package have another dtype: what was trained has the digest of the run.
        same = {"bytes"} if any(one.trained == digest for one in every) else set()
        verdicts = same | {one.verdict for one in every if one.sha256 == digest}
        found[next((v for v in REDERIVED if v in verdicts), "")] += 1
    runs, told = len(figure.documents), [(words, found[v]) for v, words in REDERIVED.items()]
    words = [f"{words} ({n} of {runs})" if n < runs else words for words, n in told if n]
    return ", ".join(words) or "not yet"


def percent(fraction: float) -> str:
    return f"{100 * fraction:.2f} %"


def generative_table() -> str:
    titles = (
        "model", "dataset", "recipe", "parameters", "reported", "accuracy", *GENERATIVE,
        "feature distance", "plots", "seed", "epochs", "CPU minutes",
    )  # fmt: skip
    rows = [
        generative_cells(*key, name, document)
        for key, found in kept_runs(generates)
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
        REPORTED.get((model, "paper"), "-"),
        accuracy,
        *figures,
        f"{apart['feature_distance']:.1f}" if apart else "-",
        " ".join(f"[{p}](results/{stem}-{p}.webp)" for p in pictures) or "-",
        f"[{document['recipe']['seed']}](results/{name})",
        str(result["epochs"]),
        Figure([name], [document]).minutes(),
    ]


if __name__ == "__main__":
    main()
