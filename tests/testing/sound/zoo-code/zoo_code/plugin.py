import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_models():
    return [
        zoo.ModelEntry(
            name="code",
            target="zoo_code.code:Code",
            summary="A small autoencoder",
            kinds=("generation",),
            num_classes=None,
            image_size=8,
            config={"latent": 4},
            ranges={"latent": (1, 512)},
            parameters=1_732,
            task="zoo_code.code:Coding",
            capabilities={
                "generate": "zoo_code.capabilities:FromCode",
                "features": "zoo_code.capabilities:codes",
            },
            recipes={"default": zoo.Recipe(lr=1e-3, epochs=5, task={"beta": 0.1})},
        )
    ]
