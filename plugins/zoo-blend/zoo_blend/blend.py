"""What an ensemble gains over its best member: `zoo.blend`.

members.py has what each member says of images, distil.py the student. This module finds weights on
images that no member trained on, and measures the weighted mean on the test images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo import kit
from zoo_blend.members import Member, find_members

MOST = 5000  # held-out images that choose the weights
LEAST = 50  # fewer choose nothing
ROUNDS = 500  # of the search for weights, which moves ever less


@dataclass(frozen=True)
class Judged:
    """A member: how good it is alone, and what it is worth to the ensemble."""

    name: str
    model: str
    digest: str
    weight: float
    accuracy: float
    interval: tuple[float, float]
    loss: float
    without: float | None  # accuracy of the ensemble without it


@dataclass(frozen=True)
class Blend:
    """What `zoo.blend` found; figures are of the test images."""

    dataset: str
    images: int
    members: Sequence[Judged]
    accuracy: float
    interval: tuple[float, float]
    loss: float
    equal: float  # accuracy with equal weights
    best: str  # the member with the highest accuracy
    gain: kit.Difference  # accuracy of the ensemble minus that of the best member
    held_out: int  # training images of no member, which chose the weights; 0: equal weights
    why_equal: str = ""
    student: Path | None = None  # its run

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def sentence(self) -> str:
        if len(self.members) == 1:
            return f"{self.best} alone: there is no ensemble to compare."
        value, low, high = (f"{100 * v:+.2f}" for v in (self.gain.value, *self.gain.interval))
        sure = f"{value} points (95 % interval {low} to {high}, p {self.gain.p:.2g})"
        if not self.gain.significant:
            return f"The ensemble and {self.best} cannot be told apart: {sure}."
        word = "better" if self.gain.value > 0 else "worse"
        return f"The ensemble is {word} than {self.best}, the best member: {sure}."

    @property
    def chosen(self) -> str:
        """How the weights came about."""
        if len(self.members) == 1:
            return "It has all the weight."
        if self.why_equal:
            return f"The weights are equal: {self.why_equal}."
        return f"{self.held_out:,} images that no member trained on chose the weights."

    def draw(self, path: str | Path) -> Path:
        """Accuracy of each member and of the ensemble, with intervals."""
        rows = [(f"{one.name} (weight {one.weight:.2f})", one.accuracy, one.interval, "#0072B2")
                for one in self.members]  # fmt: skip
        rows.append(("ensemble", self.accuracy, self.interval, "#D55E00"))
        title = f"{self.dataset}: an ensemble of {len(self.members)}, and its members alone"
        figure, (axes,) = kit.new_figure(7, 1.1 + 0.34 * len(rows), title)
        for place, (_, value, (low, high), colour) in enumerate(rows):
            axes.plot([100 * low, 100 * high], [place, place], color=colour, linewidth=2)
            axes.plot([100 * value], [place], "o", color=colour)
        axes.set_yticks(range(len(rows)), [kit.visible(name) for name, *_ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(f"accuracy on {self.images:,} test images in %, with 95 % intervals")
        axes.grid(axis="x", color="#dddddd")
        axes.spines[["top", "right", "left"]].set_visible(False)
        kit.save_figure(figure, Path(path))
        return Path(path)

    def _repr_html_(self) -> str:
        head = ["member", "weight", "accuracy", "without it"]
        rows: list[Sequence[object]] = [head, *([one.name, f"{one.weight:.2f}",
            f"{one.accuracy:.2%}", "" if one.without is None else f"{one.without:.2%}"]
            for one in self.members), ["ensemble", "", f"{self.accuracy:.2%}", ""]]  # fmt: skip
        return kit.notebook_html(self.sentence, rows, self.draw, self.chosen)


def blend(
    *references: str | Path,
    distil: str = "",
    recipe: str = "",
    settings: Mapping[str, Any] | None = None,
    name: str = "",
    device: str = "auto",
    runs: str | Path | None = None,
    quiet: bool = False,
    report: Callable[[str], None] = kit.say,
    **changes: Any,
) -> Blend:
    """What the weighted mean of several models would gain over the best of them.

        found = zoo.blend("cnn", "efficientnet_lite0_finetune")
        found.gain, found.members[0].weight, found.sentence

    references: runs, sweeps or weights, for the same images. distil: a model that learns from them;
    recipe, settings, changes, name, quiet: of its training, as for `zoo.train`; found.student is
    its run. What a member says of an image is computed once, and kept in the cache.
    """
    where = Path(runs) if runs else None
    if distil:
        from zoo_blend.distil import check_student

        check_student(distil)
    members = find_members(references, device, where)
    if len(members) < (1 if distil else 2):
        raise zoo.UsageError("an ensemble needs two different models", "zoo runs lists yours")
    held, why = held_out(members)
    weights = equal = np.full(len(members), 1 / len(members))
    if not why:
        labels = members[0].data.train.labels
        assert labels is not None
        said = np.stack([one.said("train", held) for one in members])
        weights = fitted(said, labels[held])
    weights = np.round(weights, 4)  # as run.json has them
    weights /= weights.sum()
    tests = [one.test() for one in members]
    for one, test in zip(members[1:], tests[1:], strict=True):
        if not kit.same_images(tests[0], test):
            what = f"{members[0].name} and {one.name} have different test images"
            raise zoo.UsageError(what, "name models that were measured on the same images")
    found = _measured(members, tests, weights, equal)
    found = replace(found, held_out=0 if why else len(held), why_equal=why)
    if not distil:
        return found
    from zoo_blend.distil import train_student

    how = {"recipe": recipe, "name": name, "runs": where, "device": device, "quiet": quiet}
    given = {**(settings or {}), **changes}
    student = train_student(distil, members, weights, held, given, report, **how)
    return replace(found, student=student.path)


def held_out(members: Sequence[Member]) -> tuple[np.ndarray, str]:
    """Training images of the dataset that no member trained on, or why they choose nothing."""
    unseen = np.ones(len(members[0].data.train), bool)
    for one in members:
        own = one.unseen()
        if not own.any():
            known = "trained on all training images" if one.recipe else "does not say what it saw"
            return np.arange(0), f"{one.name} {known}, so none is left to choose weights"
        unseen &= own
    rows = np.flatnonzero(unseen)
    if len(rows) < LEAST:
        what = f"only {len(rows)} training images are new to all members"
        return np.arange(0), f"{what}; the same seed and validation_fraction leave more"
    if len(rows) > MOST:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:MOST])
    return rows, ""


def fitted(said: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The weights with which the mean of probabilities (m, n, classes) explains labels best.

    Expectation and maximisation: the likelihood has one maximum.
    """
    own = np.maximum(said[:, np.arange(len(labels)), labels].astype(np.float64), 1e-12)
    weights = np.full(len(own), 1 / len(own))
    for _ in range(ROUNDS):
        parts = weights[:, None] * own
        weights = (parts / parts.sum(0)).mean(1)
    return weights


def _measured(
    members: Sequence[Member], tests: Sequence[Any], weights: np.ndarray, equal: np.ndarray
) -> Blend:
    labels, count = tests[0].labels, len(tests[0].labels)
    said = np.stack([test.values for test in tests])

    def right(weights: np.ndarray) -> np.ndarray:
        return np.asarray(np.tensordot(weights, said, 1).argmax(1) == labels)

    def loss(values: np.ndarray) -> float:
        return float(-np.log(np.maximum(values[np.arange(count), labels], 1e-12)).mean())

    alone = [test.right() for test in tests]
    shares = [float(one.mean()) for one in alone]
    judged = []
    for place, one in enumerate(members):
        rest = np.where(np.arange(len(members)) == place, 0, weights)
        rest = rest if rest.sum() else np.where(np.arange(len(members)) == place, 0, equal)
        without = float(right(rest).mean()) if rest.sum() else None
        judged.append(
            Judged(
                name=one.name,
                model=one.located.model,
                digest=one.digest,
                weight=float(weights[place]),
                accuracy=shares[place],
                interval=kit.wilson(shares[place], count),
                loss=loss(said[place]),
                without=without,
            )
        )
    together, best = right(weights), int(np.argmax(shares))
    won, lost = (together & ~alone[best]).sum(), (alone[best] & ~together).sum()
    accuracy = float(together.mean())
    return Blend(
        dataset=members[0].data.name,
        images=count,
        members=judged,
        accuracy=accuracy,
        interval=kit.wilson(accuracy, count),
        loss=loss(np.tensordot(weights, said, 1)),
        equal=float(right(equal).mean()),
        best=members[best].name,
        gain=kit.paired(int(won), int(lost), count),
        held_out=0,
    )
