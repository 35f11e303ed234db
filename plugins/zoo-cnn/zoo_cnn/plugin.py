"""What zoo-cnn contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_models():
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
            },
            parameters=1_147_914,
            recipes={
                "paper": zoo.Recipe(optimizer="adam", lr=1.99e-4, epochs=16, seed=3407),
                "default": zoo.Recipe(optimizer="adam", lr=1e-3, epochs=16),
            },
            tags=("small", "convolution"),
        )
    ]
