"""Labels that are probably wrong, near copies, outliers, overlapping classes: `zoo.check_labels`.

suspects.py has the rules, members.py who judges; this module brings them together for a dataset,
and writes what a person looks at and the file that a person edits.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo import kit
from zoo_check.check import connected, members, short_name
from zoo_check.members import Asked, chosen, head, network, out_of_fold
from zoo_check.suspects import (
    DOUBT,
    FOLDS,
    Neighbours,
    confident,
    folds_of,
    neighbours,
    pooled,
    vote,
)

COPIES = 0.95  # a cosine of features: images that are as similar show the same
FAR = 6.0  # of an outlier: deviations below the median similarity
OVERLAP = 0.05  # of the images of two classes: as many are thought to be of the other one
BESIDE = 3  # images beside a suspect, of the class that it is thought to have
ON_SHEET = 96  # images on a sheet
COLUMNS = ("image", "action", "label", "was", "split", "score", "reason", "sha256")


@dataclass(frozen=True)
class Member:
    """Who judged, and how well: accuracy on images that it had not seen, by their given labels."""

    name: str
    accuracy: float
    weight: float  # of its probabilities in the mean of all


@dataclass(frozen=True)
class Suspect:
    """An image whose label is probably wrong."""

    image: str
    split: str
    label: str
    thought: str  # the label that it is thought to have
    score: float  # the probability that its label is a mistake
    own: float  # the probability of its label, by the mean of all members
    other: float  # that of the other one
    agree: int  # so many members find the other one the likeliest of all


@dataclass(frozen=True)
class LabelCheck:
    """What `zoo.check_labels` found; the most doubtful labels come first."""

    name: str
    images: int
    members: Sequence[Member]
    suspects: Sequence[Suspect]
    copies: Sequence[Sequence[str]]  # groups of images with nearly the same features
    outliers: Sequence[tuple[str, float]]  # unlike all others, with the similarity to the nearest
    overlaps: Sequence[tuple[str, str, float]]  # the share of both that could be the other
    corrections: Path | None = None
    sheets: Sequence[Path] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Judged:
    """Everything known of the images, as arrays: places are those of `asked.rows`."""

    asked: Asked
    scores: np.ndarray  # (n, classes), of all members together
    doubt: np.ndarray  # the probability that a label is a mistake
    thought: np.ndarray  # the class that an image probably has
    confused: np.ndarray  # the same, for images that members take for others too
    agree: np.ndarray
    near: Neighbours | None
    groups: np.ndarray  # the first image of each group of copies
    far: np.ndarray  # places of outliers, the farthest first

    def name(self, place: int) -> str:
        return str(self.asked.listed.names[self.asked.rows[place]])

    def split(self, place: int) -> str:
        sizes = [(part, len(rows)) for part, rows in self.asked.listed.splits.items()]
        return sizes[0][0] if place < sizes[0][1] else sizes[-1][0]

    @property
    def suspects(self) -> np.ndarray:
        """Places, the most doubtful label first."""
        found = np.flatnonzero(self.thought != self.asked.labels)
        return found[np.argsort(-self.doubt[found], kind="stable")]

    @property
    def copies(self) -> list[np.ndarray]:
        return members(self.groups)


def check_labels(
    reference: Any,
    options: Mapping[str, Any] | None = None,
    /,
    *,
    models: Sequence[str] = (),
    output: str | Path | None = None,
    report: Callable[[str], None] = kit.say,
    **more: Any,
) -> LabelCheck:
    """Find labels that are probably wrong, by models that learned from the other images.

        found = zoo.check_labels("./my_images", output="odd")
        found.suspects[0].image, found.corrections

    reference, options, more: as for `zoo.open_dataset`. models: who judges; a frozen backbone gives
    a head and the nearest images, any other model is trained on each fold. output: a folder for
    sheets and for a file of corrections, which `zoo.train(..., data={"corrections": FILE})` takes.
    """
    options = {**(options or {}), **more}
    entries = chosen(models)
    listed = kit.list_images(reference, options, report)
    if listed.labels is None or listed.targets.kind != "class":
        what = f"{listed.name} has {listed.targets}, and only labels of one class can be judged"
        raise zoo.UsageError(what, "zoo data check without --labels looks at the images")
    rows = np.concatenate([*listed.splits.values()])
    asked = Asked(reference, options, listed, rows, listed.labels[rows].astype(np.int64))
    counts = np.bincount(asked.labels, minlength=len(asked.classes))
    if (counts >= FOLDS).sum() < 2:
        what = f"{listed.name} has too few images: {FOLDS} of each of two classes are needed"
        raise zoo.DataError(what, "add images, or look at all of them: zoo data show")
    judges, judged = _judge(asked, entries, bool(models), report)
    found = _found(judges, judged)
    if not output:
        return found
    folder = Path(output)
    with kit.os_errors(f"{folder} could not be written", zoo.DataError):
        file = _write_corrections(folder / "corrections.csv", found, judged)
        return replace(found, corrections=file, sheets=_sheets(folder, judged))


def _judge(
    asked: Asked, entries: Sequence[zoo.ModelEntry], named: bool, report: Callable[[str], None]
) -> tuple[list[Member], _Judged]:
    labels, classes = asked.labels, len(asked.classes)
    features: dict[str, np.ndarray] = {}
    for entry in entries:
        if "backbone" in entry.capabilities:
            try:
                features[entry.name] = asked.features(entry.name)
            except zoo.SourceUnavailable as error:  # its weights cannot be fetched
                if named or len(entries) == 1:
                    raise
                report(f"{entry.name} does not judge: {error}")
    near = neighbours(next(iter(features.values()))) if features else None
    digests = asked.listed.facts["sha256"][asked.rows]
    groups = _groups(np.unique(digests, axis=0, return_inverse=True)[1].reshape(-1), near)
    folds = folds_of(labels, groups)
    said: dict[str, np.ndarray] = {}
    for entry in entries:
        version = entry.provider.version if entry.provider else ""
        own: dict[str, Any] = {
            "labels": _digest(labels),
            "folds": _digest(folds),
            "version": version,
        }
        if entry.name in features:
            own["features"] = _digest(array := features[entry.name])
            make = lambda _, array=array: head(array, labels, classes)  # noqa: E731
        elif "backbone" in entry.capabilities:
            continue
        else:
            own |= {"images": _digest(digests), "options": asked.options}
            make = partial(network, entry, asked)
        said[entry.name] = out_of_fold(entry.name, own, folds, classes, make)
    if near:
        said["nearest images"] = vote(near, labels, groups, classes)
    every = np.stack([*said.values()])
    scores, weighed, weights = pooled(every, labels)
    thought = confident(scores, labels)
    confused, thought = thought, np.where(weighed.doubt >= DOUBT, thought, labels)
    right = (every.argmax(2) == labels).mean(1)
    judges = [Member(*one) for one in zip(said, right.tolist(), weights.tolist(), strict=True)]
    agree = (every.argmax(2) == thought).sum(0)
    far = _outliers(near, groups) if near else np.arange(0)
    return judges, _Judged(
        asked, scores, weighed.doubt, thought, confused, agree, near, groups, far
    )


def _groups(same: np.ndarray, near: Neighbours | None) -> np.ndarray:
    """For each image the first one that it is a copy of; same: equal for identical images."""
    first = np.unique(same, return_index=True)[1][same]
    pairs = [np.stack((np.arange(len(same)), first))]
    if near:
        one, place = np.nonzero(near.similarity >= COPIES)
        pairs.append(np.stack((one, near.index[one, place])))
    return connected(np.concatenate(pairs, axis=1), len(same))


def _outliers(near: Neighbours, groups: np.ndarray) -> np.ndarray:
    """Images whose nearest ones are far away, compared with how it is for the others."""
    nearest = near.similarity[:, :5].mean(1)
    middle = np.median(nearest)
    deviation = 1.4826 * np.median(np.abs(nearest - middle)) + 1e-6
    found = np.flatnonzero(nearest < middle - FAR * deviation)
    return found[np.argsort(nearest[found], kind="stable")]


def _found(judges: Sequence[Member], judged: _Judged) -> LabelCheck:
    asked, classes = judged.asked, judged.asked.classes
    suspects = []
    for place in judged.suspects.tolist():
        label, thought = int(asked.labels[place]), int(judged.thought[place])
        suspects.append(
            Suspect(
                image=judged.name(place),
                split=judged.split(place),
                label=classes[label],
                thought=classes[thought],
                score=float(judged.doubt[place]),
                own=float(judged.scores[place, label]),
                other=float(judged.scores[place, thought]),
                agree=int(judged.agree[place]),
            )
        )
    joint = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(joint, (asked.labels, judged.confused), 1)
    overlaps = []
    for one in range(len(classes)):
        for other in range(one):
            crossed, whole = joint[one, other] + joint[other, one], joint[[one, other]].sum()
            if crossed >= FOLDS and crossed > OVERLAP * whole:
                overlaps.append((classes[other], classes[one], float(crossed / whole)))
    return LabelCheck(
        name=asked.listed.name,
        images=len(asked.labels),
        members=judges,
        suspects=suspects,
        copies=[[judged.name(place) for place in group] for group in judged.copies],
        outliers=[
            (judged.name(place), float(judged.near.similarity[place, 0]))
            for place in judged.far.tolist() if judged.near
        ],
        overlaps=sorted(overlaps, key=lambda pair: -pair[2]),
    )  # fmt: skip


def _write_corrections(file: Path, found: LabelCheck, judged: _Judged) -> Path:
    """A row for each image that is odd in some way; a person decides what becomes of it."""
    rows: dict[int, dict[str, Any]] = {}

    def note(place: int, reason: str, action: str = "keep", label: str = "") -> None:
        number = judged.asked.rows[place]
        if judged.split(place) == "test":
            action = "keep"  # a test set that its models correct flatters them
        row = rows.setdefault(
            place,
            {
                "image": judged.name(place), "action": action, "label": label,
                "was": judged.asked.classes[judged.asked.labels[place]],
                "split": judged.split(place), "score": "", "reason": "",
                "sha256": judged.asked.listed.digest(number),
            },
        )  # fmt: skip
        row["reason"] = "; ".join(filter(None, (row["reason"], reason)))

    for place, one in zip(judged.suspects.tolist(), found.suspects, strict=True):
        most = one.agree * 2 > len(found.members)
        what = f"{one.agree} of {len(found.members)} members say {one.thought}"
        note(place, what, "label" if most else "drop", one.thought)
        rows[place]["score"] = f"{one.score:.4f}"
    for group in judged.copies:
        tests = [place for place in group if judged.split(place) == "test"]
        first = (tests or group.tolist())[0]
        for place in group.tolist():
            if place != first:
                leak = bool(tests) and judged.split(place) == "train"
                what = f"shows the same as {judged.name(first)}"
                note(place, what, "drop" if leak else "keep")
    for place in judged.far.tolist():
        note(place, "is unlike all others")
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, COLUMNS)
    table.writeheader()
    table.writerows(rows.values())
    with kit.atomic_write(file) as temporary:
        temporary.write_bytes(text.getvalue().encode())
    return file


def _sheets(folder: Path, judged: _Judged) -> list[Path]:
    asked, written = judged.asked, []
    suspects: list[tuple[int, str]] = []
    for place in judged.suspects[: ON_SHEET // (BESIDE + 1)].tolist():
        label, thought = (asked.classes[i] for i in (asked.labels[place], judged.thought[place]))
        suspects.append((place, f"{judged.split(place)} {label}\n{thought}?"))
        suspects += [(other, thought) for other in _typical(judged, place)]
    copies = [
        (place, f"{number}: {judged.split(place)} {asked.classes[asked.labels[place]]}")
        for number, group in enumerate(judged.copies[: ON_SHEET // 2], 1)
        for place in group[:2].tolist()
    ]
    far = [
        (place, f"{judged.split(place)} {asked.classes[asked.labels[place]]}")
        for place in judged.far[:ON_SHEET].tolist()
    ]
    for name, title, shown in (
        ("suspects", "Labels that are probably wrong, each before images of the other class",
         suspects),
        ("alike", "Images with nearly the same features, two of each group", copies),
        ("outliers", "Images unlike all others", far),
    ):  # fmt: skip
        if shown:
            tiles = np.stack([asked.listed.tile(asked.rows[place]) for place, _ in shown])
            texts = [f"{text}\n{short_name(judged.name(place))}" for place, text in shown]
            path = folder / f"{name}.png"
            written += kit.write_sheet(path, tiles, texts, columns=8, title=title)
    return written


def _typical(judged: _Judged, place: int) -> list[int]:
    """Images that surely have the class of which this one is thought to be, the nearest first."""
    thought = judged.thought[place]
    sound = (judged.thought == thought) & (judged.asked.labels == thought)
    nearest: list[int] = []
    if judged.near:
        index = judged.near.index[place]
        nearest = index[sound[index]][:BESIDE].tolist()
    surest = np.argsort(-judged.scores[:, thought] * sound, kind="stable")
    others = (i for i in surest[: 2 * BESIDE].tolist() if i not in nearest)
    return (nearest + list(others))[:BESIDE]


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
