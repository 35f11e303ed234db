"""What is asked of a model, and what its outputs mean: a class, several classes, numbers.

Targets say which of the three it is. For each there are Answers: which figures there are, how they
add up batch by batch, and how outputs become what a person reads. NumPy is all they need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

LARGEST = 1e30  # of a number
CLASS, CLASSES, NUMBERS, NONE = "class", "classes", "numbers", "none"
MOST_CONFUSED = 1000  # classes: the matrix of more makes run.json too large
MOST_RANKED = 100  # classes whose images are ranked, for the AUC
BINS = 15  # of probabilities, with as many images each, for the calibration error
MISTAKES = 10  # and right answers, that decide a temperature
SMALLEST = 1e-38  # probability that float32 knows
WORDS = {
    CLASS: "one class for each image",
    CLASSES: "any number of classes for each image",
    NUMBERS: "numbers for each image",
    NONE: "no labels",
}


@dataclass(frozen=True)
class Targets:
    """The kind of labels that a dataset has, and what its columns are called.

    A training decides the last three. mean: the share of its images with each class, or the mean of
    each number. A model gives numbers as (number - mean) / std; it says yes to a class from its
    threshold on.
    """

    kind: str = "none"
    names: tuple[str, ...] = ()  # of the classes, or of the numbers
    units: tuple[str, ...] = ()  # of the numbers; "" where one has none
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    thresholds: tuple[float, ...] = ()  # of several classes, from 0 to 1
    # What logits of one class are divided by, so that probabilities are as often right as they say.
    temperature: float = 1.0

    def __post_init__(self) -> None:
        """Some come from files of strangers: a ValueError says what is wrong."""
        lists = (self.units, self.mean, self.std, self.thresholds)
        numbers = (*self.mean, *self.std, *self.thresholds)
        if self.kind not in WORDS or bool(self.names) != (self.kind != NONE):
            raise ValueError(f"{len(self.names)} names for targets of kind {self.kind!r}")
        if not all(isinstance(text, str) for text in (*self.names, *self.units)):
            raise ValueError("names and units of targets must be text")
        if any(len(values) not in (0, len(self.names)) for values in lists):
            raise ValueError(f"there must be one value for each of {len(self.names)} targets")
        # In float32 nothing else is finite, once it is multiplied with what a model gives.
        if not all(abs(value) <= LARGEST for value in numbers) or any(v <= 0 for v in self.std):
            raise ValueError(f"means, deviations and thresholds must be at most {LARGEST:g}")
        if not 0.01 <= self.temperature <= 100:
            raise ValueError(f"a temperature must be 0.01 to 100, not {self.temperature}")

    @property
    def classes(self) -> tuple[str, ...]:
        return self.names if self.kind in (CLASS, CLASSES) else ()

    def with_units(self) -> Iterator[tuple[str, str]]:
        """The name of each number and its unit."""
        return zip(self.names, self.units or ("",) * len(self.names), strict=True)

    def __str__(self) -> str:
        if self.kind == NUMBERS:
            told = (f"{name} ({unit})" if unit else name for name, unit in self.with_units())
            return f"numbers: {', '.join(told)}"
        several = ", any number of them for an image" if self.kind == CLASSES else ""
        return f"{len(self.names)} classes{several}" if self.names else "no labels"

    def caption(self, label: Any) -> str:
        """The label of one image in a few words."""
        if self.kind == NUMBERS:
            return ", ".join(f"{value:.4g}" for value in label)
        if self.kind == CLASSES:
            return ", ".join(self.names[i] for i in np.flatnonzero(label)) or "none"
        return self.names[int(label)]

    def to_dict(self) -> dict[str, Any]:
        """What files say besides the names of the classes and the temperature, which has a field
        of its own; nothing where a class is asked for."""
        if self.kind in (CLASS, NONE):
            return {}
        told = ((name, value) for name, value in vars(self).items() if isinstance(value, tuple))
        kept = {name: list(value) for name, value in told if value}
        if self.kind == CLASSES:
            del kept["names"]
        return {"kind": self.kind, **kept}

    @classmethod
    def from_dict(
        cls, classes: Sequence[str], given: Mapping[str, Any], temperature: float = 1.0
    ) -> Targets:
        """The targets of a file: the names of its classes, and what to_dict added."""
        told: dict[str, Any] = {name: tuple(v) for name, v in given.items() if name != "kind"}
        kind = given.get("kind") or (CLASS if classes else NONE)
        made = {"kind": kind, "names": tuple(classes), **told}
        return cls(**made, temperature=temperature)

    def fitted(self, labels: np.ndarray | None) -> Targets:
        """With the mean and the deviation of the labels of the training images."""
        if self.kind == NONE or labels is None:
            return self
        if self.kind == CLASS:
            counts = np.bincount(labels, minlength=len(self.names))
            return replace(self, mean=tuple(map(float, counts / len(labels))))
        mean = tuple(map(float, labels.mean(0, np.float64)))
        if self.kind == CLASSES:
            return replace(self, mean=mean)
        std = labels.std(0, dtype=np.float64)
        std[std == 0] = 1.0  # a number that never changes
        return replace(self, mean=mean, std=tuple(map(float, std)))

    def weights(self, asked: str | Sequence[float]) -> np.ndarray | None:
        """What a recipe's class_weights mean for targets that were `fitted`; None: all the same.

        One class: a weight for each, scaled so that the training images have the mean 1. Several:
        how much an image counts that has the class, where one without it counts 1.
        """
        if asked == "none":
            return None
        share = np.array(self.mean)
        occurs = np.maximum(share, 1e-12)
        if self.kind == CLASSES:
            balanced = np.where(share > 0, ((1 - share) / occurs).clip(0.01, 100), 1.0)
            return balanced if asked == "balanced" else np.array(asked, np.float64)
        weights = np.where(share > 0, 1 / occurs, 0) if asked == "balanced" else np.array(asked)
        return np.asarray(weights / (weights * share).sum())


@dataclass(frozen=True)
class Figure:
    """What one figure of a task is: nothing is guessed from its name."""

    unit: str = ""  # "%": a share from 0 to 1, shown in percent
    better: str = ""  # "higher", "lower"; "": nobody ranks by it


LOSS = Figure("nats", "lower")
SHARE = Figure("%", "higher")
ERROR = Figure("%", "lower")
Weighted = Callable[[np.ndarray], dict[str, np.ndarray]]  # weights (s, n) -> each figure (s,)


class Answers(ABC):
    """The meaning of outputs (B, outputs) for given targets, and sums over the images so far."""

    task: ClassVar[str]  # the built-in task that trains such models
    kinds: ClassVar[tuple[str, ...]]  # what such models are for
    outputs: ClassVar[str] = ""  # what they are, for programs that read an exported file
    figures: Mapping[str, Figure]  # of `summary` and `details`; the first after loss ranks models
    shares: ClassVar[tuple[str, ...]] = ()  # figures that are shares of all images

    def __init__(self, targets: Targets) -> None:
        self.targets, self.size = targets, len(targets.names)

    @cached_property
    def sums(self) -> np.ndarray:  # not needed to predict, and large where there are many classes
        return np.zeros(self.width)

    @property
    @abstractmethod
    def width(self) -> int:
        """How many sums there are. Those of several processes can be added."""

    @abstractmethod
    def add(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        """Outputs (B, outputs) and labels of a batch."""

    @abstractmethod
    def summary(self) -> dict[str, float]:
        """Figures of all images that were added, `loss` among them."""

    @abstractmethod
    def answer(self, row: np.ndarray, top: int) -> dict[str, Any]:
        """What a row of `values` says of its image, as JSON; top: how many classes at most."""

    @abstractmethod
    def words(self, answer: Mapping[str, Any]) -> tuple[str, ...]:
        """An answer for people, in a few cells of a table."""

    def values(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs as people read them: probabilities, or numbers in their units."""
        return outputs

    def raw(self, values: np.ndarray) -> np.ndarray:
        """Outputs that have these values."""
        return values

    def weighted(self, outputs: np.ndarray, labels: np.ndarray) -> Weighted:
        """A function that gives the figures as they were if image i were there weights[i] times."""
        return lambda weights: {}

    def chance(self, values: np.ndarray) -> dict[str, float]:
        """Figures that are above 0 by chance alone: what models without that fault have at most."""
        return {}

    def details(self, outputs: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
        """What can be said of a whole split only, in plain values."""
        return {}

    def calibrated(self, outputs: np.ndarray, labels: np.ndarray) -> Targets:
        """The targets with what the validation images decide."""
        return self.targets


class ClassAnswers(Answers):
    """One class out of several: outputs are logits."""

    task, kinds = "classification", ("classification",)
    outputs = "logits: softmax makes them the probabilities of the classes"
    figures = {
        "loss": LOSS, "accuracy": SHARE, "top5": SHARE, "balanced_accuracy": SHARE,
        "macro_f1": SHARE, "auc": SHARE, "ece": ERROR, "aurc": ERROR,
    }  # fmt: skip
    shares = ("accuracy", "top5")

    @property
    def width(self) -> int:
        return 2 + self.size**2  # loss, top 5, the confusion matrix: true class, predicted class

    def add(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        rows = np.arange(len(labels))
        scores = outputs.astype(np.float64)
        true = scores[rows, labels]
        self.sums[0] += (_log_sum_exp(scores) - true).sum()
        # In the best five: fewer than five others have a higher score.
        self.sums[1] += ((scores > true[:, None]).sum(1) < 5).sum()
        np.add.at(self.sums, 2 + self.size * labels + scores.argmax(1), 1)

    @property
    def confusion(self) -> np.ndarray:
        return self.sums[2:].astype(np.int64).reshape(self.size, self.size)

    def summary(self) -> dict[str, float]:
        """Loss, accuracy and, where it says anything, top-5 accuracy."""
        count = max(1, int(self.confusion.sum()))
        result = {
            "loss": float(self.sums[0]) / count,
            "accuracy": float(self.confusion.trace()) / count,
        }
        if self.size > 5:
            result["top5"] = int(self.sums[1]) / count
        return result

    def details(self, outputs: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
        """Figures of probabilities, of each class, and the confusion matrix. Where classes differ
        in number, the mean of their accuracies too: elsewhere it is the accuracy."""
        hits, true, said = (
            self.confusion.diagonal(), self.confusion.sum(1), self.confusion.sum(0)
        )  # fmt: skip
        known = {"loss", "accuracy", "top5"}
        if len({*true} - {0}) < 2:
            known.add("balanced_accuracy")
        every = self.weighted(outputs, labels)(np.ones((1, len(labels))))
        found: dict[str, Any] = {n: float(v[0]) for n, v in every.items() if n not in known}
        found["per_class"] = {
            name: {"accuracy": h / t, "f1": 2 * h / (t + s), "images": t} if t else None
            for name, h, t, s in zip(
                self.targets.names, hits.tolist(), true.tolist(), said.tolist(), strict=True
            )
        }
        if self.size <= MOST_CONFUSED:
            found["confusion"] = self.confusion.tolist()
        return found

    def weighted(self, outputs: np.ndarray, labels: np.ndarray) -> Weighted:
        """ece: how far probabilities are from the shares that are right, in bins of as many images.
        aurc: the share of mistakes among the surest answers, over all numbers of these."""
        rows, values = np.arange(len(labels)), self.values(outputs).astype(np.float32)
        scores, predicted = outputs.astype(np.float64), values.argmax(1)
        sure, right = values.max(1).astype(np.float64), predicted == labels
        losses = _log_sum_exp(scores) - scores[rows, labels]
        first = (scores > scores[rows, labels][:, None]).sum(1) < 5
        means = np.stack([losses, right, first], 1)
        gaps = _in_bins(sure) * (right - sure)[:, None]
        areas = {"aurc": _area_of_share(sure, ~right, np.ones(len(right)))}
        true = (labels[:, None] == np.arange(min(self.size, MOST_RANKED + 1))).T
        if (
            self.size <= MOST_RANKED
            and (known := [c for c in range(self.size) if true[c].any()])[1:]
        ):
            areas["auc"] = np.mean([_area_under_roc(values[:, c], true[c]) for c in known], 0)

        def figures(weights: np.ndarray) -> dict[str, np.ndarray]:
            count = weights.sum(1)
            loss, accuracy, top5 = (weights @ means / count[:, None]).T
            there, named = (self._by_class(of, weights) for of in (labels, predicted))
            hits = self._by_class(labels, weights * right)
            found = {
                "loss": loss,
                "accuracy": accuracy,
                **({"top5": top5} if self.size > 5 else {}),
            }
            found["balanced_accuracy"] = _mean_of(hits / np.maximum(there, 1), there)
            found["macro_f1"] = _mean_of(2 * hits / np.maximum(there + named, 1), there)
            found["ece"] = np.abs(weights @ gaps).sum(1) / count
            return found | {n: area[0] + weights @ area[1:] for n, area in areas.items()}

        return figures

    def _by_class(self, of: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(of, row, self.size) for row in weights])

    def chance(self, values: np.ndarray) -> dict[str, float]:
        """Answers that are right exactly as often as they say, again and again."""
        sure, random = values.max(1).astype(np.float64), np.random.default_rng(0)
        bins, found = _in_bins(sure), []
        for _ in range(200):
            right = random.random(len(sure)) < sure
            found.append(np.abs((right - sure) @ bins).sum() / len(sure))
        return {"ece": float(np.quantile(found, 0.95))}

    def values(self, outputs: np.ndarray) -> np.ndarray:
        scores = outputs.astype(np.float64) / self.targets.temperature
        return np.asarray(np.exp(scores - _log_sum_exp(scores)[:, None]))

    def raw(self, values: np.ndarray) -> np.ndarray:
        logs = np.log(np.maximum(values.astype(np.float64), SMALLEST))
        return np.asarray(logs * self.targets.temperature)

    def calibrated(self, outputs: np.ndarray, labels: np.ndarray) -> Targets:
        """The temperature with the lowest loss; 1 where too few images say which one it is."""
        scores, rows = outputs.astype(np.float64), np.arange(len(labels))
        right = int((scores.argmax(1) == labels).sum())
        if min(right, len(labels) - right) < MISTAKES:
            return self.targets
        low, high = -3.0, 3.0  # logarithms of its inverse; the loss has one minimum
        for _ in range(30):
            middle = (low + high) / 2
            scaled = scores * np.exp(middle)
            shares = np.exp(scaled - _log_sum_exp(scaled)[:, None])
            rises = (shares * scores).sum() > scores[rows, labels].sum()
            low, high = (low, middle) if rises else (middle, high)
        return replace(self.targets, temperature=round(float(np.exp(-low)), 6))

    def answer(self, row: np.ndarray, top: int) -> dict[str, Any]:
        return {"classes": _best(self.targets.names, row, top)}

    def words(self, answer: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(f"{one['name']} {100 * one['probability']:.1f} %" for one in answer["classes"])


class ClassesAnswers(Answers):
    """Any number of classes: outputs are logits, each of its own question."""

    task, kinds = "multilabel", ("classification",)
    outputs = (
        "logits: the sigmoid of each is the probability of its class, which an image has from the "
        "threshold of the class on, or 0.5 where there are none"
    )
    figures = {"loss": LOSS, "map": SHARE, "f1": SHARE, "precision": SHARE, "recall": SHARE}

    @property
    def width(self) -> int:
        return 2 + 3 * self.size  # loss, images; true positives, said, true

    def add(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        self.sums += self._rows(outputs, labels).sum(0)

    def _rows(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """What each image adds to the sums."""
        scores, true = outputs.astype(np.float64), labels.astype(np.float64)
        losses = np.logaddexp(0, scores) - scores * true  # -log of what it gives to the truth
        said = self.values(outputs) >= self.thresholds
        parts = losses.mean(1, keepdims=True), np.ones((len(true), 1)), said * true, said, true
        return np.concatenate(parts, 1)

    def weighted(self, outputs: np.ndarray, labels: np.ndarray) -> Weighted:
        rows = self._rows(outputs, labels)
        true = labels.astype(bool).T
        areas = [_area_of_share(outputs[:, c], true[c], true[c])
                 for c in range(self.size) if true[c].any()]  # fmt: skip
        precise = np.mean(areas or [np.zeros(1 + len(rows))], 0)

        def figures(weights: np.ndarray) -> dict[str, np.ndarray]:
            sums = weights @ rows
            right, said, there = np.moveaxis(sums[:, 2:].reshape(-1, 3, self.size), 1, 0)
            return {
                "loss": sums[:, 0] / np.maximum(sums[:, 1], 1),
                "map": precise[0] + weights @ precise[1:],
                "f1": _mean_of(2 * right / np.maximum(said + there, 1), there),
                "precision": _mean_of(right / np.maximum(said, 1), there),
                "recall": _mean_of(right / np.maximum(there, 1), there),
            }

        return figures

    def raw(self, values: np.ndarray) -> np.ndarray:
        inside = values.astype(np.float64).clip(SMALLEST, 1 - 1e-9)
        return np.asarray(np.log(inside) - np.log1p(-inside))

    @property
    def thresholds(self) -> np.ndarray:
        return np.array(self.targets.thresholds or (0.5,) * self.size)

    def summary(self) -> dict[str, float]:
        """The loss of a question, and means over the classes that occur."""
        found = self._per_class().values()
        result = {"loss": float(self.sums[0] / max(1, self.sums[1]))}
        for figure in ("f1", "precision", "recall"):
            result[figure] = float(np.mean([one[figure] for one in found] or [0.0]))
        return result

    def details(self, outputs: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
        """Precision, recall, F1 and average precision of every class, and the mean of the last."""
        per_class: dict[str, Any] = dict.fromkeys(self.targets.names)
        precise = []
        for name, found in self._per_class().items():
            i = self.targets.names.index(name)
            precise.append(average_precision(outputs[:, i], labels[:, i]))
            per_class[name] = found | {"average_precision": precise[-1]}
        return {"map": float(np.mean(precise or [0.0])), "per_class": per_class}

    def _per_class(self) -> dict[str, dict[str, float]]:
        """Of the classes that occur. One that is never said has no precision: it counts as 0."""
        counts = self.sums[2:].reshape(3, self.size).tolist()
        return {
            name: {
                "f1": 2 * right / (said + true),
                "precision": right / max(said, 1),
                "recall": right / true,
                "images": true,
            }
            for name, right, said, true in zip(self.targets.names, *counts, strict=True)
            if true
        }

    def values(self, outputs: np.ndarray) -> np.ndarray:
        return np.asarray(0.5 * (1 + np.tanh(outputs.astype(np.float64) / 2)))

    def calibrated(self, outputs: np.ndarray, labels: np.ndarray) -> Targets:
        """For each class the threshold with the best F1; 0.5 where the class does not occur."""
        probabilities = self.values(outputs)
        best = [
            best_threshold(probabilities[:, i], labels[:, i]) if labels[:, i].any() else 0.5
            for i in range(self.size)
        ]
        return replace(self.targets, thresholds=tuple(best))

    def answer(self, row: np.ndarray, top: int) -> dict[str, Any]:
        """The most likely classes, and in `chosen` all those above their thresholds."""
        chosen = np.flatnonzero(row >= self.thresholds)
        names = [self.targets.names[i] for i in chosen[np.argsort(-row[chosen])]]
        return {"classes": _best(self.targets.names, row, top), "chosen": names}

    def words(self, answer: Mapping[str, Any]) -> tuple[str, ...]:
        said = (f"{one['name']} {100 * one['probability']:.1f} %" for one in answer["classes"])
        return (", ".join(answer["chosen"]) or "none", *said)


class NumberAnswers(Answers):
    """Numbers: outputs are standardised, and come back in their units."""

    task, kinds = "regression", ("regression",)
    outputs = "standardised numbers: each times its std, plus its mean, is in its unit"

    def __init__(self, targets: Targets) -> None:
        super().__init__(targets)
        self.figures = {"loss": Figure("", "lower"), "r2": Figure("", "higher")}
        self._mean = np.array(targets.mean or (0.0,) * self.size)
        self._std = np.array(targets.std or (1.0,) * self.size)
        for name, unit in targets.with_units():
            self.figures |= {
                self._called("r2", name): Figure("", "higher"),
                self._called("mae", name): Figure(unit, "lower"),
            }

    def _called(self, figure: str, name: str) -> str:
        return figure if self.size == 1 else f"{figure}_{name}"

    @property
    def width(self) -> int:
        return 2 + 4 * self.size  # loss, images; |error|, error^2, number, number^2: standardised

    def add(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        self.sums += self._rows(outputs, labels).sum(0)

    def _rows(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """What each image adds to the sums."""
        true = self.standardised(labels)
        errors = outputs.astype(np.float64) - true
        squares, ones = np.square(errors), np.ones((len(true), 1))
        parts = squares.mean(1, keepdims=True), ones, np.abs(errors), squares, true, np.square(true)
        return np.concatenate(parts, 1)

    def weighted(self, outputs: np.ndarray, labels: np.ndarray) -> Weighted:
        rows = self._rows(outputs, labels)
        return lambda weights: self._figures(weights @ rows)

    def standardised(self, labels: np.ndarray) -> np.ndarray:
        return np.asarray((labels.astype(np.float64) - self._mean) / self._std)

    def summary(self) -> dict[str, float]:
        """Mean squared error of the standardised numbers; R2 and absolute error of each."""
        return {name: float(value[0]) for name, value in self._figures(self.sums[None]).items()}

    def _figures(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Of several sums (s, width)."""
        means = sums / np.maximum(sums[:, 1:2], 1)
        parts = np.moveaxis(means[:, 2:].reshape(-1, 4, self.size), 1, 0)
        absolute, squared, number, square = parts
        spread = np.maximum(square - np.square(number), 1e-12)
        mae, r2 = absolute * self._std, 1 - squared / spread
        result = {"loss": means[:, 0], "r2": r2.mean(1)}
        for figure, values in (("r2", r2), ("mae", mae)):
            both = zip(self.targets.names, values.T, strict=True)
            result |= {self._called(figure, name): value for name, value in both}
        return result

    def raw(self, values: np.ndarray) -> np.ndarray:
        return self.standardised(values)

    def values(self, outputs: np.ndarray) -> np.ndarray:
        return np.asarray(outputs.astype(np.float64) * self._std + self._mean)

    def answer(self, row: np.ndarray, top: int) -> dict[str, Any]:
        every = zip(self.targets.with_units(), map(float, row), strict=True)
        return {"numbers": [{"name": n, "value": v, "unit": unit} for (n, unit), v in every]}

    def words(self, answer: Mapping[str, Any]) -> tuple[str, ...]:
        every = answer["numbers"]
        return tuple(f"{one['name']} {one['value']:.4g} {one['unit']}".rstrip() for one in every)


ANSWERS: Mapping[str, Callable[[Targets], Answers]] = {
    CLASS: ClassAnswers,
    CLASSES: ClassesAnswers,
    NUMBERS: NumberAnswers,
}


def _area_under_roc(scores: np.ndarray, true: np.ndarray) -> np.ndarray:
    """How often a true image has the higher score than another one, and what each image adds to
    that when it is counted once more (DeLong, 1988): (1 + n,)."""
    order, group, last = _ranked(scores)
    hits = np.cumsum(true[order])[last].astype(np.float64)
    others = last + 1 - hits
    middle_hits, middle = (
        hits - np.diff(hits, prepend=0) / 2,
        others - np.diff(others, prepend=0) / 2,
    )
    above = np.where(true[order], 1 - middle[group] / others[-1], middle_hits[group] / hits[-1])
    area, pushes = above[true[order]].mean(), np.empty(len(true))
    pushes[order] = (above - area) / np.where(true[order], hits[-1], others[-1])
    return np.append(area, pushes)


def _area_of_share(scores: np.ndarray, true: np.ndarray, over: np.ndarray) -> np.ndarray:
    """The share of true images among the first ones, as a mean over the images in `over`: over the
    true ones it is the average precision. With what each image adds, as above."""
    order, group, last = _ranked(scores)
    t, o = true[order].astype(np.float64), over[order].astype(np.float64)
    share = np.cumsum(t)[last] / (last + 1)
    there = np.diff(np.cumsum(o)[last], prepend=0)
    area, pushes = (there * share).sum() / o.sum(), np.empty(len(t))
    below = [np.cumsum(each[::-1])[::-1][group] for each in (there, there * share) / (last + 1)]
    pushes[order] = (o * (share[group] - area) + t * below[0] - below[1]) / o.sum()
    return np.append(area, pushes)


def _ranked(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The order from the highest score on, the groups of equal scores, and where each ends."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.diff(scores[order]) != 0, True)
    return order, np.append(0, np.cumsum(ends)[:-1]), np.flatnonzero(ends)


def bins_of(sure: np.ndarray) -> np.ndarray:
    """The bin of each image: by its probability, with as many images in each."""
    places = np.empty(len(sure), np.int64)
    places[np.argsort(sure, kind="stable")] = np.arange(len(sure))
    return places * min(BINS, len(sure)) // max(1, len(sure))


def _in_bins(sure: np.ndarray) -> np.ndarray:
    """(n, bins): 1 where an image is in a bin."""
    return np.asarray((bins_of(sure)[:, None] == np.arange(BINS)).astype(np.float64))


def _mean_of(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The means (s,) over the classes (s, classes) that occur."""
    there = counts > 0
    return np.asarray((values * there).sum(1) / np.maximum(there.sum(1), 1))


def average_precision(scores: np.ndarray, true: np.ndarray) -> float:
    """The area under the curve of precision over recall, by steps; at least one is true."""
    precision, recall, _ = precision_recall(scores, true)
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def precision_recall(
    scores: np.ndarray, true: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Precision, recall and threshold, from the highest score to the lowest; equal ones are one."""
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(true[order].astype(np.float64))
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    return hits[last] / (last + 1), hits[last] / max(1.0, hits[-1]), ranked[last]


def best_threshold(probabilities: np.ndarray, true: np.ndarray) -> float:
    """Half way between the last image to take, so that F1 is best, and the next one."""
    precision, recall, found = precision_recall(probabilities, true)
    best = int(np.argmax(2 * precision * recall / np.maximum(precision + recall, 1e-12)))
    after = found[best + 1] if best + 1 < len(found) else 0.0
    return float((found[best] + after) / 2)


def _best(names: tuple[str, ...], row: np.ndarray, top: int) -> list[dict[str, Any]]:
    best = row.argsort()[::-1][:top]
    return [{"name": names[i], "probability": float(row[i])} for i in best]


def _log_sum_exp(scores: np.ndarray) -> np.ndarray:
    top = scores.max(1)
    return np.asarray(top + np.log(np.exp(scores - top[:, None]).sum(1)))
