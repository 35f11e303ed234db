"""What zoo-numpy contributes. Light on purpose: everybody's `zoo list` imports this file."""

from dataclasses import replace

import zoo

ZOO_API = 1

# The published recipe. It names no schedule, so the rate stays as it is.
PAPER = zoo.Recipe(
    optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=5e-4, batch_size=100, epochs=10
)
# "Doubles the set", for 5 epochs: each image once as it is and once turned, shifted and scaled.
# The loader has one version of an image in an epoch, and draws it anew in the next. So every
# image is changed, and there are twice the epochs: as many steps, and no image as it was.
LENET_PAPER = replace(PAPER, augment=("affine:rotate=10,shift=3,scale=0.1",))

# What the `default` recipes add was chosen on a tenth of the training set, never on the test set.


@zoo.hookimpl
def zoo_models() -> list[zoo.ModelEntry]:
    fcn = zoo.ModelEntry(
        name="fcn_numpy",
        target="zoo_numpy.networks:FCN",
        summary="Three linear layers, on NumPy alone",
        in_channels=1,
        image_size=28,
        config={"hidden": (128, 64)},
        ranges={"image_size": (1, 1024), "hidden": (1, 65_536)},
        parameters=109_386,
        dataset="mnist",
        trainer="numpy",
        framework="numpy",
        recipes={
            "paper": PAPER,  # the number of epochs is not published; 10 is ours
            "default": replace(PAPER, schedule="one_cycle", augment=("crop:1",)),
        },
        tags=("small", "numpy"),
    )
    lenet = replace(
        fcn,
        name="lenet_numpy",
        target="zoo_numpy.networks:LeNet",
        summary="LeNet-5 with batch norm, on NumPy alone",
        config={"batch_norm": True},
        ranges={"image_size": (12, 512)},
        parameters=61_750,
        total_parameters=None,  # as `parameters`; replace would keep those of fcn
        recipes={
            "paper": LENET_PAPER,
            "default": replace(LENET_PAPER, schedule="one_cycle"),
            # One thing of `paper` changed in each, with the same number of steps.
            "mse": replace(LENET_PAPER, task={"loss": "mse"}),
            "no_batch_norm": replace(LENET_PAPER, model={"batch_norm": False}),
            "no_augment": PAPER,
        },
        tags=("small", "convolution", "numpy"),
    )
    return [fcn, lenet]


@zoo.hookimpl
def zoo_trainers() -> list[zoo.TrainerEntry]:
    return [
        zoo.TrainerEntry(
            name="numpy",
            target="zoo_numpy.trainer:NumpyTrainer",
            summary="Models of zoo_numpy, on a CPU, without torch",
            framework="numpy",
        )
    ]


@zoo.hookimpl
def zoo_manifests() -> list[str]:
    return ["zoo_numpy:weights.json"]
