"""What zoo-cnn contributes. Light on purpose: everybody's `zoo list` imports this file."""

from dataclasses import replace

import zoo

ZOO_API = 1

FASHION_PAPER = zoo.Recipe(
    optimizer="adam", lr=1e-3, epochs=10, batch_size=64, validation_fraction=0.2, seed=99
)
MNIST_PAPER = zoo.Recipe(
    optimizer="sgd", lr=0.01, momentum=0.5, weight_decay=1e-4, epochs=30, batch_size=32
)
# What the `default` recipes add was chosen on a part of the training set, never on the test set.
MNIST_DEFAULT = zoo.Recipe(
    optimizer="sgd",
    lr=0.05,
    weight_decay=1e-4,
    schedule="one_cycle",
    epochs=12,
    batch_size=64,
    augment=("affine:rotate=10,shift=2,scale=0.1",),
)


@zoo.hookimpl
def zoo_models() -> list[zoo.ModelEntry]:
    return [
        zoo.ModelEntry(
            name="cnn",
            target="zoo_cnn.cnn:CNN",
            summary="Three convolution blocks and a hidden layer",
            config={
                "channels": (32, 64, 128),
                "kernel_size": 3,
                "hidden": 512,
                "dropout": 0.5,
                "batch_norm": True,
                "scale": 1.0,
            },
            width="scale",
            ranges={
                "image_size": (1, 512),
                "channels": (1, 1024),
                "kernel_size": (1, 31),
                "hidden": (1, 65_536),
            },
            parameters=1_147_914,
            capabilities={"features": "zoo_cnn.features:hidden"},
            recipes={
                "paper": zoo.Recipe(optimizer="adam", lr=1.99e-4, epochs=16, seed=3407),
                # The network is too small to need much dropout, or many shifted images.
                "default": zoo.Recipe(
                    optimizer="sgd",
                    lr=0.05,
                    weight_decay=5e-4,
                    schedule="one_cycle",
                    epochs=16,
                    batch_size=64,
                    augment=("flip", "crop:2"),
                    ema=0.998,
                    model={"dropout": 0.2},
                ),
            },
            tags=("small", "convolution"),
        ),
        zoo.ModelEntry(
            name="fashion_cnn",
            target="zoo_cnn.fashion_cnn:FashionCNN",
            summary="Two convolutions and a hidden layer",
            in_channels=1,
            image_size=28,
            config={"activation": "relu"},
            choices={"activation": ("relu", "leaky_relu")},
            parameters=421_642,
            dataset="fashion_mnist",
            recipes={
                "paper": FASHION_PAPER,
                "paper_leaky": replace(FASHION_PAPER, model={"activation": "leaky_relu"}),
                "default": zoo.Recipe(
                    optimizer="adamw",
                    lr=2e-3,
                    weight_decay=0.05,
                    schedule="one_cycle",
                    epochs=10,
                    batch_size=64,
                    augment=("flip", "cutout:8"),
                    ema=0.998,
                ),
            },
            tags=("small", "convolution"),
        ),
        zoo.ModelEntry(
            name="mnist_cnn1",
            target="zoo_cnn.mnist_cnn1:MnistCNN1",
            summary="One convolution",
            in_channels=1,
            image_size=28,
            parameters=3_870,
            dataset="mnist",
            recipes={
                "paper": replace(MNIST_PAPER, weight_decay=1e-3),
                "default": MNIST_DEFAULT,
            },
            tags=("small", "convolution"),
        ),
        zoo.ModelEntry(
            name="mnist_cnn2",
            target="zoo_cnn.mnist_cnn2:MnistCNN2",
            summary="Two convolutions and two hidden layers",
            in_channels=1,
            image_size=28,
            config={"activation": "relu"},
            choices={"activation": ("relu", "leaky_relu")},
            parameters=50_826,
            dataset="mnist",
            recipes={
                "paper": MNIST_PAPER,
                "paper_leaky": replace(MNIST_PAPER, model={"activation": "leaky_relu"}),
                "default": MNIST_DEFAULT,
            },
            tags=("small", "convolution"),
        ),
    ]


@zoo.hookimpl
def zoo_manifests() -> list[str]:
    return ["zoo_cnn:weights.json"]
