"""What zoo-resnet contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1
PAPER = "https://arxiv.org/abs/1512.03385"

RESNET18 = {
    "channels": (64, 128, 256, 512),
    "depths": (2, 2, 2, 2),
    "stem": "small",
    "shortcut": 1,
}
RANGES = {
    "image_size": (1, 1024),
    "channels": (1, 1024),
    "depths": (1, 64),
    "shortcut": (1, 31),
}
STEMS = {"stem": ("small", "pooled", "imagenet")}
# What the `default` recipes add was chosen on a part of the training set, never on the test set.


@zoo.hookimpl
def zoo_models() -> list[zoo.ModelEntry]:
    return [
        zoo.ModelEntry(
            name="resnet18",
            target="zoo_resnet.resnet:ResNet",
            summary="ResNet-18 with a stem for small images",
            config=RESNET18,
            choices=STEMS,
            ranges=RANGES,
            parameters=11_173_962,
            recipes={
                "paper": zoo.Recipe(optimizer="adam", lr=2.787e-3, epochs=8, seed=3407),
                "default": zoo.Recipe(
                    optimizer="sgd",
                    lr=0.1,
                    weight_decay=5e-4,
                    schedule="one_cycle",
                    epochs=8,
                    augment=("flip", "crop:4"),
                ),
            },
            tags=("convolution", "residual"),
            reference=PAPER,
        ),
        zoo.ModelEntry(
            name="resnet18_finetune",
            target="zoo_resnet.finetune:resnet18",
            summary="ResNet-18 from ImageNet weights, all layers trained",
            config={**RESNET18, "weights": ""},
            choices=STEMS,
            ranges=RANGES,
            parameters=11_173_962,
            capabilities={"pretrained": "zoo_resnet.finetune:imagenet_tensors"},
            recipes={
                "paper": zoo.Recipe(optimizer="adam", lr=3.3e-4, epochs=3, seed=3407),
                "default": zoo.Recipe(
                    optimizer="adamw",
                    lr=5e-4,
                    weight_decay=0.05,
                    schedule="one_cycle",
                    epochs=3,
                    augment=("flip", "crop:4"),
                ),
            },
            tags=("convolution", "residual", "pretrained"),
            reference=PAPER,
        ),
        zoo.ModelEntry(
            name="fashion_resnet18",
            target="zoo_resnet.resnet:ResNet",
            summary="ResNet-18 for grey images",
            in_channels=1,
            image_size=28,
            config=RESNET18,
            choices=STEMS,
            ranges=RANGES,
            parameters=11_172_810,
            dataset="fashion_mnist",
            recipes={
                "paper": zoo.Recipe(
                    optimizer="adam",
                    lr=1e-3,
                    epochs=10,
                    batch_size=64,
                    validation_fraction=0.2,
                    seed=99,
                ),
                "default": zoo.Recipe(
                    optimizer="sgd",
                    lr=0.1,
                    weight_decay=5e-4,
                    schedule="one_cycle",
                    epochs=10,
                    augment=("flip", "crop:2"),
                ),
            },
            tags=("convolution", "residual"),
            reference=PAPER,
        ),
        zoo.ModelEntry(
            name="resnet8",
            target="zoo_resnet.resnet:ResNet",
            summary="Three residual blocks",
            in_channels=1,
            image_size=28,
            config={"channels": (16, 32, 64), "depths": (1, 1, 1), "stem": "pooled", "shortcut": 3},
            choices=STEMS,
            ranges=RANGES,
            parameters=98_346,
            dataset="mnist",
            recipes={
                "paper": zoo.Recipe(
                    optimizer="sgd",
                    lr=0.01,
                    momentum=0.5,
                    weight_decay=1e-4,
                    epochs=10,
                    batch_size=32,
                ),
                "default": zoo.Recipe(
                    optimizer="sgd",
                    lr=0.1,
                    weight_decay=5e-4,
                    schedule="one_cycle",
                    epochs=10,
                    batch_size=128,
                    augment=("affine:rotate=10,shift=2,scale=0.1",),
                ),
            },
            tags=("small", "convolution", "residual"),
            reference=PAPER,
        ),
    ]


@zoo.hookimpl
def zoo_manifests() -> list[str]:
    return ["zoo_resnet:weights.json"]
