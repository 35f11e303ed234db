"""What zoo-patch-lstm contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_models() -> list[zoo.ModelEntry]:
    return [
        zoo.ModelEntry(
            name="patch_lstm",
            target="zoo_patch_lstm.patch_lstm:PatchLSTM",
            summary="Bidirectional LSTM over patches of 2 pixels",
            config={
                "patch_size": 2,
                "width": 128,
                "hidden": 256,
                "layers": 2,
                "dropout": 0.1,
                "read": "last",
                "memory": 0.0,
            },
            ranges={
                "image_size": (1, 1024),
                "patch_size": (1, 256),
                "width": (1, 4096),
                "hidden": (1, 4096),
                "layers": (1, 64),
            },
            choices={"read": ("last", "ends", "mean")},
            parameters=2_536_842,
            recipes={
                "paper": zoo.Recipe(optimizer="adam", lr=4.25e-4, epochs=20, seed=3407),
                "default": zoo.Recipe(
                    optimizer="adamw",
                    lr=2e-3,
                    weight_decay=0.01,
                    schedule="one_cycle",
                    clip_grad=1.0,
                    batch_size=64,
                    epochs=5,
                    augment=("flip",),
                    model={"read": "mean", "memory": 2.0},
                ),
            },
            tags=("recurrent",),
        )
    ]


@zoo.hookimpl
def zoo_manifests() -> list[str]:
    return ["zoo_patch_lstm:weights.json"]
