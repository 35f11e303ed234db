"""class_weights: the weights, the losses that use them, and what refuses them."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import balanced_accuracy_score
from sklearn.utils.class_weight import compute_class_weight

import zoo
from zoo_core.data.loader import Batch
from zoo_core.spec.answers import CLASS, CLASSES, ClassAnswers, Targets
from zoo_core.spec.settings import override, parse_settings
from zoo_core.torch.task import Classification, Multilabel
from zoo_core.train import runner as training

LABELS = np.repeat([0, 1, 2], [40, 9, 3])
TARGETS = Targets(CLASS, ("a", "b", "c")).fitted(LABELS)
SMALL = {"epochs": 2, "batch_size": 20, "data": {"train_size": 60, "test_size": 20}}


def task(targets=TARGETS, kind=Classification, **recipe):
    return kind(torch.nn.Identity(), zoo.Recipe(**recipe), targets)


def test_balanced_weights_are_those_of_scikit_learn():
    wanted = compute_class_weight("balanced", classes=np.arange(3), y=LABELS)
    np.testing.assert_allclose(TARGETS.weights("balanced"), wanted)


def test_a_class_without_training_images_leaves_the_others_as_they_are():
    targets = Targets(CLASS, ("a", "missing", "b")).fitted(np.array([0, 0, 0, 2]))
    wanted = compute_class_weight("balanced", classes=np.array([0, 2]), y=[0, 0, 0, 2])
    np.testing.assert_allclose(targets.weights("balanced"), [wanted[0], 0, wanted[1]])


def test_of_a_list_only_the_ratios_matter_and_an_average_image_counts_1():
    weights = TARGETS.weights((1, 2, 4))
    np.testing.assert_allclose(weights, TARGETS.weights((10, 20, 40)))
    np.testing.assert_allclose(weights / weights[0], [1, 2, 4])
    assert weights[LABELS].mean() == pytest.approx(1)


def test_over_all_training_images_the_loss_is_torchs_weighted_mean():
    outputs, labels = torch.randn(len(LABELS), 3), torch.from_numpy(LABELS)
    one = task(class_weights="balanced")
    wanted = F.cross_entropy(outputs, labels, weight=one.weights)
    torch.testing.assert_close(one.loss(outputs, labels), wanted)


def test_the_parts_of_a_batch_add_up_to_its_loss():
    outputs, labels = torch.randn(len(LABELS), 3), torch.from_numpy(LABELS)
    one = task(class_weights="balanced", label_smoothing=0.1)
    halves = [one.loss(outputs[part], labels[part]) for part in (slice(0, 26), slice(26, 52))]
    torch.testing.assert_close(one.loss(outputs, labels), sum(halves) / 2)


def test_smoothing_takes_the_same_share_from_every_class():
    """An image's best answer is its smoothed label, whatever the weights."""
    one, labels = task(class_weights=(1, 1, 100), label_smoothing=0.3), torch.tensor([0])
    outputs = torch.tensor([[0.8, 0.1, 0.1]]).log().requires_grad_()
    one.loss(outputs, labels).backward()
    torch.testing.assert_close(outputs.grad, torch.zeros(1, 3), atol=1e-7, rtol=0)


def test_mixed_images_count_by_the_weights_of_both_classes_in_torch_and_in_numpy():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(5, 3)).astype(np.float32)
    one, other = np.array([0, 0, 1, 2, 2]), np.array([2, 1, 1, 0, 2])
    share = generator.uniform(size=5).astype(np.float32)
    weights = TARGETS.weights("balanced")
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    eye = np.eye(3) * 0.9 + 0.1 / 3
    losses = [-(weights[y][:, None] * eye[y] * log_p).sum(1) for y in (one, other)]
    wanted = (share * losses[0] + (1 - share) * losses[1]).mean()

    batch = Batch(logits, one, np.arange(5), other, share)
    soft = batch.targets(3, 0.1, weights)
    assert -(soft * log_p).sum(1).mean() == pytest.approx(wanted, rel=1e-5)
    given = (torch.from_numpy(a) for a in (logits, one, np.arange(5), other, share))
    found = []
    step = task(class_weights="balanced", label_smoothing=0.1, mixup=0.2).step
    step(Batch(*given), lambda _, loss: found.append(float(loss)))
    assert found == [pytest.approx(wanted, rel=1e-5)]


def test_of_several_classes_both_sides_of_a_question_weigh_the_same():
    labels = np.zeros((10, 2), np.uint8)
    labels[:2, 0] = labels[:, 1] = 1
    targets = Targets(CLASSES, ("rare", "always")).fitted(labels)
    np.testing.assert_allclose(targets.weights("balanced"), [4, 0.01])
    one = task(targets, Multilabel, class_weights="balanced")
    losses = one.loss(torch.zeros(10, 2), torch.from_numpy(labels), "none") / np.log(2)
    assert losses[:2].sum() - 2 * 0.005 == pytest.approx(losses[2:].sum() - 8 * 0.005)  # 4 and 4
    listed = task(targets, Multilabel, class_weights=(3, 1)).loss
    pairs = torch.randn(10, 2), torch.from_numpy(labels)
    wanted = F.binary_cross_entropy_with_logits(
        pairs[0], pairs[1].float(), pos_weight=torch.tensor([3.0, 1.0])
    )
    torch.testing.assert_close(listed(*pairs), wanted)


@pytest.mark.parametrize("model", ["mlp", "fcn_numpy"])
def test_a_rare_class_is_found_more_often_with_weights(tmp_path, model):
    heavy = (50.0, *[1.0] * 9)
    plain, weighted = (recall_of(model, tmp_path, weights) for weights in ("none", heavy))
    assert weighted > plain


def recall_of(model, tmp_path, weights):
    how = {**SMALL, "epochs": 6, "class_weights": weights}
    how["data"] = {"train_size": 200, "test_size": 200}
    run = training.train(model, "synthetic", settings=how, runs=tmp_path, quiet=True).run
    document = run.read()
    assert document["recipe"]["class_weights"] == (list(weights) if weights != "none" else "none")
    return next(iter(document["result"]["test"]["per_class"].values()))["accuracy"]


def test_what_is_typed_after_set():
    entry = zoo.info("mlp")
    given = parse_settings(["class_weights=1,2.5,3"], entry)
    assert given == {"class_weights": (1.0, 2.5, 3.0)}
    assert parse_settings(["class_weights=balanced"], entry) == {"class_weights": "balanced"}
    for wrong in ("heavy", "1,-2", "3"):
        with pytest.raises(zoo.ZooError, match="none, balanced, or a number above 0"):
            override(zoo.Recipe(), parse_settings([f"class_weights={wrong}"], entry))
    with pytest.raises(zoo.ZooError, match="each number of class_weights must be a number"):
        parse_settings(["class_weights=1,x"], entry)


@pytest.mark.parametrize(
    ("model", "more", "words"),
    [
        ("mlp", {"class_weights": (1.0, 2.0)}, "class_weights has 2 numbers for 10 classes"),
        ("vae", {"class_weights": "balanced"}, "does not use class_weights"),
        ("fcn_numpy", {"class_weights": "balanced", "task": {"loss": "mse"}}, "not of mse"),
    ],
)
def test_what_cannot_be_weighted_is_refused(tmp_path, model, more, words):
    with pytest.raises(zoo.ZooError, match=words):
        training.train(model, "synthetic", settings={**SMALL, **more}, runs=tmp_path, quiet=True)
    assert not list(tmp_path.glob("*-synthetic-*"))


def test_balanced_accuracy_is_scikit_learns_and_there_where_classes_differ_in_number():
    generator = np.random.default_rng(0)
    outputs = generator.normal(size=(52, 3))
    answers = ClassAnswers(Targets(CLASS, ("a", "b", "c")))
    answers.add(outputs, LABELS)
    found = answers.details(outputs, LABELS)
    wanted = balanced_accuracy_score(LABELS, outputs.argmax(1))
    assert found["balanced_accuracy"] == pytest.approx(wanted)
    even = ClassAnswers(Targets(CLASS, ("a", "b", "c")))  # c does not occur
    even.add(outputs[:8], np.repeat([0, 1], 4))
    assert "balanced_accuracy" not in even.details(outputs[:8], np.repeat([0, 1], 4))
