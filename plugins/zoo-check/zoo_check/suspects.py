"""Which labels are probably wrong: what members that never saw an image say of its label.

Arrays in, arrays out. Two rules, and a suspect meets both. Confident learning (Northcutt, Jiang and
Chuang, arXiv 1911.00068): members are as sure of another class as they are, on average, of images
with that label. That alone also finds what weak members confuse; so a label must also be a mistake
with a probability of DOUBT or more, where the share of mistakes is the one that explains all labels
best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zoo import kit

NEAR = 32  # neighbours of an image that are kept
DOUBT = 0.5
VOTERS = 10  # of them, those that vote
SOFT = 0.1  # a voter that is less similar by this counts e times less
FOLDS = 5
TEMPERATURES = np.geomspace(0.25, 4, 41)
ROUNDS = 60  # of the search for weights, which moves ever less
MISTAKES = 0.05  # of the labels, where that search begins


@dataclass(frozen=True)
class Neighbours:
    """The images that are most like each image, the most similar first."""

    index: np.ndarray  # (n, NEAR)
    similarity: np.ndarray  # (n, NEAR): cosines


def neighbours(features: np.ndarray, step: int = 512) -> Neighbours:
    """Compare all images with all, by directions from the mean of their features."""
    units = features.astype(np.float32) - features.mean(0, dtype=np.float32)
    units /= np.maximum(np.linalg.norm(units, axis=1, keepdims=True), 1e-6)
    count = min(NEAR, len(units) - 1)
    index = np.empty((len(units), count), np.int64)
    similarity = np.empty((len(units), count), np.float32)
    with kit.progress("comparing features", len(units)) as advance:
        for start in range(0, len(units), step):
            rows = np.arange(start, min(start + step, len(units)))
            cosines = units[rows] @ units.T
            cosines[np.arange(len(rows)), rows] = -np.inf  # an image is not its own neighbour
            nearest = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
            found = np.take_along_axis(cosines, nearest, axis=1)
            order = np.argsort(-found, axis=1, kind="stable")
            index[rows] = np.take_along_axis(nearest, order, axis=1)
            similarity[rows] = np.take_along_axis(found, order, axis=1)
            advance(len(rows))
    return Neighbours(index, similarity)


def vote(near: Neighbours, labels: np.ndarray, groups: np.ndarray, classes: int) -> np.ndarray:
    """What the labels of its neighbours say of each image; copies of it have no vote."""
    allowed = groups[near.index] != groups[:, None]
    voting = allowed & (np.cumsum(allowed, axis=1) <= VOTERS)
    heard = np.where(voting, near.similarity, -np.inf)
    best = np.maximum(heard.max(1, keepdims=True), -1)  # -1: only copies are near
    weights = np.exp((heard - best) / SOFT)
    votes = np.bincount(labels, minlength=classes) / len(labels) + np.zeros((len(labels), 1))
    np.add.at(votes, (np.arange(len(labels))[:, None], labels[near.index]), weights)
    return np.asarray(votes / votes.sum(1, keepdims=True))


def folds_of(labels: np.ndarray, groups: np.ndarray, seed: int = 0) -> np.ndarray:
    """A fold for each image: classes in proportion, copies of an image where it is."""
    draw, folds = np.random.default_rng(seed), np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        members = draw.permutation(np.flatnonzero(labels == label))
        folds[members] = (np.arange(len(members)) + draw.integers(FOLDS)) % FOLDS
    return np.asarray(folds[groups])


def calibrated(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The probabilities at the temperature at which the labels, some of them wrong, fit best."""
    logs = np.log(np.maximum(scores, 1e-12))
    logs -= logs.max(1, keepdims=True)

    def tempered(temperature: float) -> np.ndarray:
        found = np.exp(logs / temperature)
        return np.asarray(found / found.sum(1, keepdims=True))

    fits = [weigh(tempered(t)[None], labels).fit for t in TEMPERATURES]
    return tempered(float(TEMPERATURES[int(np.argmax(fits))]))


@dataclass(frozen=True)
class Weighed:
    """How the given labels came about: by what the members say, or by mistake."""

    weights: np.ndarray  # (m,), of the members
    doubt: np.ndarray  # (n,): the probability that a label is a mistake
    fit: float  # the mean log-likelihood of the labels


def weigh(members: np.ndarray, labels: np.ndarray) -> Weighed:
    """Find the weights of the members' probabilities (m, n, classes) and of mistakes that fit best.

    A mistake is any label, as often as there are such labels. Expectation and maximisation.
    """
    shares = np.bincount(labels, minlength=members.shape[2]) / len(labels)
    said = np.concatenate([members[:, np.arange(len(labels)), labels], shares[None, labels]])
    weights = np.append(np.full(len(members), (1 - MISTAKES) / len(members)), MISTAKES)
    for _ in range(ROUNDS):
        parts = weights[:, None] * said
        whole = parts.sum(0)
        weights = (parts / whole).mean(1)
    return Weighed(
        weights[:-1] / weights[:-1].sum(), parts[-1] / whole, float(np.log(whole).mean())
    )


def pooled(members: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, Weighed, np.ndarray]:
    """The probabilities (n, classes) of all members together, what follows, and their weights.

    Weighted means of logarithms: a member that says nothing changes nothing.
    """
    members = np.stack([calibrated(scores, labels) for scores in members])
    weights = weigh(members, labels).weights
    logs = np.log(np.maximum(members, 1e-12))
    scores = calibrated(np.exp(np.tensordot(weights, logs, 1)), labels)
    return scores, weigh(scores[None], labels), weights


def confident(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The class that each image is thought to have: its label, unless that is suspect."""
    classes = scores.shape[1]
    own = scores[np.arange(len(labels)), labels]
    counts = np.bincount(labels, minlength=classes)
    sure = np.bincount(labels, own, classes) / np.maximum(counts, 1)
    # Of a class with fewer images than folds, a member may have seen none.
    sure = np.where(counts < FOLDS, np.inf, sure)
    reached = np.where(scores >= sure, scores, -1.0)
    thought = np.where(reached.max(1) >= 0, reached.argmax(1), labels)
    return np.where(counts[labels] < FOLDS, labels, thought)
