"""What a model says of very many images, written to a table: in blocks, killed at any time.

A block store beside the table keeps the scores; when all are there, they become rows. So the same
command goes on after a kill, and several processes that run it share the work. For `out.csv`:

    .out.csv.zoo/scores.*     the block store, while there are rows to compute
    .out.csv.zoo/done.json    what the finished table was made from
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.dataset import Split
from zoo_core.data.datasets import find_dataset, given_by, lasting, open_dataset
from zoo_core.data.images import Form, read_image
from zoo_core.data.loader import EVALUATION_BATCH, Loader
from zoo_core.data.originals import LeftOut, Originals, in_memory
from zoo_core.data.preprocess import Preprocess
from zoo_core.data.stores import Direct
from zoo_core.io import tensors
from zoo_core.io.blocks import BlockStore, Layout
from zoo_core.io.console import progress, say, typed
from zoo_core.io.documents import document_digest, read_document, write_document
from zoo_core.io.engine import Engine, Resources, check_shared, fill_together
from zoo_core.io.errors import DataError, Interrupted, UsageError, WeightsError, ZooError, os_errors
from zoo_core.io.files import locked
from zoo_core.io.process import Interruption, keep_freed_memory
from zoo_core.spec.registry import open_engine
from zoo_core.use.load import capability, loaded
from zoo_core.use.predict import answers_of, named_images, readable
from zoo_core.use.tables import check_format, flat, join_tables, part_name, write_table

FORMAT = 1  # of done.json
SMALL = 64  # pixels: of smaller images a block has many, because they are quick
BLOCKS = (8192, 512)  # images of a block; a kill loses at most one for each process
PART = re.compile(r"(\d{1,6})/(\d{1,6})")


@dataclass(frozen=True)
class Request:
    """What to predict; the same for every process that takes part."""

    run: str
    reference: str
    out: Path
    options: Mapping[str, Any] = field(default_factory=dict)  # of the data
    top: int = 1
    batch: int = 0  # 0: as in an evaluation
    embeddings: bool = False
    part: tuple[int, int] = (1, 1)  # the third of sixteen: (3, 16)
    device: str = "auto"
    runs: Path | None = None
    block: int = 0  # images that are kept together; 0: by their size

    @property
    def folder(self) -> Path:
        return self.out.with_name(f".{self.out.name}.zoo")


@dataclass(frozen=True)
class Predicted:
    """A table of predictions."""

    path: Path
    images: int
    broken: int  # rows with a reason instead of an answer


def predict_many(
    run: str,
    reference: Any,
    out: str | Path,
    *,
    options: Mapping[str, Any] | None = None,
    top: int = 3,
    batch: int = 0,
    embeddings: bool = False,
    part: str = "",
    join: bool = False,
    device: str = "auto",
    workers: int = 1,
    engine: str = "local",
    address: str = "",
    resources: Mapping[str, float] | None = None,
    retries: int = 3,
    runs: Path | None = None,
) -> Predicted:
    """Predictions for all images of a dataset, as a .parquet, .csv or .jsonl file.

        zoo.predict_many("cnn", "photos/", "photos.parquet", top=3)

    run: a run or weights. reference: a folder, a table, a dataset; options: of the data. The same
    call continues after an interruption, and several processes that make it share the work.
    part: "3/16" computes the third of sixteen parts, for jobs without a common disk; join: put
    the parts together. embeddings: add what the model's features capability gives.
    """
    given, out = PART.fullmatch(part or "1/1"), Path(out)
    number, parts = map(int, given.groups()) if given else (0, 0)
    if not 1 <= number <= parts:
        raise UsageError(f"part {part!r} does not name a part", "3/16 is the third of sixteen")
    check_format(out)
    if top < 1 or batch < 0 or workers < 1:
        raise UsageError("top, batch and workers must be at least 1")
    how = {"resources": Resources.of(resources), "retries": retries}
    named_images(run, ())  # refuses an image in place of the model
    if join:
        return Predicted(out, *join_tables(out))
    if isinstance(reference, str) and Path(reference).exists():
        reference = str(Path(reference).absolute())  # as `zoo predict` takes it: also without ./
    find_dataset(reference, options)  # a wrong name is noticed before anything is loaded
    if parts > 1:
        out = part_name(out, number, parts)
    asked = Request(
        str(run), reference, out, options or {}, top, batch, embeddings, (number, parts), device,
        runs,
    )  # fmt: skip
    work = Work(asked)
    with os_errors(
        f"{out} could not be written", ZooError, "choose a folder that this user may write to",
        "free disk space, then: the same command continues; finished blocks are kept",
    ):  # fmt: skip
        if done := work.finished():
            say(f"{out} is complete")
            return done
        try:
            if workers == 1 and engine == "local":
                work.fill()
            else:
                _fill_elsewhere(asked, work, open_engine(engine, workers, address), how)
        except FileNotFoundError:  # another command has written the table, and removed the store
            if not work.finished():
                raise
        return work.finish()


def fill_piece(given: tuple[Request, Path], arrays: Any, report: Callable[[Any], None]) -> None:
    """A piece of work of an engine: compute blocks until none is left."""
    asked, mark = given
    check_shared(mark)
    Work(asked).fill(report)


def _fill_elsewhere(asked: Request, work: Work, engine: Engine, how: Mapping[str, Any]) -> None:
    asked = replace(
        asked, reference=lasting(asked.reference), out=asked.out.absolute(),
        runs=asked.runs and asked.runs.absolute(), block=work.store.block_rows,
    )  # fmt: skip
    begun = work.store.progress()
    left = begun.rows - begun.done if begun and begun.key == work.key else len(work.rows)
    target = f"{__name__}:fill_piece"
    fill_together(engine, target, asked, asked.folder / "workers", how, "predicting", left)


class Work:
    """A request with its images and, once it is needed, its model."""

    def __init__(self, asked: Request) -> None:
        self.asked = asked
        self.model = loaded(asked.run, asked.runs, asked.device)
        about = self.model.zoo
        self.framework, self.answers = about.framework, answers_of(self.model)
        self.images = open_images(asked.reference, asked.options, about.preprocess)
        number, parts = asked.part
        count = len(self.images.names)
        # Parts and blocks begin with a batch, so that the same images are computed together in any
        # division: the last digits of a network depend on that.
        batches = -(-count // self.batch)
        ends = [min(count, self.batch * (batches * n // parts)) for n in (number - 1, number)]
        self.rows = range(*ends)
        # What cannot be scored at all belongs to the last part.
        self.left_out = self.images.left_out if number == parts else ()
        if not count:
            raise DataError(f"{asked.reference} has no images")
        self.embed = capability(about.entry, "features") if asked.embeddings else None
        small = about.preprocess.size <= SMALL
        block = asked.block or self.batch * max(1, BLOCKS[not small] // self.batch)
        self.store = BlockStore(asked.folder / "scores.safetensors", block)

    @cached_property
    def batch(self) -> int:
        return self.asked.batch or min(EVALUATION_BATCH, self.model.zoo.preprocess.at_once)

    @cached_property
    def key(self) -> dict[str, Any]:
        """All that decides the rows; threads and processor may change the last digits."""
        about, asked = self.model.zoo, self.asked
        return {
            "weights": about.digest,
            "preprocess": about.preprocess.to_dict(),
            "targets": document_digest(about.targets.to_dict()),
            "images": document_digest(self.images.key),
            "batch": self.batch,
            "block": self.store.block_rows,
            "embeddings": asked.embeddings,
            "top": asked.top,
            "part": list(asked.part),
        }

    def finished(self) -> Predicted | None:
        """The table, if it is there and was made from this; a refusal if from something else."""
        out, done = self.asked.out, self.asked.folder / "done.json"
        if not out.exists():
            return None
        known = read_document(done, FORMAT) if done.exists() else {}
        if known.get("key") != self.key:
            then = known.get("key", {})
            other = [name for name, value in self.key.items() if then.get(name) != value]
            made = f"with other {' and '.join(other)}" if known else "by something else"
            what = f"{out} already exists and was made {made}"
            raise UsageError(what, f"choose another name, or delete it: {typed('rm', out)}")
        if self.store.progress():
            self.store.remove()  # a kill left it
        return Predicted(out, known["images"], known["broken"])

    def fill(self, told: Callable[[int], None] | None = None) -> None:
        """Compute the blocks that nobody has computed; told: gets the number of images."""
        keep_freed_memory()
        self.asked.folder.mkdir(parents=True, exist_ok=True)
        if (begun := self.store.progress()) and begun.key != self.key:
            say(f"Starting over: {self.asked.out} began with other weights, images or options.")
        waiting = lambda: say("other processes compute the rest; waiting")  # noqa: E731
        sizes = {"scores": 4 * self.answers.size, "embeddings": 4 * self._width, "broken": 1}
        specs = {name: ("uint8", (len(self.rows), size)) for name, size in sizes.items()}
        layout = Layout(
            key=self.key,
            rows=len(self.rows),
            row_bytes=list(sizes.values()),
            before=tensors.header_bytes(specs, json.dumps(self.key), aligned=64),
            about={"made_with": self.framework.environment(self.asked.device)},
            by_blocks=True,
        )
        with self.store.writing(layout, waiting) as writer:
            if self.finished():  # meanwhile
                return
            left = writer.progress.rows - writer.progress.done
            with Interruption() as interruption, progress("predicting", left) as advance:
                for block in writer:
                    where = writer.rows(block)
                    parts: list[tuple[np.ndarray, ...]] = []
                    for found in self._scored(self.rows[where.start : where.stop]):
                        parts.append(found)
                        (told or advance)(len(found[0]))
                        if interruption.signal:
                            writer.settle()  # so that the block before this one counts
                            raise Interrupted(
                                f"stopped after {writer.progress.done:,} of {len(self.rows):,} "
                                "images; their predictions are kept",
                                "the same command continues", interruption.signal,
                            )  # fmt: skip
                    arrays = (np.concatenate(array) for array in zip(*parts, strict=True))
                    writer.commit_behind(block, (a for a in arrays if a.nbytes))

    @cached_property
    def _width(self) -> int:
        """Numbers of an embedding."""
        if not self.embed:
            return 0
        preprocess = self.model.zoo.preprocess
        side, channels = preprocess.stored_size, preprocess.stored_channels
        probe = preprocess.batch(
            [np.zeros((side, side, channels), np.uint8)], backend=self.framework.backend
        )
        return int(self._embedded(probe).shape[1])

    def _embedded(self, images: Any) -> np.ndarray:
        assert self.embed is not None
        found = np.asarray(self.embed(self.model, images), np.float32)
        if found.ndim != 2 or not np.isfinite(found).all():
            what = f"the features of model {self.model.zoo.entry.name!r}"
            raise WeightsError(f"{what} must be a row of finite numbers for each image")
        return found

    def _scored(self, rows: range) -> Iterator[tuple[np.ndarray, ...]]:
        """Scores, embeddings and whether it is broken, of some images: a batch at a time."""
        loader = Loader(
            self.images.split, batch_size=self.batch, preprocess=self.model.zoo.preprocess,
            indices=np.arange(rows.start, rows.stop), shuffle=False, backend=self.framework.backend,
        )  # fmt: skip
        for batch in loader.epoch(0):
            scores = readable(self.model, batch.images)
            features = np.empty((len(batch), 0), np.float32)
            if self.embed:
                features = self._embedded(batch.images)
            broken = self.images.broken[batch.indices]
            yield scores.astype("<f4"), features.astype("<f4"), broken.astype(np.uint8)

    def finish(self) -> Predicted:
        """Write the table, once, whichever process comes first."""
        asked = self.asked
        with locked(asked.out):
            if done := self.finished():
                return done
            done = self._write()
            self.store.remove()
        return done

    def _write(self) -> Predicted:
        asked, file = self.asked, self.store.open()
        if file is None:
            raise ZooError(
                f"{asked.out} is not complete: no worker could finish its images",
                "the same command continues",
            )
        with file:
            arrays = tensors.read_arrays(file, tensors.read_header(file), mapped=True)
        scores = arrays["scores"].view("<f4")
        embeddings = arrays["embeddings"].view("<f4") if self._width else None
        broken = arrays["broken"][:, 0].astype(bool)
        plain = self.answers.answer(self._row(scores[:1]), asked.top)
        count = len(self.rows) + len(self.left_out)
        done = Predicted(asked.out, count, int(broken.sum()) + len(self.left_out))
        told = {"key": self.key, "images": done.images, "broken": done.broken}
        # Before the table: a table without it would be somebody else's.
        write_document(asked.folder / "done.json", {"format": FORMAT, **told})
        write_table(asked.out, self._rows(scores, embeddings, broken), flat(plain), self._width)
        return done

    def _row(self, scores: np.ndarray) -> np.ndarray:
        return np.zeros(self.answers.size) if not len(scores) else scores[0].astype(np.float64)

    def _rows(
        self, scores: np.ndarray, embeddings: np.ndarray | None, broken: np.ndarray
    ) -> Iterator[dict[str, Any]]:
        names = self.images.names
        for place, row in enumerate(self.rows):
            if broken[place]:
                yield {"image": names[row], "error": self.images.reason(row)}
                continue
            answer = self.answers.answer(scores[place].astype(np.float64), self.asked.top)
            more = {} if embeddings is None else {"embedding": embeddings[place].tolist()}
            yield {"image": names[row], **answer, **more}
        yield from ({"image": name, "error": reason} for name, reason in self.left_out)


@dataclass(frozen=True)
class Images:
    """All images of a reference, none of them decoded yet where they are files."""

    names: Sequence[str]
    split: Split
    key: Any  # JSON: when it changes, these are other images
    left_out: Sequence[LeftOut] = ()

    @property
    def broken(self) -> np.ndarray:
        """Whether an image could not be decoded, of those that somebody asked for."""
        store = self.split.images
        return store.broken if isinstance(store, Decoded) else np.zeros(len(self.names), bool)

    def reason(self, row: int) -> str:
        try:
            store = self.split.images
            read_image(in_memory(store.originals, row), store.form)
        except DataError as error:
            return str(error)
        return f"{self.names[row]} could not be read"


class Decoded(Direct):
    """Images that are decoded when somebody asks for them; a broken one is black, and noted."""

    def __init__(self, originals: Originals, form: Form) -> None:
        super().__init__(originals, form, np.arange(len(originals)))
        self.broken = np.zeros(len(originals), bool)

    def read(self, row: int) -> np.ndarray:
        try:
            return super().read(row)
        except DataError:
            self.broken[row] = True
            return np.zeros(self.shape[1:], np.uint8)


def open_images(reference: Any, options: Mapping[str, Any], preprocess: Preprocess) -> Images:
    """All images that a reference means, whatever their split."""
    choice = find_dataset(reference, options)
    if choice.entry.originals:
        made = given_by(choice)
        assert isinstance(made, Originals)
        form = Form(preprocess.stored_size, preprocess.stored_channels, preprocess.fit)
        split = Split(Decoded(made, form), None)
        return Images(made.names, split, [made.key, *form], made.left_out)
    data = open_dataset(reference, options, fit=preprocess.fit)
    splits = {"train": data.train, **({"test": data.test} if data.test else {})}
    names = [f"{part} {n}" for part, split in splits.items() for n in range(1, len(split) + 1)]
    every = [split.images for split in splits.values()]
    images = every[0] if len(every) == 1 else np.concatenate(every)
    return Images(names, Split(images, None), data.digest)
