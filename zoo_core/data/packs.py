"""Decoded originals in one mapped file: a row for each image, its facts first and then its pixels.

One pass makes the file, through the block store: killed at any time, no image is decoded twice, and
several processes share the work. A file of facts alone serves `direct`, which keeps no pixels.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image

from zoo_core.data.images import FORMATS, GREY_MODES, Form, decoded, open_image, turned_size
from zoo_core.data.originals import Originals, workers
from zoo_core.io import tensors
from zoo_core.io.blocks import BlockStore, Layout, kept_stores
from zoo_core.io.console import progress
from zoo_core.io.documents import document_digest
from zoo_core.io.errors import DataError, os_errors
from zoo_core.io.files import cache_dir

VERSION = 1  # of the decoding; raise it when the same files give other pixels
SUFFIX = ".safetensors"
FACTS = np.dtype(
    [
        ("sha256", np.uint8, 32),  # of the file
        ("look", "<u8"),  # a perceptual hash: images that look alike differ in few bits
        ("width", "<u4"),  # of the original, turned as its EXIF data says
        ("height", "<u4"),
        ("format", np.uint8),  # a place in FORMATS
        ("grey", np.uint8),
        ("broken", np.uint8),  # it cannot be decoded; its pixels are zeros
        ("unused", np.uint8, 13),
    ]
)  # 64 bytes


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

    def rows(self, report: Callable[[str], None], *, trusted: bool = False) -> np.ndarray:
        """All rows, mapped, uint8 (n, row_bytes); what is not in the cache is decoded now.

        trusted: a complete file is not hashed first, which may take longer than the training.
        """
        key = {
            "version": VERSION,
            "originals": document_digest(self.originals.key),
            "form": self.form._asdict(),
            "pixels": self.pixels,
        }
        spec = {"rows": ("uint8", (len(self.originals), self.row_bytes))}
        layout = Layout(
            key=key,
            rows=len(self.originals),
            row_bytes=self.row_bytes,
            before=tensors.header_bytes(spec, json.dumps(key), aligned=FACTS.itemsize),
            about={"label": self.label},
            trusted=trusted,
            by_blocks=True,
        )
        waiting = lambda: report("another process decodes these images; waiting")  # noqa: E731
        what = f"decoded images cannot be kept in {self.store.path.parent}"
        hint = "make room there, choose another folder with ZOO_CACHE, or --set data.store=direct"
        with os_errors(what, DataError, hint), self.store.writing(layout, waiting) as writer:
            if left := writer.progress.rows - writer.progress.done:
                report(f"{self.label}: decoding {left:,} images")
            with progress("decoding", left) as advance, workers() as pool:
                # One is filled while the other goes to the disk, which takes a while.
                both = np.empty((2, writer.progress.block_rows, self.row_bytes), np.uint8)
                for number, block in enumerate(writer):
                    started, rows = time.perf_counter(), writer.rows(block)
                    content = both[number % 2, : len(rows)]
                    for place, row in enumerate(pool.map(self._row, rows)):
                        content[place] = row
                        advance(1)
                    writer.commit_behind(block, content, time.perf_counter() - started)
        with self.store.path.open("rb") as file:
            return tensors.read_arrays(file, tensors.read_header(file), mapped=True)["rows"]

    def _row(self, position: int) -> np.ndarray:
        row = np.zeros(self.row_bytes, np.uint8)
        facts = row[: FACTS.itemsize].view(FACTS)[0]
        try:
            file = self.originals.in_memory(position)
            facts["sha256"] = np.frombuffer(hashlib.sha256(file.getbuffer()).digest(), np.uint8)
            with open_image(file) as image:
                facts["width"], facts["height"] = turned_size(image)
                facts["format"] = FORMATS.index(image.format or "")
                facts["grey"] = image.mode in GREY_MODES
                pixels = decoded(image, file, self.form)
        except DataError:
            facts["broken"] = True
            return row
        facts["look"] = look(pixels)
        if self.pixels:
            row[FACTS.itemsize :] = pixels.reshape(-1)
        return row


def kept_packs(label: str = "") -> list[BlockStore]:
    """The packs in the cache, or those of one dataset."""
    found = kept_stores(cache_dir("packs"), SUFFIX)
    return [one for one in found if not label or label == label_of(one)]


def label_of(store: BlockStore) -> str:
    """What people call the images of a pack: a path, or the name of a dataset."""
    progress = store.progress()
    return str(progress.about.get("label", "")) if progress else store.path.stem


def look(pixels: np.ndarray) -> int:
    """A perceptual hash of 64 bits: where an image of 9 x 8 grey pixels rises to the right."""
    image = Image.fromarray(pixels if pixels.shape[2] > 1 else pixels[:, :, 0]).convert("L")
    small = np.asarray(image.resize((9, 8), Image.Resampling.BOX))
    return int.from_bytes(np.packbits(small[:, 1:] > small[:, :-1]).tobytes(), "little")
