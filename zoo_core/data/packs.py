"""Decoded originals in one mapped file: the pixels of all images, then the facts about them.

One pass makes the file, through the block store: killed at any time, no image is decoded twice, and
several processes share the work. Facts are an array of their own, so that a start reads no pixels:
10 MB of 30 GB. A file without pixels serves `direct`.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from zoo_core.data.images import (
    FORMATS,
    GREY_MODES,
    Form,
    decoded,
    decoding,
    fitted,
    open_image,
    turned_size,
)
from zoo_core.data.originals import Originals, in_memory, workers
from zoo_core.io import tensors
from zoo_core.io.blocks import BlockStore, Layout, kept_stores
from zoo_core.io.console import progress
from zoo_core.io.documents import document_digest
from zoo_core.io.errors import DataError, os_errors
from zoo_core.io.files import cache_dir

VERSION = 3  # of the decoding and the layout; raise it when the same files give other bytes
SUFFIX = ".safetensors"
LOOK, SEEN = 8, 128  # pixels a side: of a look, and of what it is averaged from
TOGETHER = 4  # images that a thread decodes before it reports
FACTS = np.dtype(
    [
        ("sha256", np.uint8, 32),  # of the file
        ("width", "<u4"),  # of the original, turned as its EXIF data says
        ("height", "<u4"),
        ("format", np.uint8),  # a place in FORMATS
        ("grey", np.uint8),
        ("broken", np.uint8),  # it cannot be decoded; its pixels are zeros
        ("unused", np.uint8, 5),
    ]
)  # 48 bytes


class Packed(NamedTuple):
    """What a pack holds, or a part of it: a row for each image."""

    pixels: np.ndarray  # uint8 (n, bytes of an image); 0 bytes where the facts are alone
    facts: np.ndarray  # FACTS (n,)
    looks: np.ndarray  # uint8 (n, 64): from afar, in grey; they find near duplicates


@dataclass(frozen=True)
class Pack:
    """Originals in the form in which they are stored. label: what people call them."""

    label: str
    originals: Originals
    form: Form
    pixels: bool = True  # False: the facts alone

    @property
    def image_bytes(self) -> int:
        return self.pixels * self.form.size**2 * self.form.channels

    @property
    def bytes(self) -> int:
        """Of the file, but for its header."""
        return len(self.originals) * (self.image_bytes + FACTS.itemsize + LOOK**2)

    @cached_property
    def store(self) -> BlockStore:
        # Named after what was asked for: when the originals change, the new file replaces the old.
        words = re.sub(r"[^a-z0-9]+", "_", Path(self.label).name.lower()).strip("_")
        asked = document_digest([self.label, self.form, self.pixels])
        return BlockStore(cache_dir("packs") / f"{words[:40]}-{asked[:16]}{SUFFIX}")

    @cached_property
    def key(self) -> dict[str, Any]:
        """All that decides the content."""
        which = {"version": VERSION, "originals": document_digest(self.originals.key)}
        return {**which, "form": self.form._asdict(), "pixels": self.pixels}

    def fill(self, report: Callable[[str], None], *, trusted: bool = False) -> Path:
        """The complete file; what is not in the cache is decoded now.

        trusted: a complete file is not hashed first, which may take longer than the training.
        """
        sizes = {"pixels": self.image_bytes, "facts": FACTS.itemsize, "looks": LOOK**2}
        specs = {name: ("uint8", (len(self.originals), size)) for name, size in sizes.items()}
        layout = Layout(
            key=self.key,
            rows=len(self.originals),
            row_bytes=list(sizes.values()),
            before=tensors.header_bytes(specs, json.dumps(self.key), aligned=64),
            about={"label": self.label},
            trusted=trusted,
            by_blocks=True,
        )
        if self.store.complete(layout):
            return self.store.path
        waiting = lambda: report("waiting: another process decodes these images")  # noqa: E731
        what = f"decoded images cannot be kept in {self.store.path.parent}"
        hint = "set ZOO_CACHE to a folder that you can write to: export ZOO_CACHE=/tmp/zoo"
        full = "free disk space, set ZOO_CACHE to another folder, or use --set data.store=direct"
        errors = os_errors(what, DataError, hint, full if self.pixels else "")
        with errors, self.store.writing(layout, waiting) as writer:
            if left := writer.progress.rows - writer.progress.done:
                report(f"{Path(self.label).name}: decoding {left:,} images")
            with progress("decoding", left) as advance, workers() as pool:
                for block in writer:
                    writer.commit_behind(block, self._rows(writer.rows(block), pool, advance))
        return self.store.path

    def _rows(
        self, rows: range, pool: ThreadPoolExecutor, advance: Callable[[int], None]
    ) -> Iterator[np.ndarray]:
        """A block as the file has it: pixels, as soon as they are decoded, then the facts."""
        parts = []
        cuts = [rows[at : at + TOGETHER] for at in range(0, len(rows), TOGETHER)]
        for pixels, facts, looks in pool.map(self._decode, cuts):
            advance(len(facts))
            parts.append((facts.view(np.uint8), looks))
            if self.pixels:
                yield pixels
        yield from map(np.concatenate, zip(*parts, strict=True))

    def content(self, report: Callable[[str], None], *, trusted: bool = False) -> Packed:
        """What the file holds, mapped."""
        return mapped(self.fill(report, trusted=trusted))

    def _decode(self, rows: range) -> Packed:
        count = len(rows)
        pixels = np.empty((count, self.image_bytes), np.uint8)
        found = Packed(pixels, np.zeros(count, FACTS), np.zeros((count, LOOK**2), np.uint8))
        for row, place, about, seen in zip(rows, *found, strict=True):
            try:
                file = in_memory(self.originals, row)
                about["sha256"] = np.frombuffer(hashlib.sha256(file.getbuffer()).digest(), np.uint8)
                with open_image(file) as image, decoding(file):
                    size = about["width"], about["height"] = turned_size(image)
                    # Two photographs of one moment in one file are MPO; they begin as any JPEG.
                    format_ = "JPEG" if image.format == "MPO" else str(image.format)
                    about["format"] = FORMATS.index(format_)
                    about["grey"] = image.mode in GREY_MODES
                    whole = decoded(image, self.form)
                    if self.pixels:
                        place[:] = fitted(whole, self.form, size).reshape(-1)
                    seen[:] = look(whole)
            except DataError:
                about["broken"] = True
                place[:] = 0
        return found


def mapped(path: Path) -> Packed:
    """What a complete file holds; pages come when they are looked at."""
    with path.open("rb") as file:
        header = tensors.read_header(file)
        # Only to read: the system would have to promise memory for pages that could be written to.
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    arrays = tensors.arrays_in(memoryview(content), header)
    return Packed(arrays["pixels"], arrays["facts"].view(FACTS)[:, 0], arrays["looks"])


def kept_packs(label: str = "") -> list[BlockStore]:
    """The packs in the cache, or those of one dataset."""
    found = kept_stores(cache_dir("packs"), SUFFIX)
    return [one for one in found if not label or label == label_of(one)]


def label_of(store: BlockStore) -> str:
    """What people call the images of a pack: a path, or the name of a dataset."""
    progress = store.progress()
    return str(progress.about.get("label", "")) if progress else store.path.stem


def facts_of(pack: Pack, report: Callable[[str], None]) -> Packed:
    """Facts and looks of all images, from a pack in whatever form that the cache has, or this."""
    for record in sorted(pack.store.path.parent.glob("*.json")):
        done = BlockStore(record.with_suffix(SUFFIX)).progress()
        if done and done.sha256 and done.about.get("label") == pack.label:
            form = {name: done.key.get(name) for name in ("form", "pixels")}
            if done.key == {**pack.key, **form}:
                pack = replace(pack, form=Form(**done.key["form"]), pixels=done.key["pixels"])
                break
    return pack.content(report)


def look(image: Image.Image) -> np.ndarray:
    """A whole image as 8 x 8 grey pixels, whatever its size and shape; data/check.py compares."""
    if min(image.size) > 2 * SEEN:  # as good as all pixels, and four times as quick
        image = image.resize((SEEN, SEEN), Image.Resampling.NEAREST).reduce(SEEN // LOOK)
    small = image.convert("L").resize((LOOK, LOOK), Image.Resampling.BOX)
    return np.asarray(small).reshape(-1)
