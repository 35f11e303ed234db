"""What zoo-knn contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_trainers():
    return [
        zoo.TrainerEntry(
            name="knn",
            target="zoo_knn.trainer:KNNTrainer",
            summary="Keeps the training images",
            framework="numpy",
        )
    ]


@zoo.hookimpl
def zoo_models():
    return [
        zoo.ModelEntry(
            name="knn",
            target="zoo_knn.knn:KNN",
            summary="The classes of the nearest training images",
            config={"neighbours": 5},
            ranges={"neighbours": (1, 10_000)},
            in_channels=1,
            image_size=28,
            dataset="mnist",
            trainer="knn",
            framework="numpy",
        )
    ]
