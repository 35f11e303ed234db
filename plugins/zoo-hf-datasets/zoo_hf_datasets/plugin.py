"""Datasets of the Hugging Face Hub: what `--dataset hf:org/name` means."""

from __future__ import annotations

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_readers() -> list[zoo.ReaderEntry]:
    return [
        zoo.ReaderEntry(
            name="hf",
            target="zoo_hf_datasets.repository:repository",
            summary="A dataset of the Hugging Face Hub: hf:org/name, hf:org/name/folder@revision",
            prefixes=("hf:",),
            config={"path": None, "image": None, "target": None, "labels": "auto"},
            license="its owner's",
        )
    ]
