import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_models():
    return [
        zoo.ModelEntry(
            name="gaze",
            target="zoo_gaze.gaze:Gaze",
            summary="A small transformer over patches",
            image_size=8,
            config={"patch_size": 4, "width": 16, "heads": 2, "depth": 1, "hidden": (24,)},
            ranges={
                "patch_size": (1, 64),
                "width": (1, 512),
                "heads": (1, 64),
                "depth": (0, 16),
                "hidden": (1, 512),
            },
            parameters=2_946,
            capabilities={
                "attention": "zoo_gaze.capabilities:attention",
                "features": "zoo_gaze.capabilities:features",
            },
            recipes={
                "default": zoo.Recipe(optimizer="adamw", lr=2e-3, augment=("flip", "crop:1")),
                "long": zoo.Recipe(optimizer="adamw", lr=1e-3, epochs=50, model={"depth": 2}),
            },
        )
    ]
