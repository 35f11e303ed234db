"""What zoo-rotation contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_models():
    recipe = zoo.Recipe(optimizer="adamw", lr=2e-3, weight_decay=0.05, schedule="one_cycle")
    return [
        zoo.ModelEntry(
            name="rotation",
            target="zoo_rotation.network:Rotation",
            task="zoo_rotation.task:Turning",
            kinds=("pretraining",),
            summary="Learns by how much an image is turned; no labels",
            num_classes=None,  # the target does not take it
            config={"width": 32},
            ranges={"width": (1, 1024)},
            parameters=94_212,
            recipes={"default": recipe},
            reference="https://arxiv.org/abs/1803.07728",
        ),
        zoo.ModelEntry(
            name="rotation_classifier",
            target="zoo_rotation.network:Network",
            summary="The network of `rotation` with a head for classes",
            config={"width": 32},
            ranges={"width": (1, 1024)},
            parameters=94_986,
            recipes={"default": recipe},
            reference="https://arxiv.org/abs/1803.07728",
        ),
    ]
