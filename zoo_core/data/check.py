"""What is in a dataset and what is odd about it: `zoo data check`.

The facts come from one pass over the images, which data/packs.py makes and keeps. What is certain,
such as a broken file or a test image that is a training image too, is a problem; the rest are
remarks.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from zoo_core.data.dataset import Dataset
from zoo_core.data.datasets import DatasetChoice, Report, find_dataset, given_by, open_dataset
from zoo_core.data.images import FORMATS, Form, read_image
from zoo_core.data.originals import DEFAULT_SIZE, PARTS, LeftOut, Originals
from zoo_core.data.packs import FACTS, Pack, facts_of, look
from zoo_core.data.sheets import write_sheet
from zoo_core.data.stores import broken, check_options
from zoo_core.data.targets import read_targets
from zoo_core.io.console import percent, progress, say
from zoo_core.io.errors import DataError, os_errors
from zoo_core.spec.answers import CLASS, CLASSES, NUMBERS, Targets

# Two images look alike if their 64 grey pixels correlate so much: a copy that was saved again,
# resized or brightened does. Of 30 pairs drawn from CIFAR-10 all were the same photograph at 0.99,
# and three of four at 0.985.
ALIKE = 0.99
PLAIN = 2.0  # levels: what varies less from pixel to pixel looks like all other plain images
FEW = 10  # training images: a class with fewer is not learnt well
TILE = 128  # pixels of an image on a sheet
ON_A_SHEET = 48


@dataclass(frozen=True)
class Oddity:
    """One thing that is odd, the images that it is about, and what to do."""

    kind: str
    problem: bool  # False: a remark
    what: str
    to_do: str
    images: Sequence[
        Any
    ] = ()  # names, names with a reason, or groups of names that belong together


@dataclass(frozen=True)
class DataCheck:
    """What `zoo.check_data` found out."""

    name: str
    images: Mapping[str, int]  # in each split, without those that are left out
    targets: str
    facts: Mapping[str, Any]  # sizes, formats, classes
    odd: Sequence[Oddity]
    sheets: Sequence[Path] = ()

    @property
    def ok(self) -> bool:
        """Whether there are only remarks, or nothing at all."""
        return not any(one.problem for one in self.odd)

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self), "sheets": [str(path) for path in self.sheets]}


@dataclass(frozen=True)
class _Listed:
    """All images of a dataset, in whatever way it has them; FACTS says what is known of each."""

    names: Sequence[str]
    facts: np.ndarray  # FACTS (n,)
    rows: Mapping[str, np.ndarray]  # the images of each split, without those that are left out
    targets: Targets
    labels: np.ndarray | None  # of all n
    tile: Callable[[int], np.ndarray]  # an image for a sheet
    left_out: Sequence[LeftOut] = ()
    remarks: Sequence[str] = ()


def check_dataset(
    reference: str | Path,
    options: Mapping[str, Any] | None = None,
    *,
    sheets: Path | None = None,
    report: Report = say,
) -> DataCheck:
    """Look at all images of a dataset; sheets: a folder for sheets of what is odd."""
    choice = find_dataset(reference, options)
    made = given_by(choice, report=report)
    if isinstance(made, Originals):
        listed = _originals(choice, made, report)
    else:
        listed = _arrays(open_dataset(reference, options, report=report))
    used = np.sort(np.concatenate([*listed.rows.values()]))
    cuts = choice.options.get("fit") == "crop"
    odd = [*_oddities(listed, used, cuts)]
    return DataCheck(
        name=choice.name,
        images={part: len(rows) for part, rows in listed.rows.items()},
        targets=str(listed.targets),
        facts=_summary(listed, used, cuts),
        odd=odd,
        sheets=_sheets(sheets, listed, odd, used, cuts) if sheets else (),
    )


def _originals(choice: DatasetChoice, originals: Originals, report: Report) -> _Listed:
    options = check_options(choice.name, choice.options)
    form = Form(options["image_size"] or DEFAULT_SIZE, 3, options["fit"])
    label = str(options.get("path") or choice.name)
    facts = facts_of(Pack(label, originals, form, pixels=False), report)
    given = {} if originals.labels is None else {"labels": np.asarray(originals.labels)}
    targets, kept = read_targets(given, originals.classes, originals.numbers)
    parts = originals.divided(options["test_fraction"], options["seed"]).items()
    tile = Form(TILE, 3, "pad")
    return _Listed(
        originals.names,
        facts,
        {part: rows[facts["broken"][rows] == 0] for part, rows in parts},
        targets,
        kept.get("labels"),
        lambda number: read_image(originals.in_memory(number), tile),
        [*originals.left_out, *broken(originals, form, facts)],
        originals.remarks,
    )


def _arrays(data: Dataset) -> _Listed:
    splits = {part: split for part in PARTS if (split := data.split(part)) is not None}
    images = np.concatenate([split.images for split in splits.values()])
    facts = np.zeros(len(images), FACTS)
    facts["width"] = facts["height"] = data.image_size
    facts["grey"], facts["format"] = data.channels == 1, len(FORMATS)
    names: list[str] = []
    rows, start = {}, 0
    for part, split in splits.items():
        rows[part] = np.arange(start, start := start + len(split))
        names += split.names or [f"{part} image {i}" for i in range(len(split))]
    with progress("looking at images", len(images)) as advance:
        for number, pixels in enumerate(images):
            image = Image.fromarray(pixels if data.channels > 1 else pixels[:, :, 0])
            facts["look"][number] = look(image)
            digest = hashlib.sha256(pixels.tobytes()).digest()
            facts["sha256"][number] = np.frombuffer(digest, np.uint8)
            advance(1)
    labels = [split.labels for split in splits.values() if split.labels is not None]
    together = np.concatenate(labels) if labels else None
    return _Listed(names, facts, rows, data.targets, together, images.__getitem__)


def _summary(listed: _Listed, used: np.ndarray, cuts: bool) -> dict[str, Any]:
    facts, targets = listed.facts[used], listed.targets
    by_area = used[np.argsort(facts["width"].astype(np.int64) * facts["height"], kind="stable")]
    places = {"smallest": 0, "median": len(used) // 2, "largest": -1}
    found: dict[str, Any] = {
        name: [int(listed.facts[by_area[at]][side]) for side in ("width", "height")]
        for name, at in places.items()
    }
    if cuts:
        lost = _lost(facts)
        found["crop_loses"] = {"mean": float(lost.mean()), "most": float(lost.max())}
    formats = Counter((*FORMATS, "arrays")[place] for place in facts["format"].tolist())
    found["formats"] = dict(formats.most_common())
    found["grey"] = int((facts["grey"] != 0).sum())
    if listed.labels is None:
        return found
    for part, rows in listed.rows.items():
        labels = listed.labels[rows]
        for place, name in enumerate(targets.names):
            if targets.kind == NUMBERS:
                column = labels[:, place]
                about: Any = {"least": float(column.min()), "median": float(np.median(column))}
                about |= {"most": float(column.max())}
            else:
                about = int((labels == place if targets.kind == CLASS else labels[:, place]).sum())
            found.setdefault("labels", {}).setdefault(name, {})[part] = about
        if targets.kind == CLASSES:
            found.setdefault("without_a_class", {})[part] = int((labels.sum(1) == 0).sum())
    return found


def _oddities(listed: _Listed, used: np.ndarray, cuts: bool) -> Iterator[Oddity]:
    def count(number: int, what: str = "image") -> str:
        return f"{number:,} {what}{'s' if number > 1 else ''}"

    if out := listed.left_out:
        what = f"{count(len(out))} cannot be used and left out"
        what = what.replace("used and", "used and is" if len(out) == 1 else "used and are")
        yield Oddity("left_out", True, what, "repair or remove them", out)
    part_of = np.full(len(listed.names), -1)
    for place, rows in enumerate(listed.rows.values()):
        part_of[rows] = place

    def told(kind: str, groups: list[np.ndarray], near: bool) -> Iterator[Oddity]:
        sorts: dict[str, list[list[str]]] = {"train_and_test": [], "labels": [], "copies": []}
        for group in groups:
            names = [listed.names[number] for number in group]
            several = listed.labels is not None and len(np.unique(listed.labels[group], axis=0)) > 1
            both = len(np.unique(part_of[group])) > 1
            sorts["labels" if several else "train_and_test" if both else "copies"].append(names)
        words = {
            "labels": ("with different labels", "correct the labels, or remove the copies"),
            "train_and_test": (
                "in training and test images both",
                "remove the copies from one of the two: the test images must be new to the model",
            ),
            "copies": ("within one split", "keep one of each"),
        }
        for sort, (where, to_do) in words.items():
            if found := sorts[sort]:
                images = count(sum(map(len, found)))
                what = f"{images} in {count(len(found), 'group')} {kind}, {where}"
                problem = not near and sort != "copies"
                yield Oddity(f"near_{sort}" if near else sort, problem, what, to_do, found)

    same, alike = _groups(listed.facts[used])
    yield from told("are exact copies", [used[group] for group in same], near=False)
    yield from told("look alike", [used[group] for group in alike], near=True)
    if listed.targets.classes and listed.labels is not None:
        yield from _classes(listed)
    lost = _lost(listed.facts[used])
    if cuts and (lost > 0.5).any():
        far = used[lost > 0.5]
        what = f"crop cuts away more than half of {count(len(far))}"
        names = [listed.names[number] for number in far[np.argsort(-lost[lost > 0.5])]]
        yield Oddity("cropped", False, what, "--set data.fit=pad keeps all of it", names)
    short = np.minimum(listed.facts["width"], listed.facts["height"])[used]
    if (tiny := used[short < np.median(short) / 4]).size:
        what = f"{count(len(tiny))} less than a quarter as large as usual"
        names = [listed.names[number] for number in tiny]
        yield Oddity("small", False, what, "look at them; find larger ones", names)
    for remark in listed.remarks:
        yield Oddity("remark", False, remark, "")


def _classes(listed: _Listed) -> Iterator[Oddity]:
    assert listed.labels is not None
    for part, rows in listed.rows.items():
        labels = listed.labels[rows]
        one = listed.targets.kind == CLASS
        counts = (
            np.bincount(labels, minlength=len(listed.targets.classes)) if one else labels.sum(0)
        )
        few = np.flatnonzero(counts < (FEW if part == "train" else 1))
        if few.size and len(rows):
            names = [f"{listed.targets.classes[i]}: {counts[i]}" for i in few]
            many = f"fewer than {FEW} training images" if part == "train" else "no test images"
            word = "1 class has" if len(few) == 1 else f"{len(few):,} classes have"
            kind = "few_images" if part == "train" else "untested"
            yield Oddity(kind, False, f"{word} {many}", "add some, or merge classes", names)


def _lost(facts: np.ndarray) -> np.ndarray:
    """The share of each image that lies outside of its largest square."""
    sides = np.stack([facts["width"], facts["height"]]).astype(float)
    return np.asarray(1 - sides.min(0) / np.maximum(sides.max(0), 1))


def _groups(facts: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Images of the same bytes, and images that look alike where not all have the same bytes."""
    _, exact = np.unique(facts["sha256"], axis=0, return_inverse=True)
    looks, which = np.unique(facts["look"], axis=0, return_inverse=True)
    first, second = alike(looks)
    near = np.arange(len(looks))
    while True:  # the lowest number in reach of each; a few rounds
        low = near.copy()
        np.minimum.at(low, first, near[second])
        np.minimum.at(low, second, low[first])
        low = low[low]
        if (low == near).all():
            break
        near = low
    plain = looks.std(1) < PLAIN
    by_look = [group for group in _members(near[which]) if not plain[which[group[0]]]]
    return _members(exact), [group for group in by_look if len(np.unique(exact[group])) > 1]


def _members(group: np.ndarray) -> list[np.ndarray]:
    """The places of each number that occurs more than once."""
    order = np.argsort(group, kind="stable")
    runs = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    return sorted((run for run in runs if len(run) > 1), key=lambda run: int(run[0]))


def alike(looks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of looks, uint8 (n, 64), whose correlation is at least ALIKE."""
    units = looks - looks.mean(1, keepdims=True, dtype=np.float32)
    units /= np.maximum(np.linalg.norm(units, axis=1, keepdims=True), PLAIN)
    # Two units are at most this far apart in any direction. Sorted along the one in which they
    # differ most, each has to be compared with its neighbours alone.
    reach = np.sqrt(2 * (1 - ALIKE))
    place = units @ np.linalg.eigh(units.T @ units)[1][:, -1]
    order = np.argsort(place)
    units, place = units[order], place[order]
    ends = np.searchsorted(place, place + reach, side="right")
    found = [np.empty((2, 0), np.int64)]
    step = 256
    with progress("comparing images", len(units)) as advance:
        for start in range(0, len(units), step):
            some = units[start : start + step]
            for left in range(start, ends[start + len(some) - 1], 16 * step):
                row, column = np.nonzero(some @ units[left : left + 16 * step].T >= ALIKE)
                pair = np.stack([row + start, column + left])
                found.append(pair[:, pair[0] < pair[1]])
            advance(len(some))
    first, second = order[np.concatenate(found, axis=1)]
    return first, second


def _sheets(
    folder: Path, listed: _Listed, odd: Sequence[Oddity], used: np.ndarray, cuts: bool
) -> list[Path]:
    """Draw groups side by side, the smallest images, and those that lose most when cropped."""
    number = {name: place for place, name in enumerate(listed.names)}
    written: list[Path] = []

    def draw(kind: str, title: str, numbers: Sequence[int], captions: Any, columns: Any) -> None:
        blank = np.full_like(listed.tile(int(used[0])), 255)
        tiles = np.stack([listed.tile(i) if i >= 0 else blank for i in numbers])
        written.extend(
            write_sheet(folder / f"{kind}.png", tiles, captions, columns=columns, title=title)
        )

    with os_errors(f"{folder} could not be written", DataError):
        for one in odd:
            if not one.images or not isinstance(one.images[0], list):
                continue
            across = min(4, max(map(len, one.images)))
            numbers, captions = [], []
            for place, names in enumerate(one.images[: ON_A_SHEET // across], 1):
                shown = [number[name] for name in names[:across]]
                numbers += shown + [-1] * (across - len(shown))
                texts = [f"{place}: {_short(name)}" for name in names[:across]]
                captions += texts + [""] * (across - len(shown))
            draw(one.kind, one.what, numbers, captions, across * (8 // across))
        facts = listed.facts[used]
        area = facts["width"].astype(np.int64) * facts["height"]
        lost = _lost(facts)
        if len(np.unique(area)) > 1:
            picked = np.argsort(area, kind="stable")[:ON_A_SHEET]
            texts = ["{} x {}".format(*sides) for sides in facts[["width", "height"]][picked]]
            draw("smallest", "the smallest images", used[picked].tolist(), texts, 8)
        if cuts and lost.any():
            picked = np.argsort(-lost, kind="stable")[:ON_A_SHEET]
            picked = picked[lost[picked] > 0]
            texts = [f"loses {percent(share)}" for share in lost[picked]]
            title = "images that crop cuts most, before that"
            draw("cropped", title, used[picked].tolist(), texts, 8)
    return written


def _short(name: str) -> str:
    """The end of a path, which tells images apart where there is little room."""
    return name.rpartition("/")[2]
