"""What zoo-vae contributes. Light on purpose: everybody's `zoo list` imports this file."""

from dataclasses import replace

import zoo

ZOO_API = 1

CODE = {"latent": 128, "output": "sigmoid"}
RANGES = {"image_size": (1, 512), "latent": (1, 4096)}
OUTPUTS = {"output": ("sigmoid", "tanh")}
UNIT = {"mean": (0.0,), "std": (1.0,)}  # pixels from 0 to 1, as sigmoid gives them
SYMMETRIC = {"mean": (0.5,), "std": (0.5,)}  # from -1 to 1, as tanh gives them
PAPER = zoo.Recipe(optimizer="adam", lr=1e-3, epochs=30, batch_size=128, preprocess=UNIT)
FACES = zoo.Recipe(
    optimizer="adam",
    lr=1e-4,
    epochs=30,
    batch_size=256,
    preprocess={"size": 64, **SYMMETRIC},
    model={"output": "tanh"},
    task={"beta": 1.0},
)
DEFAULT = replace(PAPER, schedule="one_cycle", lr=2e-3, epochs=8, augment=("flip",))


@zoo.hookimpl
def zoo_models() -> list[zoo.ModelEntry]:
    return [
        zoo.ModelEntry(
            name="vae",
            target="zoo_vae.vae:VAE",
            summary="Variational autoencoder, a code of 128 numbers",
            kinds=("generation",),
            num_classes=None,
            config=CODE,
            choices=OUTPUTS,
            ranges=RANGES,
            parameters=2_607_939,
            task="zoo_vae.vae:VAETask",
            capabilities={"generate": "zoo_vae.capabilities:FromCode"},
            recipes={"paper": FACES, "paper_32": PAPER, "default": DEFAULT},
            tags=("small", "convolution", "autoencoder"),
            reference="https://arxiv.org/abs/1312.6114",
        ),
        zoo.ModelEntry(
            name="vae_cluster",
            target="zoo_vae.clusters:VAEClusters",
            summary="Variational autoencoder with k-means on its codes",
            kinds=("clustering", "generation"),
            config={"clusters": 10, **CODE},
            choices=OUTPUTS,
            ranges={**RANGES, "clusters": (1, 10_000)},
            parameters=2_607_939,
            task="zoo_vae.clusters:VAEClustersTask",
            capabilities={"generate": "zoo_vae.capabilities:NearCentres"},
            recipes={"paper": PAPER, "default": DEFAULT},
            tags=("small", "convolution", "autoencoder"),
            reference="https://arxiv.org/abs/1312.6114",
        ),
        zoo.ModelEntry(
            name="cvae",
            target="zoo_vae.cvae:CVAE",
            summary="Conditional autoencoder, classifies by trying labels",
            kinds=("classification", "generation"),
            config=CODE,
            choices=OUTPUTS,
            ranges=RANGES,
            parameters=2_651_459,
            task="zoo_vae.cvae:CVAETask",
            capabilities={"generate": "zoo_vae.capabilities:FromLabel"},
            recipes={"paper": PAPER, "default": replace(DEFAULT, task={"beta": 10.0})},
            tags=("small", "convolution", "autoencoder"),
            reference="https://arxiv.org/abs/1406.5298",
        ),
        zoo.ModelEntry(
            name="cvae_classifier",
            target="zoo_vae.cvae_classifier:CVAEClassifier",
            summary="Conditional autoencoder with a classifier",
            kinds=("classification", "generation"),
            config={"dropout": 0.0, **CODE},
            choices=OUTPUTS,
            ranges=RANGES,
            parameters=2_692_429,
            task="zoo_vae.cvae_classifier:CVAEClassifierTask",
            capabilities={"generate": "zoo_vae.capabilities:FromLabel"},
            recipes={
                "paper": PAPER,
                # Mirrored edges rather than crop's black ones, which it would learn to draw.
                "default": replace(
                    DEFAULT, epochs=12, augment=("flip", "shift:2"), model={"dropout": 0.2}
                ),
            },
            tags=("small", "convolution", "autoencoder"),
            reference="https://arxiv.org/abs/1406.5298",
        ),
        zoo.ModelEntry(
            name="vqvae",
            target="zoo_vae.vqvae:VQVAE",
            summary="Vector-quantised autoencoder, 512 codes, no samples",
            kinds=("generation",),
            num_classes=None,
            config={"codes": 512, "width": 64, "output": "sigmoid"},
            choices=OUTPUTS,
            ranges={"image_size": (1, 512), "codes": (1, 65_536), "width": (1, 1024)},
            parameters=654_211,
            task="zoo_vae.vqvae:VQVAETask",
            recipes={"default": DEFAULT},
            tags=("small", "convolution", "autoencoder"),
            reference="https://arxiv.org/abs/1711.00937",
        ),
    ]


@zoo.hookimpl
def zoo_manifests() -> list[str]:
    return ["zoo_vae:weights.json"]
