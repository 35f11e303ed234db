"""What zoo-sklearn contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_trainers():
    return [
        zoo.TrainerEntry(
            name="sklearn",
            target="zoo_sklearn.trainer:SklearnTrainer",
            summary="Fits estimators of scikit-learn in one go",
            framework="numpy",
        )
    ]


@zoo.hookimpl
def zoo_models():
    shared = {"trainer": "sklearn", "framework": "numpy", "dataset": "mnist"}
    shared |= {"in_channels": 1, "image_size": 28}
    return [
        zoo.ModelEntry(
            name="logistic_regression",
            target="zoo_sklearn.models:LogisticRegression",
            summary="A weight for each pixel and class",
            config={"penalty": 1.0, "iterations": 100},
            ranges={"iterations": (1, 100_000)},
            parameters=7_850,
            **shared,
        ),
        zoo.ModelEntry(
            name="random_forest",
            target="zoo_sklearn.models:RandomForest",
            summary="Decision trees that vote; how many nodes they have, the data decides",
            config={"trees": 100, "depth": 12},
            ranges={"trees": (1, 10_000), "depth": (1, 100)},
            **shared,
        ),
    ]
