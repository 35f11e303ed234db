"""What zoo-mlp contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_models() -> list[zoo.ModelEntry]:
    return [
        zoo.ModelEntry(
            name="mlp",
            target="zoo_mlp.mlp:MLP",
            summary="Multi-layer perceptron with two hidden layers",
            config={"hidden": (512, 256), "dropout": 0.0, "scale": 1.0},
            width="scale",
            ranges={"hidden": (1, 65_536)},
            parameters=1_707_274,
            recipes={
                "paper": zoo.Recipe(optimizer="adam", lr=5.6e-5, epochs=13, seed=3407),
                # Chosen on a part of the training set. Cropped images and dropout cost accuracy:
                # in 13 epochs the network is never far from learning too little.
                "default": zoo.Recipe(
                    optimizer="adamw",
                    lr=1e-3,
                    weight_decay=0.05,
                    schedule="one_cycle",
                    epochs=13,
                    augment=("flip",),
                ),
            },
            tags=("small", "fast"),
        )
    ]


@zoo.hookimpl
def zoo_manifests() -> list[str]:
    return ["zoo_mlp:weights.json"]
