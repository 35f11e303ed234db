"""Writes report.md and its pictures into a run directory, from the files of the run.

Whatever is missing (matplotlib, the dataset, results so far) costs a line in the report, never the
report. What the report says is in text.py, what its pictures look like in pictures.py.

The pictures of a report that need the trained model: samples, reconstructions, codes.

Which of them a model has, its capabilities say. Whatever goes wrong costs a line in the report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_core.io.errors import UnknownName, ZooError
from zoo_core.io.files import atomic_write
from zoo_core.io.targets import describe
from zoo_core.report.text import PICTURES, Facts, markdown
from zoo_core.runs.run import Run
from zoo_core.runs.summary import class_scores, curves_of, final_scores, reading, summarize
from zoo_core.spec.registry import registry

if TYPE_CHECKING:
    import numpy as np

    from zoo_core.data.dataset import Dataset, Split

SHOWN = 32  # pictures in a grid


@dataclass(frozen=True)
class Predictions:
    probabilities: np.ndarray  # (n, classes)
    labels: np.ndarray | None  # (n,)


@dataclass(frozen=True)
class Report:
    path: Path
    pictures: list[Path]
    remarks: list[str]  # what had to be left out, and why


def write_report(run: Run, dataset: Dataset | None = None) -> Path:
    """Write report.md and pictures/ of a run, finished or not, and return report.md's path.

    dataset: the run's own, where it is in memory already; otherwise it is opened, from the cache
    alone, for the pictures of predictions.
    """
    return build_report(run, dataset).path


def build_report(run: Run, dataset: Dataset | None = None) -> Report:
    """As write_report, with all that there is to say about it."""
    predictions, facts = read_facts(run)
    path = run.path / "report.md"
    try:
        drawn = draw_pictures(facts, predictions, dataset)
        with atomic_write(path) as temporary:
            temporary.write_text(markdown(facts, drawn), encoding="utf-8")
    except OSError as error:
        raise ZooError(f"{path} could not be written: {error.strerror}") from error
    return Report(path, [run.path / "pictures" / name for name in drawn], facts.remarks)


def read_facts(run: Run) -> tuple[Predictions | None, Facts]:
    """Everything in the files of the run, read once."""
    remarks: list[str] = []
    predictions = None
    if run.predictions_file.exists():
        from safetensors.numpy import load_file

        try:
            arrays = load_file(run.predictions_file)
            predictions = Predictions(arrays["probabilities"], arrays.get("labels"))
        except Exception as error:  # whatever is wrong with the file, the rest can be told
            remarks.append(f"predictions.safetensors cannot be read: {describe(error)}.")
    summary = summarize(run)
    with reading(run):
        document, metrics = run.read(), run.metrics()
        split, scores = final_scores(document.get("result") or {}, metrics)
        confusion = scores.get("confusion")
        if confusion is None and predictions and predictions.labels is not None:
            confusion = count_confusion(predictions)
        classes = list(document["dataset"].get("classes") or ())
        if classes:  # a model may have room for more classes than the data has names
            outputs = predictions.probabilities.shape[1] if predictions else 0
            outputs = max(outputs, len(confusion or ()))
            classes += [f"class {i}" for i in range(len(classes), outputs)]
        curves = curves_of(metrics)
        rates = [(line["epoch"], line["lr"]) for line in metrics if line.get("lr") is not None]
    return predictions, Facts(
        run, document, summary, split, scores, curves, rates, classes, confusion, remarks
    )


def count_confusion(predictions: Predictions) -> Any:
    import numpy as np

    assert predictions.labels is not None
    classes = predictions.probabilities.shape[1]
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (predictions.labels, predictions.probabilities.argmax(1)), 1)
    return counts.tolist()


# ---------------------------------------------------------------- pictures


def draw_pictures(
    facts: Facts, predictions: Predictions | None, dataset: Dataset | None
) -> list[str]:
    """Draw what can be drawn and return the names of the files; remarks say what is missing."""
    try:
        from zoo_core.report import plots as pictures
    except ImportError:
        facts.remarks.append(
            "Pictures need matplotlib: `pip install 'zoo-core[report]'`, "
            f"then `zoo report {facts.run.name}`."
        )
        return []
    folder = facts.run.path / "pictures"
    drawn: list[str] = []

    def draw(name: str, function: Callable[..., None], *arguments: Any) -> None:
        function(folder / name, *arguments)
        drawn.append(name)

    if facts.curves:
        unit = "nats" if facts.document["model"].get("task") == "classification" else ""
        best = facts.result.get("best_epoch")
        draw("curves.png", pictures.draw_curves, facts.curves, facts.title, unit, best)
    if len({rate for _, rate in facts.rates}) > 1:
        draw("rate.png", pictures.draw_rate, facts.rates)
    if facts.classes and facts.confusion:
        title = f"{facts.title}, {facts.split} set"
        classes = facts.classes[: len(facts.confusion)]
        draw("confusion.png", pictures.draw_confusion, classes, facts.confusion, title)
        if scores := class_scores(classes, facts.confusion):
            draw("classes.png", pictures.draw_classes, scores, f"{title}: accuracy per class")
    if facts.classes and predictions:
        try:
            split = find_pictures(facts, dataset, len(predictions.probabilities))
            draw_predictions(facts, predictions, split, draw)
        except ZooError as error:
            facts.remarks.append(f"Pictures of predictions are left out: {error}.")
    if facts.result:
        draw_generated(facts, predictions, dataset, draw)
    for name in PICTURES.keys() - set(drawn):  # of an earlier report
        (folder / name).unlink(missing_ok=True)
    return drawn


def find_pictures(facts: Facts, dataset: Dataset | None, count: int | None = None) -> Split:
    """The test split that the run was measured on, and no other; count: its pictures."""
    data = facts.document["dataset"]
    if dataset is None:
        from zoo_core.data.datasets import open_dataset

        try:
            dataset = open_dataset(data["reference"], fetch=False, **(data.get("options") or {}))
        except ZooError:
            raise
        except Exception as error:  # a dataset may be a plugin's code, and raise anything
            raise ZooError(f"the dataset cannot be opened: {describe(error)}") from error
    if dataset.test is None:
        raise ZooError(f"{data['reference']} has no test set")
    if dataset.digest != data.get("digest") or count not in (None, len(dataset.test)):
        raise ZooError(f"{data['reference']} has changed since the run")
    return dataset.test


def draw_predictions(
    facts: Facts, predictions: Predictions, split: Split, draw: Callable[..., None]
) -> None:
    """A grid of some predictions and one of the surest mistakes."""
    import numpy as np

    from zoo_core.report.plots import draw_grid

    probabilities, labels = predictions.probabilities, predictions.labels

    def grid(name: str, chosen: np.ndarray, title: str) -> None:
        true = None if labels is None else labels[chosen]
        shown = split.images[chosen], facts.classes, probabilities[chosen], true
        draw(name, draw_grid, *shown, f"{facts.title}: {title}")

    # The same pictures for every run on a dataset, so that reports can be laid side by side.
    some = np.sort(np.random.default_rng(0).permutation(len(split))[:SHOWN])
    title = f"{len(some)} of {len(split):,} test pictures, chosen at random"
    if len(some) == len(split):
        title = f"All {len(some)} test pictures"
    grid("predictions.png", some, title + ("" if labels is None else "; mistakes are framed"))
    if labels is not None:
        wrong = np.flatnonzero(probabilities.argmax(1) != labels)
        sure = wrong[np.argsort(-probabilities[wrong].max(1), kind="stable")][:SHOWN]
        if len(sure):
            those = f"the {len(sure)} surest of {len(wrong):,}" if len(sure) < len(wrong) else "all"
            grid("mistakes.png", sure, f"{those} mistakes")


RECONSTRUCTED = 24  # pictures and their reconstructions
COLUMNS = 8
CODES = 2000  # pictures whose codes are laid out in the plane
NEEDED = ("generate", "reconstruct", "latent")

Draw = Callable[..., None]


def draw_generated(
    facts: Facts, predictions: Predictions | None, dataset: Dataset | None, draw: Draw
) -> None:
    """Draw what the model of a finished run is able to; remarks say what is missing."""
    model = facts.document["model"]
    try:
        entry = registry().models.get(f"{model['plugin']}/{model['name']}")
    except UnknownName:
        return  # the files of the run have told all that can be told without its plugin
    able = [name for name in NEEDED if name in entry.capabilities]
    if not able or not facts.run.model_file.exists():
        return
    try:
        from zoo_core.use.load import load

        trained = load(facts.run.path.absolute())
        if "generate" in able:
            draw("samples.png", write_samples, trained, f"{facts.title}: samples")
        if facts.document["dataset"].get("test") and able != ["generate"]:
            split = find_pictures(facts, dataset)
            if "reconstruct" in able:
                title = f"{facts.title}: pictures of the test set, each above its reconstruction"
                draw("reconstructions.png", write_reconstructions, trained, split, title)
            if "latent" in able:
                draw_latent(facts, trained, predictions, split, draw)
    except ZooError as error:
        facts.remarks.append(f"Pictures of the model are left out: {error}.")
    except Exception as error:  # a capability is a plugin's code, and may raise anything
        facts.remarks.append(f"Pictures of the model are left out: {describe(error)}.")


def write_samples(path: Path, model: Any, title: str) -> None:
    from zoo_core.use.generate import sampler_of

    samples = sampler_of(model).sheet()
    write_sheet(path, samples.images, samples.names, COLUMNS, title)


def write_reconstructions(path: Path, model: Any, split: Split, title: str) -> None:
    """Rows of pictures, and below each row the same ones as they come back."""
    import numpy as np

    from zoo_core.use.generate import to_pixels
    from zoo_core.use.load import as_input, capability

    chosen = np.sort(np.random.default_rng(0).permutation(len(split))[:RECONSTRUCTED])
    batch = as_input(model, split.images[chosen])
    labels = None if split.labels is None else split.labels[chosen]
    back = capability(model.zoo.entry, "reconstruct")(model, batch, labels)
    before = to_pixels(np.asarray(batch), model.zoo.preprocess)
    after = to_pixels(back, model.zoo.preprocess)
    rows = [
        some[start : start + COLUMNS]
        for start in range(0, len(chosen), COLUMNS)
        for some in (before, after)
    ]
    write_sheet(path, np.concatenate(rows), (), min(COLUMNS, len(chosen)), title)


def write_sheet(
    path: Path, images: np.ndarray, names: tuple[str, ...], columns: int, title: str
) -> None:
    from zoo_core.data.images import picture_grid

    sheet = picture_grid(images, names or None, columns=columns, title=title)
    with atomic_write(path) as temporary:
        sheet.save(temporary, format="png")


def draw_latent(
    facts: Facts, model: Any, predictions: Predictions | None, split: Split, draw: Draw
) -> None:
    """t-SNE of the codes, coloured by true and by predicted class."""
    import numpy as np

    from zoo_core.report.plots import draw_codes
    from zoo_core.use.load import as_input, capability

    if split.labels is None or not facts.classes or len(split) < 10:
        return
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        facts.remarks.append(
            "The picture of the codes needs scikit-learn: `pip install 'zoo-core[report]'`."
        )
        return
    chosen = np.sort(np.random.default_rng(0).permutation(len(split))[:CODES])
    encode = capability(model.zoo.entry, "latent")
    codes = np.concatenate(
        [
            encode(model, as_input(model, split.images[some]), split.labels[some])
            for some in np.array_split(chosen, -(-len(chosen) // 256))
        ]
    )
    codes = principal(codes, 50)  # t-SNE's time grows with the numbers in a code
    near = min(30, (len(chosen) - 1) // 3)
    places = TSNE(perplexity=near, init="pca", random_state=0, max_iter=750).fit_transform(codes)
    colourings = {"true class": split.labels[chosen]}
    if predictions is not None:
        colourings["predicted class"] = predictions.probabilities.argmax(1)[chosen]
    title = f"{facts.title}: t-SNE of the codes of {len(chosen):,} test pictures"
    draw("latent.png", draw_codes, places, colourings, facts.classes, title)


def principal(codes: np.ndarray, most: int) -> np.ndarray:
    """The directions in which codes differ most."""
    import numpy as np

    centred = codes - codes.mean(0)
    if codes.shape[1] <= most:
        return np.asarray(centred)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ vectors[:, ::-1][:, :most])
