"""What zoo-frozen contributes. Light on purpose: everybody's `zoo list` imports this file."""

from collections.abc import Mapping
from typing import Any

import zoo

ZOO_API = 1

HEAD = {"head": "linear", "hidden": 512, "dropout": 0.0, "backbone_weights": ""}
RANGES = {"image_size": (1, 1024), "hidden": (1, 65_536)}
HEADS = {"head": ("linear", "mlp")}
FEATURES = {"features": "zoo:features_of"}
# What each backbone was trained with. The resizing is bilinear, antialiased where it shrinks.
IMAGENET = {
    "size": 224,
    "channels": 3,
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
}
TENSORFLOW = {**IMAGENET, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}


def recipes(
    preprocess: Mapping[str, Any], tuned: tuple[str, float] = ("last:2", 1e-4), **paper: Any
) -> dict[str, zoo.Recipe]:
    """tuned: which layers fine-tuning changes, and its rate; docs/results.md compares.

    `paper`, where there is one, is the published way: Adam and batches of 128."""
    way, rate = tuned
    chosen = {
        "default": zoo.Recipe(
            optimizer="adamw",
            lr=2e-3,
            weight_decay=0.01,
            schedule="one_cycle",
            epochs=20,
            batch_size=512,
            preprocess=preprocess,
        ),
        "few_images": zoo.Recipe(
            optimizer="lbfgs", weight_decay=3e-3, epochs=4, preprocess=preprocess
        ),
        # Of the training that follows the head's; what it starts from is always solved.
        "finetune": zoo.Recipe(
            optimizer="adamw",
            lr=rate,
            weight_decay=0.05,
            decay="matrices",
            schedule="one_cycle",
            epochs=5,
            batch_size=32,
            augment=("flip",),
            clip_grad=1.0,
            validation_fraction=0.1,
            preprocess=preprocess,
            task={"finetune": way},
        ),
    }
    if paper:
        chosen["paper"] = zoo.Recipe(optimizer="adam", seed=3407, preprocess=preprocess, **paper)
    return chosen


@zoo.hookimpl
def zoo_models() -> list[zoo.ModelEntry]:
    return [
        zoo.ModelEntry(
            name="efficientnet_lite0_finetune",
            target="zoo_frozen.efficientnet_lite0:finetune",
            summary="A head on EfficientNet-Lite0; its ImageNet weights (Apache-2.0) come along",
            image_size=224,
            config=HEAD,
            choices=HEADS,
            ranges=RANGES,
            parameters=12_810,
            total_parameters=3_383_818,
            trainer="frozen",
            capabilities={"backbone": "zoo_frozen.efficientnet_lite0:imagenet_tensors", **FEATURES},
            recipes=recipes(TENSORFLOW, tuned=("last:6", 5e-4)),
            tags=("frozen", "convolution", "pretrained"),
            reference="https://blog.tensorflow.org/2020/03/higher-accuracy-on-vision-models-with-efficientnet-lite.html",
        ),
        zoo.ModelEntry(
            name="vit_b16_finetune",
            target="zoo_frozen.vit_b16:finetune",
            summary="A head on ViT-B/16 with torchvision's ImageNet weights",
            image_size=224,
            config={"patch_size": 16, "width": 768, "depth": 12, "heads": 12, "mlp": 3072, **HEAD},
            choices=HEADS,
            ranges={
                **RANGES,
                "patch_size": (1, 256),
                "width": (1, 4096),
                "depth": (1, 128),
                "heads": (1, 256),
                "mlp": (1, 16_384),
            },
            parameters=7_690,
            total_parameters=85_806_346,
            trainer="frozen",
            capabilities={"backbone": "zoo_frozen.vit_b16:imagenet_tensors", **FEATURES},
            recipes=recipes(IMAGENET, lr=3.08e-4, epochs=45),
            tags=("frozen", "attention", "pretrained"),
            reference="https://arxiv.org/abs/2010.11929",
        ),
        zoo.ModelEntry(
            name="mobilenet_v2_finetune",
            target="zoo_frozen.mobilenet_v2:finetune",
            summary="A head on MobileNetV2 with torchvision's ImageNet weights",
            image_size=224,
            config=HEAD,
            choices=HEADS,
            ranges=RANGES,
            parameters=12_810,
            total_parameters=2_236_682,
            trainer="frozen",
            capabilities={"backbone": "zoo_frozen.mobilenet_v2:imagenet_tensors", **FEATURES},
            recipes=recipes(IMAGENET),
            tags=("frozen", "convolution", "pretrained"),
            reference="https://arxiv.org/abs/1801.04381",
        ),
        zoo.ModelEntry(
            name="dinov2_vits14_finetune",
            target="zoo_frozen.dinov2:finetune",
            summary="A head on DINOv2 ViT-S/14 with registers, fine-tuned on medical images",
            image_size=224,
            config={"width": 384, "depth": 12, "heads": 6, **HEAD},
            choices=HEADS,
            ranges={**RANGES, "width": (1, 4096), "depth": (1, 128), "heads": (1, 256)},
            parameters=3_850,
            total_parameters=21_634_186,
            trainer="frozen",
            capabilities={"backbone": "zoo_frozen.dinov2:tensors", **FEATURES},
            recipes=recipes(IMAGENET),
            tags=("frozen", "attention", "pretrained"),
            reference="https://arxiv.org/abs/2309.16588",
        ),
        zoo.ModelEntry(
            name="resnet18_features",
            target="zoo_frozen.resnet18:features",
            summary="A head on ResNet-18 with torchvision's ImageNet weights",
            image_size=224,
            config={"channels": (64, 128, 256, 512), **HEAD},
            choices=HEADS,
            ranges={**RANGES, "channels": (1, 1024)},
            parameters=5_130,
            total_parameters=11_181_642,
            trainer="frozen",
            capabilities={"backbone": "zoo_frozen.resnet18:imagenet_tensors", **FEATURES},
            recipes=recipes(IMAGENET),
            tags=("frozen", "convolution", "residual", "pretrained"),
            reference="https://arxiv.org/abs/1512.03385",
        ),
        zoo.ModelEntry(
            name="timm_frozen",
            target="zoo_frozen.timm_frozen:frozen",
            summary="A head on any network of timm: --set model.backbone=NAME",
            image_size=224,
            config={"backbone": "resnet18.a1_in1k", "pooling": "", **HEAD},
            choices=HEADS,
            ranges=RANGES,
            trainer="frozen",
            capabilities={
                "backbone": "zoo_frozen.timm_frozen:tensors",
                "preprocess": "zoo_frozen.timm_frozen:preprocess",
                "networks": "zoo_frozen.networks:networks",
                **FEATURES,
            },
            recipes=recipes({}),
            tags=("frozen", "pretrained"),
            reference="https://github.com/huggingface/pytorch-image-models",
        ),
    ]


@zoo.hookimpl
def zoo_trainers() -> list[zoo.TrainerEntry]:
    return [
        zoo.TrainerEntry(
            name="frozen",
            target="zoo_frozen.torch.frozen:FrozenTrainer",
            summary="A head on a frozen backbone, whose features are computed once and kept",
            options={  # the default first
                "finetune": "auto, head, last:N, lora:R, all",
                "layer_decay": "1, above 0 to 1",
                "batch_stats": "frozen, trained",
                "dtype": "float16, float32",
                "batch": "0, or a number of images",
            },
        ),
    ]


@zoo.hookimpl
def zoo_manifests() -> list[str]:
    return ["zoo_frozen:weights.json"]


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(
            name="features",
            target="zoo_frozen.command:features_command",
            help="Show, compute and export the features of frozen backbones.",
            functions=("zoo_frozen.compute:compute_features",),
        )
    ]
