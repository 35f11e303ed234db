"""Tar files whose members share a stem, read at their offsets without unpacking."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import zoo
from zoo import kit

TEXTS = ("cls", "txt")
LOOK = 100  # samples that decide which columns there are


def tar_shards(*, path: str, target: Any, labels: str) -> zoo.Originals:
    """The target of the reader `webdataset`."""
    files = kit.shards(Path(path), ".tar")
    samples: dict[str, dict[str, tuple[Path, int, int]]] = {}  # where each part of each is
    splits: dict[str, dict[str, str]] = {}
    for file, before, own in files:
        try:
            with tarfile.open(file, "r:") as archive:
                for member in archive:
                    # a/0001.jpg, a/0001.cls and a/0001.mask.png are one sample.
                    parent, slash, name = member.name.rpartition("/")
                    stem, _, ending = name.partition(".")
                    if member.isfile() and stem:
                        key = f"{before.strip()}{'/' * bool(before)}{parent}{slash}{stem}"
                        image = "." not in ending and kit.names_image(name)
                        part = "image" if image else ending.lower()
                        place = file, member.offset_data, member.size
                        samples.setdefault(key, {})[part] = place
                        splits[key] = own
        except (tarfile.TarError, OSError) as error:
            raise zoo.DataError(f"{file} cannot be read as a tar file: {error}") from error
    keys = list(samples)

    def read(part: str, row: int) -> bytes:
        file, offset, size = samples[keys[row]][part]
        with file.open("rb") as opened:
            opened.seek(offset)
            return opened.read(size)

    def facts(row: int) -> dict[str, Any] | str:
        parts = samples[keys[row]]
        if "image" not in parts:
            return "it has no image"
        try:
            texts = {part: read(part, row).decode() for part in TEXTS if part in parts}
            more = json.loads(read("json", row)) if "json" in parts else {}
            return {"image": None, **splits[keys[row]], **texts, **more}
        except (ValueError, TypeError) as error:
            return f"its .cls, .txt or .json cannot be read: {error}"

    def rows(columns: Sequence[str]) -> Iterator[tuple[str, Sequence[Any] | str]]:
        for row, key in enumerate(keys):
            known = facts(row)
            cells = known if isinstance(known, str) else [known.get(name) for name in columns]
            yield key, cells

    columns: dict[str, None] = {"image": None}
    for known in map(facts, range(min(LOOK, len(keys)))):
        columns |= dict.fromkeys(() if isinstance(known, str) else known)
    times = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file, _, _ in files]
    table = kit.Table(
        name=Path(path).name, columns=list(columns), rows=rows, folder=Path(path).parent,
        images=["image"], read=read, key=[times, keys],
    )  # fmt: skip
    return kit.table_originals(table, target=target, labels=labels)
