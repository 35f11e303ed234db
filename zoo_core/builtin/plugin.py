"""What comes with zoo-core: datasets, trainers, augmentations, commands, an engine.

Light, like every plugin.py.
"""

from __future__ import annotations

import zoo
from zoo_core.spec.commands import COMMANDS

ZOO_API = 1

CIFAR10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
FASHION_MNIST = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
    "Ankle boot",
)  # fmt: skip
SHAPES = (
    "circle", "square", "triangle", "plus", "cross", "ring", "frame", "diamond", "moon",
    "stripes",
)  # fmt: skip


@zoo.hookimpl
def zoo_datasets() -> list[zoo.DatasetEntry]:
    return [
        zoo.DatasetEntry(
            name="cifar10",
            target="zoo_core.data.sources:cifar10",
            summary="Small photographs of ten kinds of animals and vehicles",
            classes=CIFAR10,
            in_channels=3,
            image_size=32,
            train_size=50_000,
            test_size=10_000,
            mean=(0.4914, 0.4822, 0.4465),
            std=(0.2023, 0.1994, 0.2010),
            digests={
                "train_images": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
                "train_labels": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
                "test_images": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
                "test_labels": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
            },
            license="none stated by its authors; made available for research",
            reference="https://www.cs.toronto.edu/~kriz/cifar.html",
            tags=("photographs", "benchmark"),
        ),
        zoo.DatasetEntry(
            name="mnist",
            target="zoo_core.data.sources:mnist",
            summary="Handwritten digits",
            classes=tuple("0123456789"),
            in_channels=1,
            image_size=28,
            train_size=60_000,
            test_size=10_000,
            mean=(0.1307,),
            std=(0.3081,),
            digests={
                "train_images": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
                "train_labels": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
                "test_images": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
                "test_labels": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
            },
            license="not stated with the files; CC BY-SA 3.0 is often reported",
            reference="http://yann.lecun.com/exdb/mnist/",
            tags=("grey", "benchmark"),
        ),
        zoo.DatasetEntry(
            name="fashion_mnist",
            target="zoo_core.data.sources:fashion_mnist",
            summary="Articles of clothing, in the form of MNIST",
            classes=FASHION_MNIST,
            in_channels=1,
            image_size=28,
            train_size=60_000,
            test_size=10_000,
            mean=(0.5,),
            std=(0.5,),
            digests={
                "train_images": "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
                "train_labels": "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
                "test_images": "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
                "test_labels": "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
            },
            license="MIT",
            reference="https://github.com/zalandoresearch/fashion-mnist",
            tags=("grey", "benchmark"),
        ),
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
        zoo.TrainerEntry(
            name="frozen",
            target="zoo_core.torch.frozen:FrozenTrainer",
            summary="A head on a frozen backbone, whose features are computed once and kept",
            options={  # the default first
                "finetune": "auto, head, last:N, lora:R, all",
                "layer_decay": "1, above 0 to 1",
                "batch_stats": "frozen, trained",
                "dtype": "float16, float32",
                "batch": "0, or a number of images",
            },
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
