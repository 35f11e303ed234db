"""What zoo-classics contributes. Light, like every plugin.py."""

from __future__ import annotations

import zoo

ZOO_API = 1

CIFAR10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
FASHION_MNIST = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
    "Ankle boot",
)  # fmt: skip


@zoo.hookimpl
def zoo_datasets() -> list[zoo.DatasetEntry]:
    return [
        zoo.DatasetEntry(
            name="cifar10",
            target="zoo_classics.sources:cifar10",
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
            target="zoo_classics.sources:mnist",
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
            target="zoo_classics.sources:fashion_mnist",
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
    ]
