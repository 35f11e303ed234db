"""Decoded originals in one mapped file: in each block the facts of its images, then their pixels.

One pass makes the file, through the block store: killed at any time, no image is decoded twice, and
several processes share the work. Facts stand together, so that a start reads no pixels: of 30 GB it
reads 25 MB. A file of facts alone serves `direct`, which keeps no pixels.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

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

VERSION = 2  # of the decoding and the layout; raise it when the same files give other bytes
SUFFIX = ".safetensors"
LOOK, SEEN = 8, 128  # pixels a side: of a look, and of what it is averaged from
TOGETHER = 8  # images that a thread decodes before it reports
FACTS = np.dtype(
    [
        ("sha256", np.uint8, 32),  # of the file
        ("look", np.uint8, LOOK**2),  # how it looks from afar, in grey: finds near duplicates
        ("width", "<u4"),  # of the original, turned as its EXIF data says
        ("height", "<u4"),
        ("format", np.uint8),  # a place in FORMATS
        ("grey", np.uint8),
        ("broken", np.uint8),  # it cannot be decoded; its pixels are zeros
        ("unused", np.uint8, 21),
    ]
)  # 128 bytes


@dataclass(frozen=True)
class Pack:
    """Originals in the form in which they are stored. label: what people call them."""

    label: str
    originals: Originals
    form: Form
    pixels: bool = True  # False: the facts alone

    @property
    def row_bytes(self) -> int:
        return FACTS.itemsize + self.pixels * self.form.size**2 * self.form.channels

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
        spec = {"rows": ("uint8", (len(self.originals), self.row_bytes))}
        layout = Layout(
            key=self.key,
            rows=len(self.originals),
            row_bytes=self.row_bytes,
            before=tensors.header_bytes(spec, json.dumps(self.key), aligned=FACTS.itemsize),
            about={"label": self.label},
            trusted=trusted,
            by_blocks=True,
        )
        waiting = lambda: report("waiting: another process decodes these images")  # noqa: E731
        what = f"decoded images cannot be kept in {self.store.path.parent}"
        hint = "free disk space, set ZOO_CACHE to another folder, or use --set data.store=direct"
        with os_errors(what, DataError, hint), self.store.writing(layout, waiting) as writer:
            if left := writer.progress.rows - writer.progress.done:
                report(f"{Path(self.label).name}: decoding {left:,} images")
            with progress("decoding", left) as advance, workers() as pool:
                # One is filled while the other goes to the disk, which takes a while.
                both = np.empty((2, writer.progress.block_rows, self.row_bytes), np.uint8)
                for number, block in enumerate(writer):
                    started, rows = time.perf_counter(), writer.rows(block)
                    content = both[number % 2, : len(rows)]
                    parts = (rows, *_parts(content))
                    cuts = [slice(at, at + TOGETHER) for at in range(0, len(rows), TOGETHER)]
                    for done in pool.map(self._decode, *([p[c] for c in cuts] for p in parts)):
                        advance(done)
                    writer.commit_behind(block, content, time.perf_counter() - started)
        return self.store.path

    def facts(self, report: Callable[[str], None], *, trusted: bool = False) -> np.ndarray:
        """The facts of all images, FACTS (n,)."""
        return np.concatenate([facts for facts, _ in mapped(self.fill(report, trusted=trusted))])

    def _decode(self, rows: range, facts: np.ndarray, pixels: np.ndarray) -> int:
        """Write facts and pixels of some images to their places; how many that were."""
        facts[:] = np.zeros(1, FACTS)
        for row, about, place in zip(rows, facts, pixels, strict=True):
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
                    about["look"] = look(whole)
            except DataError:
                about["broken"] = True
                place[:] = 0
        return len(rows)


Block = tuple[np.ndarray, np.ndarray]  # facts, FACTS (k,), and pixels, uint8 (k, bytes of an image)


def mapped(path: Path) -> list[Block]:
    """What a complete file holds; pages come when they are looked at."""
    with path.open("rb") as file:
        header = tensors.read_header(file)
        # Only to read: the system would have to promise memory for pages that could be written to.
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    rows = np.frombuffer(content, np.uint8, offset=header.start).reshape(
        header.places["rows"].shape
    )
    step = BlockStore(path).block_rows
    return [_parts(rows[start : start + step]) for start in range(0, len(rows), step)]


def _parts(rows: np.ndarray) -> Block:
    """Facts and pixels in the bytes of a block, uint8 (k, row_bytes)."""
    ends = len(rows) * FACTS.itemsize
    content = rows.reshape(-1)
    return content[:ends].view(FACTS), content[ends:].reshape(len(rows), -1)


def kept_packs(label: str = "") -> list[BlockStore]:
    """The packs in the cache, or those of one dataset."""
    found = kept_stores(cache_dir("packs"), SUFFIX)
    return [one for one in found if not label or label == label_of(one)]


def label_of(store: BlockStore) -> str:
    """What people call the images of a pack: a path, or the name of a dataset."""
    progress = store.progress()
    return str(progress.about.get("label", "")) if progress else store.path.stem


def facts_of(pack: Pack, report: Callable[[str], None]) -> np.ndarray:
    """The facts of all images, from a pack in whatever form that the cache has, or from this."""
    for record in sorted(pack.store.path.parent.glob("*.json")):
        done = BlockStore(record.with_suffix(SUFFIX)).progress()
        if done and done.sha256 and done.about.get("label") == pack.label:
            form = {name: done.key.get(name) for name in ("form", "pixels")}
            if done.key == {**pack.key, **form}:
                pack = replace(pack, form=Form(**done.key["form"]), pixels=done.key["pixels"])
                break
    return pack.facts(report)


def look(image: Image.Image) -> np.ndarray:
    """A whole image as 8 x 8 grey pixels, whatever its size and shape; data/check.py compares."""
    if min(image.size) > 2 * SEEN:  # as good as all pixels, and four times as quick
        image = image.resize((SEEN, SEEN), Image.Resampling.NEAREST)
    small = image.convert("L").resize((LOOK, LOOK), Image.Resampling.BOX)
    return np.asarray(small).reshape(-1)
