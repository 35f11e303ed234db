"""What models said of the same images, and how sure the figures of that are.

statistics.py has the rules; this module needs NumPy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo_core.io.tensors import read
from zoo_core.runs.run import Run
from zoo_core.runs.statistics import (
    Difference,
    Interval,
    gathered,
    paired,
    percentiles,
    resampled,
    wilson,
)
from zoo_core.spec.answers import ANSWERS, CLASS, Answers, Targets, bins_of


@dataclass(frozen=True, eq=False)
class Predictions:
    """predictions.safetensors of a run."""

    values: np.ndarray  # (n, targets), of the test split: probabilities, or numbers
    labels: np.ndarray | None
    names: list[str]  # of the images, where they have some
    targets: Targets
    digest: str  # of the dataset

    def right(self) -> np.ndarray:
        return np.asarray(self.values.argmax(1) == self.labels)


def read_predictions(run: Run) -> Predictions:
    """Those of a finished run; OSError, ValueError or KeyError where they cannot be read."""
    """What a run says of its test images; OSError, ValueError or KeyError if it is damaged."""
    document, arrays = run.read(), read(run.predictions_file.read_bytes())
    names = json.loads(bytes(arrays["names"])) if "names" in arrays else []
    values, labels = arrays["probabilities"], arrays.get("labels")
    digest = document["dataset"].get("digest") or ""
    return Predictions(values, labels, names, targets_of(document), digest)


def targets_of(document: Mapping[str, Any]) -> Targets:
    """Those of a run.json."""
    data, result = document["dataset"], document.get("result") or {}
    given, temperature = data.get("targets") or {}, result.get("temperature") or 1.0
    return Targets.from_dict(data.get("classes") or (), given, temperature)


def of_run(run: Run) -> Predictions | None:
    """None where the run has none, or none that can be read: nothing is paired with it."""
    with suppress(Exception):  # whatever is wrong with the file
        return read_predictions(run)
    return None


def intervals(answers: Answers, values: np.ndarray, labels: np.ndarray) -> dict[str, Interval]:
    """Of all figures: Wilson's of shares of the images, of others a bootstrap over the images."""
    if not len(labels):
        return {}
    figures = answers.weighted(answers.raw(values), labels)
    drawn = gathered(figures, len(labels))
    plain = {name: float(v[0]) for name, v in figures(np.ones((1, len(labels)))).items()}
    found = {name: percentiles(each) for name, each in drawn.items()}
    found |= {n: wilson(plain[n], len(labels)) for n in answers.shares if n in plain}
    for name, chance in answers.chance(values).items():
        # Chance adds to the figure, and to each sample once more: that much comes off again.
        low, high = (max(0.0, 2 * plain[name] - end) for end in reversed(found[name]))
        found[name] = (low if plain[name] > chance else 0.0), max(high, plain[name])
    return found


def reliability(sure: np.ndarray, right: np.ndarray) -> list[tuple[float, float, Interval]]:
    """Answers by how sure they are, in bins: their mean probability, and how many are right."""
    places, found = bins_of(sure), []
    for place in np.unique(places):
        those = places == place
        share = float(right[those].mean())
        found.append((float(sure[those].mean()), share, wilson(share, int(those.sum()))))
    return found


def same_images(one: Predictions, other: Predictions) -> bool:
    """By the dataset's digest; at another size, which has another digest, by names and labels."""
    if one.labels is None or other.labels is None or not np.array_equal(one.labels, other.labels):
        return False
    return one.digest == other.digest or one.names == other.names != []


def compared(
    figure: str, ours: Sequence[Predictions], theirs: Sequence[Predictions]
) -> Difference | None:
    """A figure of models on the same images, paired; of several seeds the means."""
    labels, targets = ours[0].labels, ours[0].targets
    if labels is None or targets.kind not in ANSWERS:
        return None
    if figure == "accuracy" and targets.kind == CLASS:
        if len(ours) == len(theirs) == 1:
            one, other = ours[0].right(), theirs[0].right()
            won, lost = int((one & ~other).sum()), int((other & ~one).sum())
            return paired(won, lost, len(labels))
        gain = np.mean([p.right() for p in ours], 0) - np.mean([p.right() for p in theirs], 0)
        drawn = gathered(lambda w: {figure: w @ gain / len(gain)}, len(gain))[figure]
        return resampled(float(gain.mean()), drawn)

    def means(weights: np.ndarray) -> dict[str, np.ndarray]:
        sides = [np.mean([f(weights)[figure] for f in side], 0) for side in both]
        return {figure: sides[0] - sides[1]}

    both = [
        [made.weighted(made.raw(p.values), labels) for p in side
         for made in (ANSWERS[p.targets.kind](p.targets),)]
        for side in (ours, theirs)
    ]  # fmt: skip
    if figure not in both[0][0](np.ones((1, len(labels)))):
        return None
    value = float(means(np.ones((1, len(labels))))[figure][0])
    return resampled(value, gathered(means, len(labels))[figure])
