"""What is in a dataset and what is odd about it: `zoo data check`.

The facts come from one pass over the images, which the core makes and keeps. What is certain,
such as a broken file or a test image that is a training image too, is a problem; what only looks
like one is a remark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo import kit

# Images look alike if their looks correlate so much: copies that were saved again, resized,
# brightened or made grey do. 30 of 30 pairs that CIFAR-10 has above 0.99 are one photograph, of
# those from 0.98 to 0.985 two in three.
ALIKE = 0.99
PLAIN = 2.0  # levels: images that vary less look like each other, whatever they show
FEW = 10  # training images of a class
TILES = 48  # images on a sheet
SAME = {  # what copies are like -> in which images, what to do
    "labels": ("with different labels", "correct the labels, or remove the copies"),
    "train_and_test": ("in both training and test images", "remove them from one of the two"),
    "copies": ("within one split", "keep one of each"),
}


@dataclass(frozen=True)
class Oddity:
    """Something odd, the images that it is about, and what to do."""

    kind: str
    problem: bool  # False: a remark
    what: str
    to_do: str = ""
    images: Sequence[Any] = ()  # names; pairs of a name and a reason; lists of names that are alike


@dataclass(frozen=True)
class DataCheck:
    """What `zoo.check_data` found: facts about the images, and what is odd about them."""

    name: str
    images: Mapping[str, int]  # usable ones of each split
    targets: str
    facts: Mapping[str, Any]  # sizes, formats, how many images each label has
    odd: Sequence[Oddity]
    sheets: Sequence[Path] = ()

    @property
    def ok(self) -> bool:
        """Whether there are no problems; there may be remarks."""
        return not any(one.problem for one in self.odd)

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


def check_data(
    reference: str | Path,
    options: Mapping[str, Any] | None = None,
    /,
    *,
    sheets: str | Path | None = None,
    report: Callable[[str], None] = kit.say,
    **more: Any,
) -> DataCheck:
    """Look for broken images, copies, labels that differ, and training images among test images.

        found = zoo.check_data("./my_images")
        found.ok, found.facts, found.odd

    reference, options, more: as for `zoo.open_dataset`. sheets: a folder for sheets of odd images.
    """
    listed = kit.list_images(reference, {**(options or {}), **more}, report)
    used = np.sort(np.concatenate([*listed.splits.values()]))
    facts = listed.facts[used]
    sides = np.stack([facts["width"], facts["height"]]).astype(np.int64)
    lost = 1 - sides.min(0) / np.maximum(sides.max(0), 1)  # outside of the largest square
    cut = listed.fit == "crop" and lost.any()
    odd = [*_oddities(listed, used, sides.min(0), lost * cut)]
    places = {"smallest": 0, "median": 0.5, "largest": 1} if len(used) else {}
    by_area = sides[:, np.argsort(sides.prod(0), kind="stable")].T.tolist()
    formats = Counter(listed.formats[place] for place in facts["format"].tolist())
    return DataCheck(
        name=listed.name,
        images={part: len(rows) for part, rows in listed.splits.items()},
        targets=str(listed.targets),
        facts={
            "sizes": {name: by_area[int(at * (len(used) - 1))] for name, at in places.items()},
            "crop_loses": {"mean": float(lost.mean()), "most": float(lost.max())} if cut else {},
            "formats": dict(formats.most_common()),
            "grey": int(np.count_nonzero(facts["grey"])),
            "labels": _labels(listed),
        },
        odd=odd,
        sheets=_sheets(Path(sheets), listed, odd) if sheets else (),
    )


def _labels(listed: kit.Listed) -> dict[str, dict[str, Any]]:
    """For each class how many images have it; for each number its least, median and largest."""
    told: dict[str, dict[str, Any]] = {name: {} for name in listed.targets.names}
    for part, rows in listed.splits.items() if told else ():
        labels = np.asarray(listed.labels)[rows]
        if listed.targets.kind == "class":
            found = np.bincount(labels, minlength=len(told))
        elif listed.targets.kind == "numbers":
            found = np.quantile(labels, (0, 0.5, 1), axis=0).T if len(labels) else labels.T
        else:
            found = labels.sum(0, dtype=np.int64)
        for name, value in zip(told, found.tolist(), strict=True):
            told[name][part] = value
    return told


def _oddities(
    listed: kit.Listed, used: np.ndarray, short: np.ndarray, lost: np.ndarray
) -> Iterator[Oddity]:
    if out := listed.left_out:
        yield Oddity("broken", True, f"{_n(out)} that cannot be used", "repair or remove them", out)
    exact, near = _groups(listed.facts["sha256"][used], listed.looks[used])
    yield from _copies("", "identical images", listed, [used[group] for group in exact])
    yield from _copies("near_", "images that look alike", listed, [used[group] for group in near])
    if listed.targets.classes:
        labels = _labels(listed)
        for part, least, how in (
            ("train", FEW, f"with fewer than {FEW} training images"),
            ("test", 1, "without test images"),
        ):
            if len(listed.splits.get(part, ())):
                counts = {name: found[part] for name, found in labels.items()}
                if few := [f"{name}: {n}" for name, n in counts.items() if n < least]:
                    what = f"{_n(few, 'class', 'classes')} {how}"
                    yield Oddity(f"few_{part}", False, what, "add images, or merge classes", few)
    whole = "--set data.fit=pad keeps whole images"
    tiny = short * 4 < (np.median(short) if short.size else 0)
    for kind, mask, worst, what, to_do in (
        ("cropped", lost > 0.5, -lost, "cut by more than half", whole),
        ("small", tiny, short, "far smaller than the others", ""),
    ):
        order = np.argsort(worst, kind="stable")
        if names := [listed.names[number] for number in used[order][mask[order]]]:
            yield Oddity(kind, False, f"{_n(names)} {what}", to_do, names)
    for remark in listed.remarks:
        yield Oddity("remark", False, remark)


def _copies(near: str, what: str, listed: kit.Listed, groups: list[np.ndarray]) -> Iterator[Oddity]:
    """Groups of copies, sorted by what is worst about them."""
    found: dict[str, list[list[str]]] = {sort: [] for sort in SAME}
    test = np.isin(np.arange(len(listed.names)), listed.splits.get("test", ()))
    for group in groups:
        if listed.labels is not None and np.ptp(listed.labels[group], axis=0).any():
            sort = "labels"
        else:
            sort = "train_and_test" if np.ptp(test[group].astype(int)) else "copies"
        found[sort].append([listed.names[number] for number in group])
    for sort, (where, to_do) in SAME.items():
        if some := found[sort]:
            told = f"{_n(some, 'group')} of {what} {where} ({sum(map(len, some)):,} in all)"
            yield Oddity(near + sort, not near and sort != "copies", told, to_do, some)


def _n(found: Sequence[Any], one: str = "image", many: str = "") -> str:
    return f"{len(found):,} {one if len(found) == 1 else many or one + 's'}"


def _groups(digests: np.ndarray, looks: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Images of the same bytes; images that look alike, where not all have the same bytes."""
    exact = np.unique(digests, axis=0, return_inverse=True)[1]
    looks, which = np.unique(looks, axis=0, return_inverse=True)
    lowest = connected(alike(looks), len(looks))
    plain = looks.std(1)[which] < PLAIN
    near = [g for g in members(lowest[which]) if np.ptp(exact[g]) and not plain[g].any()]
    return members(exact), near


def connected(pairs: np.ndarray, count: int) -> np.ndarray:
    """For each of so many things the lowest that it can reach by these pairs (2, m)."""
    first, second = pairs
    lowest, before = np.arange(count), np.arange(0)
    while not np.array_equal(lowest, before):
        before = lowest.copy()
        np.minimum.at(lowest, first, before[second])
        np.minimum.at(lowest, second, before[first])
        lowest = lowest[lowest]
    return lowest


def members(group_of: np.ndarray) -> list[np.ndarray]:
    """The members of each group that has several."""
    order = np.argsort(group_of, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(group_of[order])) + 1)
    return sorted((group for group in groups if len(group) > 1), key=lambda group: group[0])


def alike(looks: np.ndarray, step: int = 256) -> np.ndarray:
    """The pairs (2, m) of different looks, uint8 (n, 64), that correlate by ALIKE or more."""
    units = looks - looks.mean(1, keepdims=True, dtype=np.float32)
    units /= np.maximum(np.linalg.norm(units, axis=1, keepdims=True), PLAIN)
    # Partners are this near to each other in any direction: sorted along the one in which all
    # differ most, each is compared with its neighbours alone.
    reach = (2 - 2 * ALIKE) ** 0.5
    along = units @ np.linalg.eigh(units.T @ units)[1][:, -1]
    order = np.argsort(along)
    units, along = units[order], along[order]
    ends = np.searchsorted(along, along + reach, side="right")
    pairs = [np.empty((2, 0), np.int64)]
    with kit.progress("comparing images", len(units)) as advance:
        for start in range(0, len(units), step):
            some = units[start : start + step]
            for left in range(start, ends[start + len(some) - 1], 16 * step):  # fits a cache
                found = np.nonzero(some @ units[left : left + 16 * step].T >= ALIKE)
                pair = np.stack((found[0] + start, found[1] + left))
                pairs.append(pair[:, pair[0] < pair[1]])
            advance(len(some))
    return np.asarray(order[np.concatenate(pairs, axis=1)])


def short_name(name: str) -> str:
    """The last part of an image's name, which fits below it."""
    return name.rpartition("/")[2]


def where(listed: kit.Listed, number: int) -> str:
    """The split and the label of an image."""
    part = next(part for part, rows in listed.splits.items() if number in rows)
    told = "" if listed.labels is None else listed.targets.caption(listed.labels[number])
    return f"{part} {told}".rstrip()


def _sheets(folder: Path, listed: kit.Listed, odd: Sequence[Oddity]) -> list[Path]:
    """A sheet for each oddity that one can see: two images of each group, or each image."""
    number = {name: place for place, name in enumerate(listed.names)}
    written: list[Path] = []
    for one in odd:
        picked, captions = [], []
        if one.images and isinstance(one.images[0], list):
            for place, names in enumerate(one.images[: TILES // 2], 1):
                first, *others = (number[name] for name in names)
                unlike = (i for i in others if where(listed, i) != where(listed, first))
                picked += [first, next(unlike, others[0])]
                captions += [
                    f"{place}: {where(listed, i)}\n{short_name(listed.names[i])}"
                    for i in picked[-2:]
                ]
        elif one.kind in ("cropped", "small"):
            picked = [number[name] for name in one.images[:TILES]]
            sizes = ["{} x {}".format(*listed.facts[i][["width", "height"]]) for i in picked]
            captions = [
                f"{size}\n{short_name(listed.names[i])}"
                for size, i in zip(sizes, picked, strict=True)
            ]
        if picked:
            tiles = np.stack([listed.tile(i) for i in picked])
            path = folder / f"{one.kind}.png"
            with kit.os_errors(f"{path} could not be written", zoo.DataError):
                written += kit.write_sheet(path, tiles, captions, columns=8, title=one.what)
    return written
