"""What zoo-frozen contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1

HEAD = {"head": "linear", "hidden": 512, "dropout": 0.0, "backbone_weights": ""}
# What each backbone was trained with. The resizing is bilinear, antialiased where it shrinks.
IMAGENET = {
    "size": 224,
    "channels": 3,
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
}
TENSORFLOW = {**IMAGENET, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}


def recipes(preprocess, **paper):
    """`paper` is the published way: a new linear head, Adam, batches of 128."""
    return {
        "default": zoo.Recipe(
            optimizer="adamw",
            lr=2e-3,
            weight_decay=0.01,
            schedule="one_cycle",
            epochs=20,
            batch_size=512,
            preprocess=preprocess,
        ),
        "paper": zoo.Recipe(
            **{"optimizer": "adam", "seed": 3407, "preprocess": preprocess, **paper}
        ),
    }


@zoo.hookimpl
def zoo_models():
    return [
        zoo.ModelEntry(
            name="efficientnet_lite0_finetune",
            target="zoo_frozen.efficientnet_lite0:finetune",
            summary="A head on EfficientNet-Lite0, whose ImageNet weights come with the plugin",
            image_size=224,
            config=HEAD,
            parameters=12_810,
            total_parameters=3_383_818,
            trainer="frozen",
            capabilities={"backbone": "zoo_frozen.efficientnet_lite0:imagenet_tensors"},
            recipes=recipes(TENSORFLOW, lr=1e-3, epochs=45),
            tags=("frozen", "convolution", "pretrained"),
            reference="https://blog.tensorflow.org/2020/03/higher-accuracy-on-vision-models-with-efficientnet-lite.html",
        ),
    ]
