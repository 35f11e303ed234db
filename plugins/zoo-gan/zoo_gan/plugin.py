"""What zoo-gan contributes. Light on purpose: everybody's `zoo list` imports this file."""

from dataclasses import replace

import zoo

ZOO_API = 1

SIZES = {"noise": 100, "width": 64, "spectral_norm": False}
RANGES = {"image_size": (8, 512), "noise": (1, 4096), "width": (1, 1024)}
# As DC-GAN was published, but for the batches, half as large, so that there are twice as many, and
# for the rate, which rises and falls around the published one.
DEFAULT = zoo.Recipe(
    optimizer="adam",
    lr=4e-4,
    schedule="one_cycle",
    epochs=8,
    batch_size=64,
    augment=("flip",),
    ema=0.999,
    preprocess={"mean": (0.5,), "std": (0.5,)},
)
NAMING = replace(DEFAULT, lr=6e-4, model={"dropout": 0.3})  # classes are learned faster with more


@zoo.hookimpl
def zoo_models() -> list[zoo.ModelEntry]:
    return [
        zoo.ModelEntry(
            name="dcgan",
            target="zoo_gan.dcgan:DCGAN",
            summary="Convolutional generator and discriminator",
            kinds=("generation",),
            num_classes=None,
            config=SIZES,
            ranges=RANGES,
            parameters=1_731_908,
            task="zoo_gan.dcgan:DCGANTask",
            capabilities={"generate": "zoo_gan.capabilities:FromNoise"},
            recipes={"default": DEFAULT},
            tags=("small", "convolution", "adversarial"),
            reference="https://arxiv.org/abs/1511.06434",
        ),
        zoo.ModelEntry(
            name="acgan",
            target="zoo_gan.acgan:ACGAN",
            summary="DC-GAN for classes, with a classifier in the discriminator",
            kinds=("classification", "generation"),
            config={**SIZES, "dropout": 0.0},
            ranges=RANGES,
            parameters=1_813_838,
            task="zoo_gan.acgan:ACGANTask",
            capabilities={"generate": "zoo_gan.capabilities:FromLabel"},
            recipes={"default": NAMING},
            tags=("small", "convolution", "adversarial"),
            reference="https://arxiv.org/abs/1610.09585",
        ),
    ]


@zoo.hookimpl
def zoo_manifests() -> list[str]:
    return ["zoo_gan:weights.json"]
