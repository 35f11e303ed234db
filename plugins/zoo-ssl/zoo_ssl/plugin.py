"""What zoo-ssl contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_models() -> list[zoo.ModelEntry]:
    return [
        zoo.ModelEntry(
            name="simclr_cnn",
            target="zoo_ssl.simclr:SimCLR",
            summary="Pretrains the body of cnn, without labels",
            kinds=("pretraining",),
            num_classes=None,
            config={
                "channels": (32, 64, 128),
                "kernel_size": 3,
                "hidden": 512,
                "batch_norm": True,
                "projection": 128,
            },
            ranges={
                "image_size": (1, 512),
                "channels": (1, 1024),
                "kernel_size": (1, 31),
                "hidden": (1, 65_536),
                "projection": (1, 65_536),
            },
            parameters=1_471_616,
            task="zoo_ssl.simclr:Contrast",
            capabilities={"features": "zoo_ssl.simclr:features"},
            recipes={
                "default": zoo.Recipe(
                    optimizer="adamw",
                    lr=2e-3,
                    weight_decay=0.01,
                    schedule="one_cycle",
                    epochs=5,
                    batch_size=256,
                    augment=(
                        "resized_crop:scale=0.2-1",
                        "flip",
                        "jitter:0.4,hue=0.1",
                        "grey:0.2",
                    ),
                ),
            },
            tags=("small", "convolution"),
            reference="https://arxiv.org/abs/2002.05709",
        )
    ]


@zoo.hookimpl
def zoo_augmentations() -> list[zoo.AugmentationEntry]:
    return [
        zoo.AugmentationEntry(
            name="grey",
            target="zoo_ssl.grey:Grey",
            summary="Take the colours out of some of the images",
            example="grey:0.2",
        )
    ]
