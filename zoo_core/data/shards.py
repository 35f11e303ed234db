"""WebDataset: tar files whose members share a stem, read at their offsets without unpacking."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo_core.data.images import SUFFIXES
from zoo_core.data.originals import Originals
from zoo_core.data.table_files import Rows, shards, splits_of
from zoo_core.data.tables import LOOK, Table, table_originals
from zoo_core.io.errors import DataError

TEXTS = ("cls", "txt")


class Member(NamedTuple):
    """Where a file is inside a tar file."""

    shard: int
    offset: int
    size: int


def tar_shards(*, path: str, image: str | None, target: Any, labels: str) -> Originals:
    """The target of the reader `webdataset`."""
    place = Path(path)
    files = shards(place, ".tar")
    folder = place if place.is_dir() else place.parent
    parts = splits_of(files, folder) if len(files) > 1 else []
    samples: dict[str, dict[str, Member]] = {}
    for number, file in enumerate(files):
        try:
            with tarfile.open(file, "r:") as archive:
                for one in archive:
                    # 0001.jpg and 0001.cls are one sample; so are a/0001.seg.png and a/0001.json.
                    before, slash, name = one.name.rpartition("/")
                    stem, _, ending = name.partition(".")
                    if one.isfile() and stem:
                        key = f"{file.relative_to(folder).as_posix()}/{before}{slash}{stem}"
                        kind = "image" if f".{ending.lower()}" in SUFFIXES else ending.lower()
                        member = Member(number, one.offset_data, one.size)
                        samples.setdefault(key, {})[kind] = member
        except (tarfile.TarError, OSError) as error:
            raise DataError(f"{file} cannot be read as a tar file: {error}") from error
    keys = list(samples)

    def read(column: str, row: int) -> bytes:
        shard, offset, size = samples[keys[row]][column]
        with files[shard].open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def facts(row: int) -> dict[str, Any]:
        sample = samples[keys[row]]
        known: dict[str, Any] = {k: read(k, row).decode().strip() for k in TEXTS if k in sample}
        if "json" in sample:
            known |= json.loads(read("json", row))
        return known | ({"split": parts[sample["image"].shard]} if parts else {})

    def rows(columns: Sequence[str]) -> Rows:
        for row, key in enumerate(keys):
            if "image" not in samples[key]:
                yield key, "it has no image"
                continue
            try:
                known = facts(row)
                yield key, [known.get(column) for column in columns]
            except (ValueError, TypeError) as error:
                yield key, f"its label cannot be read: {error}"

    columns = dict.fromkeys(["image"])
    for row in range(min(LOOK, len(keys))):
        if "image" in samples[keys[row]]:
            columns |= dict.fromkeys(facts(row))
    stats = [(file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    table = Table(
        name=place.name, columns=list(columns), rows=rows, images=["image"], read=read,
        key=[stats, keys],
    )  # fmt: skip
    return table_originals(table, image=image, target=target, labels=labels)
