"""What zoo-mlp contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_models():
    return [
        zoo.ModelEntry(
            name="mlp",
            target="zoo_mlp.mlp:MLP",
            summary="Multi-layer perceptron with two hidden layers",
            config={"hidden": (512, 256), "dropout": 0.0},
            parameters=1_707_274,
            recipes={
                "paper": zoo.Recipe(optimizer="adam", lr=5.6e-5, epochs=13, seed=3407),
                "default": zoo.Recipe(optimizer="adam", lr=3e-4, epochs=13),
            },
            tags=("small", "fast"),
        )
    ]
