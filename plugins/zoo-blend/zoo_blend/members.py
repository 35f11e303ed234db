"""The members of an ensemble, and what they say of images: computed once, block by block.

What a run says of its test images stands in its folder. Everything else is kept in the cache
`blend`, in a block store for each member and each set of images.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo import kit

BLOCK = 1024  # images that are kept together: a kill loses at most these
BATCH = 256
DECIDES = ("seed", "subset", "validation_fraction")  # what says which images a run trained on


@dataclass(frozen=True, eq=False)
class Member:
    """A run or weights, and the images that it was trained for."""

    name: str
    digest: str  # sha256 of its weights
    located: Any  # what kit.locate gives
    data: zoo.Dataset
    run: kit.Run | None = None
    recipe: zoo.Recipe | None = None  # as far as it decides what it trained on; None: unknown
    device: str = "auto"
    runs: Path | None = None

    @property
    def title(self) -> str:
        """What run.json calls it: the model and its weights."""
        return f"{self.located.model.rpartition('/')[2]}@{self.digest}"

    def test(self) -> kit.Predictions:
        """What it says of the test images: stored in its run, or computed once."""
        if self.run and self.run.predictions_file.exists():
            try:
                return kit.read_predictions(self.run)
            except (OSError, ValueError, KeyError) as error:
                what = f"{self.run.predictions_file} cannot be read: {kit.describe(error)}"
                raise zoo.ZooError(what, "zoo train makes such a run again") from error
        split = self.data.test
        if split is None or split.labels is None:
            what = f"{self.data.name} has no labelled test images to measure {self.name} on"
            raise zoo.UsageError(what, "name runs whose dataset has test images")
        values = self.said("test", np.arange(len(split)))
        names = list(split.names)
        return kit.Predictions(values, split.labels, names, self.data.targets, self.data.digest)

    def unseen(self) -> np.ndarray:
        """Which training images of the dataset it did not train on."""
        found = np.ones(len(self.data.train), bool)
        if self.recipe is None:
            return ~found
        if self.run and self.located.run["dataset"]["digest"] != self.data.digest:
            what = f"the images of {self.data.name} have changed since {self.name} was trained"
            raise zoo.DataError(what, "train it again, or bring the images back")
        found[self.data.parts(self.recipe)[0]] = False
        return found

    def said(self, split: str, rows: np.ndarray) -> np.ndarray:
        """Probabilities (rows, classes) of some images of a split, in the dataset's order."""
        key = {
            "weights": self.digest, "data": self.data.digest, "split": split,
            "preprocess": dict(self.located.preprocess), "temperature": self.located.temperature,
            "rows": hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest(),
        }  # fmt: skip
        classes = len(self.data.classes)
        model = self.located.model.rpartition("/")[2]
        name = f"{model}-{self.data.name}-{split}-{kit.document_digest(key)[:16]}.bin"
        store = kit.BlockStore(kit.cache_dir("blend") / _plain(name), block_rows=BLOCK)
        file = None
        with suppress(zoo.DataError):  # damaged: what is sound in it is kept
            file = store.open()
        if file is None:
            layout = kit.Layout(key=key, rows=len(rows), row_bytes=4 * classes)
            try:
                self._fill(store, layout, split, rows)
            except KeyboardInterrupt as error:
                what = f"stopped while {self.name} looked at {split} images"
                raise zoo.Interrupted(what, "the same command continues") from error
            file = store.open()
        assert file is not None
        store.used()
        with file:
            return np.frombuffer(file.read(), "<f4").reshape(len(rows), classes)

    def _fill(
        self, store: kit.BlockStore, layout: kit.Layout, split: str, rows: np.ndarray
    ) -> None:
        answer, label = None, f"{self.name}, {split} images"
        with store.writing(layout) as writer, kit.progress(label, len(rows)) as advance:
            advance(writer.progress.done)
            for block in writer:
                answer = answer or self._answers(split)
                part = rows[list(writer.rows(block))]
                writer.commit(block, np.ascontiguousarray(answer(part), "<f4"))
                advance(len(part))

    def _answers(self, split: str) -> Callable[[np.ndarray], np.ndarray]:
        """What gives the probabilities of some images; loads the model."""
        reference = str(self.run.path) if self.run else self.located.reference
        model = kit.loaded(reference, self.runs, self.device)
        missing = [one for one in self.data.classes if one not in model.zoo.classes]
        if missing:
            what = f"{self.name} does not know {', '.join(missing[:5])} of {self.data.name}"
            raise zoo.UsageError(what, "name runs that learned the same classes")
        places = [model.zoo.classes.index(one) for one in self.data.classes]
        preprocess, images = model.zoo.preprocess, self.data.split(split)
        assert images is not None
        # A frozen backbone has seen every image already: its features are in their cache.
        kept = model.zoo.framework.score_split(model, preprocess, self.data, split)
        everything = kit.answers_of(model).values(kept[0]) if kept else None

        def answer(rows: np.ndarray) -> np.ndarray:
            if everything is not None:
                found = everything[rows]
            else:
                loader = kit.Loader(
                    images, batch_size=BATCH, preprocess=preprocess, indices=rows, shuffle=False,
                    backend=model.zoo.framework.backend,
                )  # fmt: skip
                parts = [kit.readable(model, batch.images) for batch in loader.epoch(0)]
                found = np.concatenate(parts)
            found = found[:, places]
            return np.asarray(found / found.sum(1, keepdims=True))

        return answer


def find_members(
    references: Iterable[str | Path], device: str = "auto", runs: Path | None = None
) -> list[Member]:
    """What people name, sweeps as their runs: each once, all for the same images."""
    found: dict[str, Member] = {}
    opened: dict[str, zoo.Dataset] = {}
    for reference in (one for given in references for one in _every(str(given), runs)):
        located = kit.locate(reference, runs)
        run = kit.Run(located.path.parent) if located.run else None
        name = run.name if run else reference
        if not located.dataset:
            what = f"{name} does not say what it was trained on"
            raise zoo.UsageError(what, "name a run, or weights of zoo list --weights")
        first = next(iter(found.values()), None)
        if first and first.located.dataset != located.dataset:
            raise _unlike(first, name)
        fit = located.preprocess.get("fit", "")
        key = kit.document_digest([located.dataset, dict(located.data_options), fit])
        if key not in opened:
            opened[key] = zoo.open_dataset(located.dataset, located.data_options, fit=fit)
        data = opened[key]
        if data.targets.kind != "class" or list(located.targets):
            what = f"{name} does not say one class of an image, and only such models are blended"
            raise zoo.UsageError(what, "zoo compare shows any models side by side")
        digest = located.sha256 or kit.file_digest(located.path)
        recipe = _recipe(located, reference)
        found[digest] = Member(name, digest, located, data, run, recipe, device, runs)
    members = [*found.values()]
    for one in members[1:]:
        if not _same_training(members[0].data, one.data):
            raise _unlike(members[0], one.name)
    return members


def _every(reference: str, runs: Path | None) -> list[str]:
    """The runs of a sweep or of a repetition; of anything else the reference itself."""
    for folder in (kit.runs_root(runs) / reference, Path(reference)):
        if found := sorted(folder.glob("trials/*/run.json")):
            return [str(one.parent) for one in found]
    return [reference]


def _same_training(one: zoo.Dataset, other: zoo.Dataset) -> bool:
    """Whether the rows of both are the same images, perhaps at another size."""
    ours, theirs = one.train.labels, other.train.labels
    if ours is None or theirs is None or one.classes != other.classes:
        return False
    if not np.array_equal(ours, theirs):
        return False
    return one.digest == other.digest or (
        one.name == other.name and [*one.train.names] == [*other.train.names] != []
    )


def _unlike(one: Member, other: str) -> zoo.UsageError:
    what = f"{one.name} and {other} were trained for different images"
    return zoo.UsageError(what, f"name models of {one.located.dataset} only")


def _recipe(located: Any, reference: str) -> zoo.Recipe | None:
    weights = None if located.run else kit.published(reference)
    given: Mapping[str, Any] | None = located.run.get("recipe") if located.run else None
    if weights is not None:
        given = weights.recipe
    if given is None:
        return None
    return zoo.Recipe(**{name: given[name] for name in DECIDES if name in given})


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in name)
