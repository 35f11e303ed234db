"""Parquet tables of images: what `--dataset photos.parquet` means."""

from __future__ import annotations

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_readers() -> list[zoo.ReaderEntry]:
    return [
        zoo.ReaderEntry(
            name="parquet",
            target="zoo_parquet.table:parquet_files",
            summary="Parquet files: a table with a column of images, or of their paths",
            suffixes=(".parquet",),
            folders=(".parquet",),
            config={"path": None, "image": None, "target": None, "labels": "auto", "root": None},
            license="yours",
            tags=("local",),
        )
    ]
