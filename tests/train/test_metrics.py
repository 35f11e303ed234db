"""Our figures are those of scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics

from zoo_core.spec.answers import ClassAnswers, ClassesAnswers, NumberAnswers, Targets


def of_classes(count):
    return ClassAnswers(Targets("class", tuple(map(str, range(count)))))


@pytest.mark.parametrize("classes", [2, 3, 6, 10, 37])
@pytest.mark.parametrize("batch", [1, 7, 500])
def test_figures_of_one_class_agree_with_scikit_learn(classes, batch):
    random = np.random.default_rng(classes)
    labels = random.integers(0, classes, 500)
    labels[:classes] = np.arange(classes)
    logits = random.normal(size=(500, classes)).astype(np.float32) * 3
    logits[np.arange(500), labels] += 1
    answers = of_classes(classes)
    for start in range(0, 500, batch):
        answers.add(logits[start : start + batch], labels[start : start + batch])
    figures = answers.summary()
    every = np.arange(classes)
    predicted = logits.argmax(1)
    assert answers.confusion.sum() == 500
    assert figures["accuracy"] == metrics.accuracy_score(labels, predicted)
    expected = metrics.log_loss(labels, answers.values(logits), labels=every)
    assert figures["loss"] == pytest.approx(expected, 1e-9)
    matrix = metrics.confusion_matrix(labels, predicted)
    assert (answers.confusion == matrix).all()
    if classes > 5:
        expected = metrics.top_k_accuracy_score(labels, logits, k=5, labels=every)
        assert figures["top5"] == pytest.approx(expected)
    else:
        assert "top5" not in figures
    per_class = answers.details(logits, labels)["per_class"]
    shares = [one["accuracy"] for one in per_class.values()]
    assert shares == pytest.approx(matrix.diagonal() / matrix.sum(1))
    assert [one["images"] for one in per_class.values()] == matrix.sum(1).tolist()
    f1 = metrics.f1_score(labels, predicted, labels=every, average=None)
    assert [one["f1"] for one in per_class.values()] == pytest.approx(f1)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_figures_of_probabilities_agree_with_scikit_learn(classes):
    labels, logits = scored(classes)
    logits[::2] = logits[::2].round()  # equal scores too
    answers = of_classes(classes)
    answers.add(logits, labels)
    found, values = answers.details(logits, labels), answers.values(logits).astype(np.float32)
    predicted, sure = logits.argmax(1), values.max(1)
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(labels, predicted, average="macro"))
    given = values[:, 1] if classes == 2 else values
    expected = metrics.roc_auc_score(labels, given, multi_class="ovr", average="macro")
    assert found["auc"] == pytest.approx(expected)
    order = np.argsort(-sure, kind="stable")
    wrong = (predicted != labels)[order]
    ends = np.append(np.diff(sure[order]) != 0, True)  # equal ones are answered together
    group = np.append(0, np.cumsum(ends)[:-1])
    risks = (np.cumsum(wrong) / np.arange(1, 501))[np.flatnonzero(ends)][group]
    assert found["aurc"] == pytest.approx(risks.mean())


def scored(classes, images=500):
    random = np.random.default_rng(classes)
    labels = random.integers(0, classes, images)
    logits = random.normal(size=(images, classes)) * 2
    logits[np.arange(images), labels] += 2
    return labels, logits


def test_a_temperature_makes_probabilities_as_often_right_as_they_say():
    random, logits = np.random.default_rng(1), scored(10, images=4000)[1]
    true = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (random.random((4000, 1)) < np.cumsum(true, 1)).argmax(1)
    boastful = of_classes(10)
    found = boastful.calibrated(3 * logits, labels)
    assert found.temperature == pytest.approx(3, rel=0.05)
    honest = ClassAnswers(found)
    for answers in (boastful, honest):
        answers.add(3 * logits, labels)
    before, after = (a.details(3 * logits, labels)["ece"] for a in (boastful, honest))
    assert after < 0.02 < 0.1 < before
    assert honest.summary() == boastful.summary()  # the loss is that of the training
    again = honest.raw(honest.values(3 * logits)) - 3 * logits  # but for a number for each image
    assert np.allclose(again, again[:, :1])
    few = of_classes(10).calibrated(3 * logits[:12], labels[:12])
    assert few.temperature == 1  # too few mistakes, or right answers, to say


def one_class():
    labels, logits = scored(6, images=2000)
    return of_classes(6), logits, labels


def some_numbers():
    random = np.random.default_rng(0)
    labels = random.normal(size=(2000, 2)).astype(np.float32)
    answers = NumberAnswers(Targets("numbers", ("x", "y"), mean=(0.1, 0.2), std=(1.0, 2.0)))
    return answers, answers.standardised(labels) + random.normal(size=(2000, 2)) / 3, labels


def several(seed=0, images=400, thresholds=()):
    random = np.random.default_rng(seed)
    labels = (random.random((images, 4)) < (0.5, 0.2, 0.05, 0.9)).astype(np.uint8)
    logits = (random.normal(size=labels.shape) + 2.0 * labels - 1).astype(np.float32)
    logits[::3] = logits[::3].round(0)  # equal scores too
    targets = Targets("classes", ("a", "b", "c", "d"), thresholds=thresholds)
    return ClassesAnswers(targets), logits, labels


AREAS = {"auc", "aurc", "map"}  # to first order
BINNED = {"ece"}  # in the bins of the images as they are


@pytest.mark.parametrize("made", [one_class, several, some_numbers])
def test_weighted_figures_are_those_of_images_that_are_there_as_often(made):
    answers, outputs, labels = made()
    weights = np.ones((1, len(labels)))
    weights[0, ::100] = 2
    twice = np.repeat(np.arange(len(labels)), weights[0].astype(int))
    found = answers.weighted(outputs, labels)(weights)
    expected = answers.weighted(outputs[twice], labels[twice])(np.ones((1, len(twice))))
    plain = answers.weighted(outputs, labels)(np.ones((1, len(labels))))
    assert set(found) <= set(answers.figures)
    for name in set(found) - BINNED:
        moved = float(abs(expected[name] - plain[name])[0])
        near = 0.2 * moved + 1e-6 if name in AREAS else 1e-9
        assert found[name] == pytest.approx(expected[name], abs=near), name
    answers.add(outputs, labels)
    known = answers.summary() | answers.details(outputs, labels)
    for name in known.keys() & plain.keys():
        assert plain[name] == pytest.approx(known[name]), name


def test_extreme_scores_do_not_overflow():
    answers = of_classes(2)
    answers.add(np.array([[1e30, -1e30], [-1000.0, 1000.0]]), np.array([0, 1]))
    assert answers.summary() == {"loss": 0.0, "accuracy": 1.0}


def test_a_class_without_images_has_no_accuracy():
    answers = ClassAnswers(Targets("class", ("a", "b", "c")))
    answers.add(np.eye(3)[:2], np.array([0, 0]))
    found = answers.details(np.eye(3)[:2], np.array([0, 0]))
    assert found["per_class"] == {
        "a": {"accuracy": 0.5, "f1": 2 / 3, "images": 2}, "b": None, "c": None
    }  # fmt: skip


@pytest.mark.parametrize("thresholds", [(), (0.3, 0.6, 0.2, 0.9)])
def test_figures_of_several_classes_agree_with_scikit_learn(thresholds):
    answers, logits, labels = several(thresholds=thresholds)
    for start in range(0, len(labels), 64):
        answers.add(logits[start : start + 64], labels[start : start + 64])
    figures = answers.summary() | answers.details(logits, labels)
    shares = 1 / (1 + np.exp(-logits.astype(np.float64)))
    said = shares >= np.array(thresholds or 0.5)
    how = {"average": "macro", "zero_division": 0}
    for name in ("f1", "precision", "recall"):
        expected = getattr(metrics, f"{name}_score")(labels, said, **how)
        assert figures[name] == pytest.approx(expected, 1e-9)
    expected = metrics.average_precision_score(labels, logits, average="macro")
    assert figures["map"] == pytest.approx(expected, 1e-9)
    columns = [metrics.log_loss(labels[:, i], shares[:, i], labels=[0, 1]) for i in range(4)]
    assert figures["loss"] == pytest.approx(np.mean(columns), 1e-9)
    assert figures["per_class"]["c"]["images"] == labels[:, 2].sum()
    assert set(answers.figures) == set(figures) - {"per_class"}


def test_no_threshold_has_a_better_f1_on_the_images_that_chose_it():
    answers, logits, labels = several(seed=1)
    chosen = answers.calibrated(logits, labels).thresholds
    shares = answers.values(logits)
    for i, threshold in enumerate(chosen):
        ours = metrics.f1_score(labels[:, i], shares[:, i] >= threshold)
        positive = (
            shares[:, i] >= np.unique(shares[:, i])[:, None]
        )  # of every threshold, of each row
        right = (positive & (labels[:, i] == 1)).sum(1)
        assert ours == (2 * right / (positive.sum(1) + labels[:, i].sum())).max()


def test_a_class_that_never_occurs_counts_for_nothing():
    answers, logits, labels = several()
    labels[:, 2] = 0
    answers.add(logits, labels)
    figures = answers.summary() | answers.details(logits, labels)
    assert figures["per_class"]["c"] is None
    assert answers.calibrated(logits, labels).thresholds[2] == 0.5
    others = [0, 1, 3]
    expected = metrics.average_precision_score(labels[:, others], logits[:, others])
    assert figures["map"] == pytest.approx(expected, 1e-9)
    labels[:] = 0
    nothing = several()[0]
    nothing.add(logits, labels)
    assert nothing.summary()["f1"] == 0 and nothing.details(logits, labels)["map"] == 0


def numbers(columns=2):
    random = np.random.default_rng(0)
    labels = (random.normal(size=(300, columns)) * 7 + 100).astype(np.float32)
    plain = Targets("numbers", ("x", "y")[:columns], ("mm", "kg")[:columns])
    answers = NumberAnswers(plain.fitted(labels))
    outputs = answers.standardised(labels) + random.normal(size=labels.shape) / 3
    return answers, outputs.astype(np.float32), labels


def test_figures_of_numbers_agree_with_scikit_learn_in_their_units():
    answers, outputs, labels = numbers()
    for start in range(0, len(labels), 64):
        answers.add(outputs[start : start + 64], labels[start : start + 64])
    figures, said = answers.summary(), answers.values(outputs)
    assert figures["r2"] == pytest.approx(metrics.r2_score(labels, said), 1e-6)
    for i, name in enumerate("xy"):
        alone = labels[:, i], said[:, i]
        assert figures[f"mae_{name}"] == pytest.approx(metrics.mean_absolute_error(*alone), 1e-6)
        assert figures[f"r2_{name}"] == pytest.approx(metrics.r2_score(*alone), 1e-6)
    assert answers.figures["mae_y"].unit == "kg" and answers.figures["mae_y"].better == "lower"
    assert set(answers.figures) == set(figures)


def test_one_number_has_short_names_and_comes_back_in_its_unit():
    answers, outputs, labels = numbers(1)
    answers.add(outputs, labels)
    assert set(answers.summary()) == {"loss", "r2", "mae"} == set(answers.figures)
    (said,) = answers.answer(answers.values(outputs)[0], top=5)["numbers"]
    assert said == {"name": "x", "value": pytest.approx(labels[0, 0], abs=10), "unit": "mm"}
    assert answers.words({"numbers": [said | {"value": 1.23456}]}) == ("x 1.235 mm",)


@pytest.mark.parametrize("made", [several, numbers])
def test_parts_of_several_processes_add_up(made):
    (whole, outputs, labels), (one, *_), (other, *_) = made(), made(), made()
    whole.add(outputs, labels)
    one.add(outputs[:33], labels[:33])
    other.add(outputs[33:], labels[33:])
    one.sums += other.sums
    assert one.summary() == pytest.approx(whole.summary())
