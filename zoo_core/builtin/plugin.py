"""What comes with zoo-core: datasets, trainers, augmentations, commands, an engine.

Light, like every plugin.py.
"""

from __future__ import annotations

import zoo
from zoo_core.spec.commands import COMMANDS

ZOO_API = 1

SHAPES = (
    "circle", "square", "triangle", "plus", "cross", "ring", "frame", "diamond", "moon",
    "stripes",
)  # fmt: skip


@zoo.hookimpl
def zoo_datasets() -> list[zoo.DatasetEntry]:
    return [
        zoo.DatasetEntry(
            name="synthetic",
            target="zoo_core.data.synthetic:synthetic",
            summary="Coloured shapes, made on the spot, for tests and first steps",
            classes=SHAPES,
            in_channels=3,
            image_size=32,
            train_size=2000,
            test_size=500,
            digests={
                "train_images": "76770325150b404a48549281b1aec104ecdfe5984af7ee5a14bd5316df529d6c",
                "train_labels": "19efeabbd5fed476d80e2ce2609cdc76c23b9694a1631c6371599ab362810a91",
                "test_images": "703c5978b9c6262e72893667b132d7c9d713cadc3432ffedbf3a01db125e34c8",
                "test_labels": "e6155d195e2569b55be159247d95fdfb250d520437a0f999c2b3cc25907c8000",
            },
            config={
                "classes": 10,
                "image_size": 32,
                "channels": 3,
                "train_size": 2000,
                "test_size": 500,
                "seed": 0,
                "labels": "class",
            },
            license="MIT, as the zoo",
            tags=("local", "small"),
        ),
    ]


@zoo.hookimpl
def zoo_readers() -> list[zoo.ReaderEntry]:
    return [
        zoo.ReaderEntry(
            name="image_folder",
            target="zoo_core.data.image_folder:image_folder",
            summary="A folder with a folder of images for each class, or of images without labels",
            config={"path": None},
            license="yours",
            tags=("local",),
        ),
        zoo.ReaderEntry(
            name="table",
            target="zoo_core.data.table_files:table_file",
            summary="A table of paths, and folders with metadata.csv or metadata.jsonl",
            suffixes=(".csv", ".tsv", ".jsonl"),
            folders=("metadata.csv", "metadata.jsonl"),
            config={"path": None, "image": None, "target": None, "labels": "auto", "root": None},
            license="yours",
            tags=("local",),
        ),
        zoo.ReaderEntry(
            name="arrays",
            target="zoo_core.data.objects:array_file",
            summary="NumPy arrays: images and labels, or train_images, train_labels and so on",
            suffixes=(".npz", ".npy"),
            originals=False,
            config={"path": None, "test_fraction": 0.2, "seed": 0},
            license="yours",
            tags=("local",),
        ),
    ]


@zoo.hookimpl
def zoo_trainers():  # type: ignore[no-untyped-def]
    return [
        zoo.TrainerEntry(
            name="torch",
            target="zoo_core.torch.trainer:TorchTrainer",
            summary="Torch modules, on a CPU or GPU, in one process or several",
        ),
    ]


AUGMENTATIONS = (  # how each is written, its class, what it does
    ("flip", "Flip", "Mirror left and right, one image in two"),
    ("crop:4", "Crop", "Pad with black pixels, then cut the old size out anywhere"),
    ("shift:3", "Shift", "Shift by whole pixels; the mirrored image fills the gap"),
    ("affine:rotate=10,shift=3,scale=0.1", "Affine", "Rotate, shift, grow or shrink"),
    ("resized_crop:224,scale=0.08-1", "ResizedCrop", "Bring a random part to a size"),
    ("resize:224", "Resize", "Bring the whole image to a size"),
    ("cutout:8", "Cutout", "Cover a square with the mean colour"),
    ("erase:0.25", "Erase", "Cover a box in some of the images: random erasing"),
    ("cutmix:1.0", "CutMix", "Paste a box of another image in, and mix the labels"),
)


@zoo.hookimpl
def zoo_augmentations():  # type: ignore[no-untyped-def]
    return [
        zoo.AugmentationEntry(
            name=example.partition(":")[0],
            target=f"zoo_core.data.augment:{target}",
            summary=summary,
            example=example,
        )
        for example, target, summary in AUGMENTATIONS
    ]


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(name=name, target=f"zoo_core.cli.{module}:{name}_command", help=help)
        for name, (module, help) in COMMANDS.items()
    ]


@zoo.hookimpl
def zoo_engines():  # type: ignore[no-untyped-def]
    return [
        zoo.EngineEntry(
            name="local",
            target="zoo_core.io.engine:Local",
            summary="Processes of this machine, which share the images",
        )
    ]
