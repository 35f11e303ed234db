"""Our figures are those of scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss, top_k_accuracy_score

from zoo_core.use.metrics import ClassificationTotals, softmax


@pytest.mark.parametrize("classes", [2, 3, 6, 10, 37])
@pytest.mark.parametrize("batch", [1, 7, 500])
def test_figures_agree_with_scikit_learn(classes, batch):
    random = np.random.default_rng(classes)
    labels = random.integers(0, classes, 500)
    labels[:classes] = np.arange(classes)
    logits = random.normal(size=(500, classes)).astype(np.float32) * 3
    logits[np.arange(500), labels] += 1
    totals = ClassificationTotals(classes)
    for start in range(0, 500, batch):
        totals.add(logits[start : start + batch], labels[start : start + batch])
    figures = totals.summary()
    every = np.arange(classes)
    predicted = logits.argmax(1)
    assert totals.confusion.sum() == 500
    assert figures["accuracy"] == accuracy_score(labels, predicted)
    assert figures["loss"] == pytest.approx(log_loss(labels, softmax(logits), labels=every), 1e-9)
    matrix = confusion_matrix(labels, predicted)
    assert (totals.confusion == matrix).all()
    if classes > 5:
        expected = top_k_accuracy_score(labels, logits, k=5, labels=every)
        assert figures["top5"] == pytest.approx(expected)
    else:
        assert "top5" not in figures
    names = tuple(map(str, every))
    per_class = totals.details(names)["per_class"]
    assert list(per_class.values()) == pytest.approx(matrix.diagonal() / matrix.sum(1))


def test_extreme_scores_do_not_overflow():
    totals = ClassificationTotals(2)
    totals.add(np.array([[1e30, -1e30], [-1000.0, 1000.0]]), np.array([0, 1]))
    assert totals.summary() == {"loss": 0.0, "accuracy": 1.0}


def test_parts_of_several_processes_add_up():
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(100, 7)), random.integers(0, 7, 100)
    whole, one, other = (ClassificationTotals(7) for _ in range(3))
    whole.add(logits, labels)
    one.add(logits[:33], labels[:33])
    other.add(logits[33:], labels[33:])
    one.from_vector(one.to_vector() + other.to_vector())
    assert one.summary() == pytest.approx(whole.summary())
    assert (one.confusion == whole.confusion).all()


def test_a_class_without_pictures_has_no_accuracy():
    totals = ClassificationTotals(3)
    totals.add(np.eye(3)[:2], np.array([0, 0]))
    assert totals.details(("a", "b", "c"))["per_class"] == {"a": 0.5, "b": None, "c": None}
