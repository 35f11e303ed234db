"""A classifier on its test set: probabilities of every image, and what follows from them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import zoo
from zoo import kit

BLOCK = 250  # images; those of a block are computed anew where it was interrupted
MISTAKES = 24
SIDE = 96  # pixels of a mistake's image, at most
TINY = 1e-12


def measure(model: Any, data: zoo.Dataset, folder: Path, name: str) -> dict[str, Any]:
    """Figures with intervals, the confusion matrix and the surest mistakes; their images go into
    the folder, side by side in one file."""
    split = data.test
    if split is None or split.labels is None:
        raise zoo.UsageError(f"{data.name} has no labelled test images")
    values, ms = probabilities(model, split, folder, name)
    labels, targets = np.asarray(split.labels), model.zoo.targets
    answers = zoo.ClassAnswers(targets)
    outputs = np.log(np.maximum(values.astype(np.float64), TINY)) * targets.temperature
    answers.add(outputs, labels)
    found = answers.summary() | answers.details(outputs, labels)
    sure = kit.intervals(answers, values, labels)
    rows = surest_mistakes(values, labels)
    picture = strip(folder / "mistakes.webp", [image_of(split, row) for row in rows])
    names = list(targets.names)
    return {
        "images": len(labels),
        "figures": {n: v for n, v in found.items() if isinstance(v, float)},
        "intervals": {n: list(ends) for n, ends in sure.items() if n in found},
        "classes": per_class(names, answers.confusion),
        "confusion": answers.confusion.tolist(),
        "milliseconds": round(ms, 4),
        "mistakes": [
            {
                "row": int(row),
                "true": names[labels[row]],
                "said": names[values[row].argmax()],
                "probability": float(values[row].max()),
            }
            for row in rows
        ],
        "strip": picture,
    }


def probabilities(
    model: Any, split: zoo.Split, folder: Path, name: str
) -> tuple[np.ndarray, float]:
    """float32 (images, classes), block by block, kept as they come; and milliseconds for an image
    of the fastest block."""
    classes, count = list(model.zoo.classes), len(split)
    store = kit.BlockStore(folder / "probabilities.bin", BLOCK)
    key = {"sha256": model.zoo.digest, "rows": count}
    layout = kit.Layout(key=key, rows=count, row_bytes=4 * len(classes))
    times: list[float] = []
    with kit.progress(f"measuring {name}", count) as done, store.writing(layout) as writer:
        done(count - sum(len(writer.rows(b)) for b in writer.progress.missing))
        for block in writer:
            rows = writer.rows(block)
            started = time.perf_counter()
            content = answers_to(model, [split.images[row] for row in rows])
            times.append(1000 * (time.perf_counter() - started) / len(rows))
            writer.commit(block, content.tobytes())
            done(len(rows))
    with kit.os_errors(f"the answers of {name} cannot be read"):
        raw = store.path.read_bytes()
    values = np.frombuffer(raw, "<f4").reshape(count, len(classes))
    return values, min(times, default=0.0)  # others may have used the machine meanwhile


def answers_to(model: Any, images: list[Any]) -> np.ndarray:
    """float32 (images, classes), in the order of the classes."""
    places = {name: place for place, name in enumerate(model.zoo.classes)}
    found = np.zeros((len(images), len(places)), "<f4")
    for row, said in enumerate(zoo.predict(model, images, top=len(places), strict=True)):
        for name, probability in said.classes:
            found[row, places[name]] = probability
    return found


def surest_mistakes(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Rows of wrong answers, the surest first."""
    wrong = np.flatnonzero(values.argmax(1) != labels)
    order = np.argsort(-values[wrong].max(1), kind="stable")
    return wrong[order[:MISTAKES]]


def per_class(names: list[str], confusion: np.ndarray) -> list[dict[str, Any]]:
    """Of each class: how many of its images are found, and how many that were called so are."""
    found = []
    for place, name in enumerate(names):
        images, said = int(confusion[place].sum()), int(confusion[:, place].sum())
        right = int(confusion[place, place])
        one: dict[str, Any] = {"name": name, "images": images, "said": said}
        for figure, whole in (("recall", images), ("precision", said)):
            if whole:
                one[figure] = [right / whole, *kit.wilson(right / whole, whole)]
        found.append(one)
    return found


def image_of(split: zoo.Split, row: int) -> np.ndarray:
    """uint8 (h, w, 3)."""
    image = np.asarray(split.images[row])
    return np.broadcast_to(image, (*image.shape[:2], 3)) if image.shape[2] == 1 else image


def strip(
    path: Path, images: list[np.ndarray], columns: int = 0, side: int = SIDE
) -> Mapping[str, Any] | None:
    """Images in one file, row by row; what a page must know to show them apart."""
    if not images:
        return None
    shown = []
    for image in images:
        small = Image.fromarray(np.ascontiguousarray(image)).convert("RGB")
        small.thumbnail((side, side))
        shown.append(small)
    width, height = (max(one.size[axis] for one in shown) for axis in (0, 1))
    columns = columns or len(shown)
    rows = -(-len(shown) // columns)
    whole = Image.new("RGB", (width * columns, height * rows))
    for place, one in enumerate(shown):
        at = (place % columns) * width, (place // columns) * height
        whole.paste(one, (at[0] + (width - one.width) // 2, at[1] + (height - one.height) // 2))
    lossless = width <= 64 and len(shown) <= MISTAKES
    whole.save(path, "WEBP", quality=88, lossless=lossless)
    return {
        "file": path.name, "width": width, "height": height, "columns": columns, "count": len(shown)
    }  # fmt: skip
