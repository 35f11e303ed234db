"""Where stored images are: in memory, in a mapped pack, or in files that are decoded each time.

All three are used alike, as an array is: `len`, `shape` and `images[numbers]`; all give the same
bytes. Which one is used follows from the size of the images, the memory and the disk.
"""

from __future__ import annotations

import hashlib
import shutil
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from zoo_core.data.dataset import Dataset, Split, check_digests, new_dataset
from zoo_core.data.images import Form, read_image
from zoo_core.data.originals import RULES, THREADS, LeftOut, Originals, form_of, in_memory
from zoo_core.data.packs import Pack, mapped
from zoo_core.data.targets import digest_of_targets
from zoo_core.io.console import size, warn
from zoo_core.io.documents import document_digest
from zoo_core.io.errors import DataError
from zoo_core.io.process import total_memory
from zoo_core.spec.entries import DatasetEntry
from zoo_core.spec.recipe import check_rules

SHARE = 8  # images are read into memory if they take at most 1/8 of it
SPARE_DISK = 1 << 30  # bytes that a pack leaves free


class Stored(ABC):
    """Images that are not in memory; rows: the numbers of those that count."""

    kind: ClassVar[str]
    dtype = np.dtype(np.uint8)
    threads = THREADS  # that decode; 1 for a loader whose own threads make whole batches

    def __init__(self, form: Form, rows: np.ndarray) -> None:
        self.form, self.rows = form, rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self), self.form.size, self.form.size, self.form.channels

    def __getitem__(self, which: Any) -> np.ndarray:
        """uint8 (B, size, size, channels), or one image; which: whatever an array takes."""
        rows = self.rows[which]
        images = self.take(np.atleast_1d(rows))
        return images if np.ndim(rows) else images[0]

    def part(self, which: np.ndarray) -> Stored:
        """Some of the images, still not in memory."""
        some = copy(self)
        some.rows = self.rows[which]
        return some

    @abstractmethod
    def take(self, rows: np.ndarray) -> np.ndarray:
        """The images with these numbers."""


class Mapped(Stored):
    """Images of a pack; all processes of a machine share the pages of its file."""

    kind = "packed"

    def __init__(self, path: Path, form: Form, rows: np.ndarray) -> None:
        super().__init__(form, rows)
        self.path = path
        self._pixels = mapped(path).pixels

    def __reduce__(self) -> tuple[Any, ...]:
        return Mapped, (self.path, self.form, self.rows)

    def take(self, rows: np.ndarray) -> np.ndarray:
        return self._pixels.take(rows, axis=0).reshape(len(rows), *self.shape[1:])


class Direct(Stored):
    """Images that are decoded whenever somebody asks for them."""

    kind = "direct"

    def __init__(self, originals: Originals, form: Form, rows: np.ndarray) -> None:
        super().__init__(form, rows)
        self.originals = originals

    def take(self, rows: np.ndarray) -> np.ndarray:
        found = np.empty((len(rows), *self.shape[1:]), np.uint8)

        def read(place: int) -> None:
            found[place] = self.read(int(rows[place]))

        if self.threads == 1:
            for place in range(len(rows)):
                read(place)
            return found
        with ThreadPoolExecutor(self.threads) as pool:
            deque(pool.map(read, range(len(rows))), 0)
        return found

    def read(self, row: int) -> np.ndarray:
        """One image, decoded."""
        return read_image(in_memory(self.originals, row), self.form)


def open_originals(
    name: str,
    entry: DatasetEntry,
    options: Mapping[str, Any],
    originals: Originals,
    report: Callable[[str], None],
) -> Dataset:
    """Originals as a dataset; those that cannot be decoded are left out, and named."""
    check_rules(f"dataset {name!r}", options, RULES)
    # Folders of one name have packs of their own, and a commit has one, however it was named.
    label = originals.reference or str(options.get("path") or name)
    form = form_of(originals, options["image_size"], options["channels"], options["fit"])
    store = options["store"]
    if store == "auto":
        store = _choose(Pack(label, originals, form))
    pack = Pack(label, originals, form, pixels=store != "direct")
    facts = pack.content(report, trusted=store == "packed").facts.copy()
    if store != "memory":
        room = size(Pack(label, originals, form).bytes)
        where = {"packed": f"read from {pack.store.path}", "direct": "decoded at every use"}[store]
        report(f"{name}: {room} of images are not kept in memory, but {where}")
    for remark in originals.remarks:
        report(f"{name}: {remark}")
    left_out = (*originals.left_out, *broken(originals, form, facts))
    if left_out:
        what = f"{name}: {len(left_out):,} of {len(originals) + len(originals.left_out):,} images "
        if options["strict"] or facts["broken"].all():
            raise DataError(f"{what}cannot be used; {left_out[0].reason}", "repair or remove them")
        warn(f"{what}are left out; {left_out[0].reason}")
    targets, every = originals.targets()
    digests = digest_of_targets(targets)
    splits: dict[str, Split] = {}
    for part, rows in originals.divided(options["test_fraction"], options["seed"]).items():
        rows = rows[facts["broken"][rows] == 0]
        direct = store == "direct"
        images = Direct(originals, form, rows) if direct else Mapped(pack.store.path, form, rows)
        labels = None if every is None else every[rows]
        names = tuple(originals.names[row] for row in rows)
        digests[f"{part}_images"] = _digest(facts["sha256"][rows])
        if labels is not None:
            digests[f"{part}_labels"] = _digest(labels)
        splits[part] = Split(images[:] if store == "memory" else images, labels, names)
    check_digests(digests, entry.digests)
    digest = document_digest([digests, form])
    return new_dataset(name, entry, targets, splits, digest, digests, left_out)


def _choose(pack: Pack) -> str:
    """Where to keep the pixels: memory, packed or direct."""
    folder = next(parent for parent in pack.store.path.parents if parent.exists())
    if pack.bytes - pack.store.bytes > shutil.disk_usage(folder).free - SPARE_DISK:
        return "direct"
    return "memory" if pack.bytes <= total_memory() // SHARE else "packed"


def broken(originals: Originals, form: Form, facts: np.ndarray) -> Iterator[LeftOut]:
    """The images that could not be decoded, each with the reason, which no pack keeps."""
    for number in np.flatnonzero(facts["broken"]).tolist():
        reason = f"{originals.names[number]} could not be read when the zoo decoded the images"
        try:
            read_image(in_memory(originals, number), form)
        except DataError as error:
            reason = str(error)
        yield LeftOut(originals.names[number], reason)


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
