"""The pictures of a report that need the trained model: samples, reconstructions, codes.

Which of them a model has, its capabilities say. Whatever goes wrong costs a line in the report.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_core.errors import UnknownName, ZooError
from zoo_core.files import atomic_write
from zoo_core.registry import registry
from zoo_core.report.text import Facts
from zoo_core.targets import describe, resolve

if TYPE_CHECKING:
    import numpy as np

    from zoo_core.data.arrays import Dataset, Split
    from zoo_core.report.write import Predictions
    from zoo_core.train.predict import Loaded

SHOWN = 24  # pictures and their reconstructions
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
        from zoo_core.train.predict import load_run

        loaded = load_run(str(facts.run.path.absolute()))
        if "generate" in able:
            draw("samples.png", write_samples, loaded, f"{facts.title}: samples")
        if facts.document["dataset"].get("test") and able != ["generate"]:
            from zoo_core.report.write import find_pictures

            split = find_pictures(facts, dataset)
            if "reconstruct" in able:
                title = f"{facts.title}: pictures of the test set, each above its reconstruction"
                draw("reconstructions.png", write_reconstructions, loaded, split, title)
            if "latent" in able:
                draw_latent(facts, loaded, predictions, split, draw)
    except ZooError as error:
        facts.remarks.append(f"Pictures of the model are left out: {error}.")
    except Exception as error:  # a capability is a plugin's code, and may raise anything
        facts.remarks.append(f"Pictures of the model are left out: {describe(error)}.")


def write_samples(path: Path, loaded: Loaded, title: str) -> None:
    from zoo_core.train.generate import COLUMNS, open_source

    source = open_source(loaded.entry, loaded.model, loaded.preprocess, loaded.classes)
    samples = source.sheet()
    write_sheet(path, samples.images, samples.names, COLUMNS, title)


def write_reconstructions(path: Path, loaded: Loaded, split: Split, title: str) -> None:
    """Rows of pictures, and below each row the same ones as they come back."""
    import numpy as np

    from zoo_core.train.generate import to_pixels

    chosen = np.sort(np.random.default_rng(0).permutation(len(split))[:SHOWN])
    batch = as_given(loaded, split.images[chosen])
    labels = None if split.labels is None else split.labels[chosen]
    back = call(loaded, "reconstruct", batch, labels)
    before = to_pixels(np.asarray(batch), loaded.preprocess)
    after = to_pixels(back, loaded.preprocess)
    rows = [
        some[start : start + COLUMNS]
        for start in range(0, len(chosen), COLUMNS)
        for some in (before, after)
    ]
    write_sheet(path, np.concatenate(rows), (), min(COLUMNS, len(chosen)), title)


def write_sheet(
    path: Path, images: np.ndarray, names: tuple[str, ...], columns: int, title: str
) -> None:
    from zoo_core.report.grid import picture_grid

    sheet = picture_grid(images, names or None, columns=columns, title=title)
    with atomic_write(path) as temporary:
        sheet.save(temporary, format="png")


def draw_latent(
    facts: Facts, loaded: Loaded, predictions: Predictions | None, split: Split, draw: Draw
) -> None:
    """t-SNE of the codes, coloured by true and by predicted class."""
    import numpy as np

    from zoo_core.report.pictures import draw_codes

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
    codes = np.concatenate(
        [
            call(loaded, "latent", as_given(loaded, split.images[some]), split.labels[some])
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


def as_given(loaded: Loaded, images: np.ndarray) -> Any:
    return loaded.preprocess.batch(list(images), backend=loaded.trainer.backend)


def call(loaded: Loaded, capability: str, *arguments: Any) -> np.ndarray:
    target = loaded.entry.capabilities[capability]
    found: np.ndarray = resolve(target, f"model {loaded.entry.name!r}")(loaded.model, *arguments)
    return found
