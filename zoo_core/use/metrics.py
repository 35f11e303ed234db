"""What a classifier got right, added up batch by batch, with NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np


class ClassificationTotals:
    """Sums over images, so that parts from several processes can be added."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.confusion = np.zeros((classes, classes), np.int64)  # true class, predicted class
        self.loss = 0.0
        self.top5 = 0

    def add(self, logits: np.ndarray, labels: np.ndarray) -> None:
        """A batch of scores (B, classes) and true classes (B,)."""
        rows = np.arange(len(labels))
        scores = logits.astype(np.float64)
        true = scores[rows, labels]
        self.loss += float((_log_sum_exp(scores) - true).sum())
        np.add.at(self.confusion, (labels, scores.argmax(1)), 1)
        # In the best five: fewer than five others have a higher score.
        self.top5 += int(((scores > true[:, None]).sum(1) < 5).sum())

    def to_vector(self) -> np.ndarray:
        """Everything as one array that can be summed over processes."""
        return np.concatenate([[self.loss, self.top5], self.confusion.ravel()])

    def from_vector(self, vector: np.ndarray) -> None:
        self.loss, self.top5 = float(vector[0]), int(vector[1])
        self.confusion = vector[2:].astype(np.int64).reshape(self.classes, self.classes)

    def summary(self) -> dict[str, float]:
        """Loss, accuracy and, where it says anything, top-5 accuracy."""
        count = max(1, int(self.confusion.sum()))
        result = {"loss": self.loss / count, "accuracy": float(self.confusion.trace()) / count}
        if self.classes > 5:
            result["top5"] = self.top5 / count
        return result

    def details(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Accuracy per class and the confusion matrix, as plain values."""
        every = zip(names, self.confusion.diagonal(), self.confusion.sum(1), strict=True)
        shares = {name: float(right / images) if images else None for name, right, images in every}
        return {"per_class": shares, "confusion": self.confusion.tolist()}


def softmax(logits: np.ndarray) -> np.ndarray:
    """Scores (B, classes) as probabilities."""
    scores = logits.astype(np.float64)
    return np.asarray(np.exp(scores - _log_sum_exp(scores)[:, None]))


def _log_sum_exp(scores: np.ndarray) -> np.ndarray:
    top = scores.max(1)
    return np.asarray(top + np.log(np.exp(scores - top[:, None]).sum(1)))
