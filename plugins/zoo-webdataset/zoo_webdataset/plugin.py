"""Tar files in the form of WebDataset: what `--dataset shards.tar` means."""

from __future__ import annotations

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_readers() -> list[zoo.ReaderEntry]:
    return [
        zoo.ReaderEntry(
            name="webdataset",
            target="zoo_webdataset.shards:tar_shards",
            summary="WebDataset: tar files of images, each with a .cls, .txt or .json beside it",
            suffixes=(".tar",),
            folders=(".tar",),
            config={"path": None, "target": None, "labels": "auto"},
            license="yours",
            tags=("local",),
        )
    ]
