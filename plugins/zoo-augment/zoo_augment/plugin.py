"""What zoo-augment contributes: words for `augment` in a recipe."""

from __future__ import annotations

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_augmentations() -> list[zoo.AugmentationEntry]:
    return [
        zoo.AugmentationEntry(
            name="jitter",
            target="zoo_augment.words:Jitter",
            summary="Change brightness, contrast, saturation and hue",
            example="jitter:0.4,hue=0.1",
        ),
        zoo.AugmentationEntry(
            name="trivial",
            target="zoo_augment.words:Trivial",
            summary="One of 14 changes, of any strength: TrivialAugment",
            example="trivial",
        ),
        zoo.AugmentationEntry(
            name="rand",
            target="zoo_augment.words:Rand",
            summary="Two of 14 changes, of one strength: RandAugment",
            example="rand:2,9",
        ),
    ]
