"""What zoo-mixer contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_models():
    return [
        zoo.ModelEntry(
            name="mixer",
            target="zoo_mixer.mixer:Mixer",  # imported when somebody uses the model
            summary="MLPs over patches and over channels, in turn",
            config={
                "patch_size": 4,
                "width": 128,
                "depth": 4,
                "hidden": 256,
                "token_hidden": 64,
            },
            ranges={  # the least and the most of each
                "image_size": (1, 1024),
                "patch_size": (1, 256),
                "width": (1, 4096),
                "depth": (0, 128),
                "hidden": (1, 16_384),
                "token_hidden": (1, 16_384),
            },
            parameters=306_826,  # for these options; `zoo plugin check` counts them
            dataset="cifar10",
            recipes={
                "default": zoo.Recipe(
                    optimizer="adamw",
                    lr=2e-3,
                    weight_decay=0.05,
                    schedule="one_cycle",
                    epochs=10,
                    augment=("flip", "crop:4"),
                ),
            },
            tags=("small", "mlp"),
            reference="https://arxiv.org/abs/2105.01601",
        )
    ]
