"""Softmax regression: one weight for each pixel and class.

A model of any framework. The zoo's base trainer wants the names below; a trainer that brings its
own `tensor_spec`, `load_state` and `describe` can have a model of any form.
"""

from typing import Any

import numpy as np


class Weight(np.ndarray):
    """An array that says whether it is trained."""

    requires_grad = True


class Sums:
    def __init__(
        self, *, num_classes: int = 10, in_channels: int = 3, image_size: int = 32
    ) -> None:
        pixels = in_channels * image_size * image_size
        self.weight = np.zeros((pixels, num_classes), np.float32)
        self.bias = np.zeros(num_classes, np.float32)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        return images.reshape(len(images), -1) @ self.weight + self.bias  # (B, num_classes)

    def parameters(self) -> list[Any]:
        return [self.weight.view(Weight), self.bias.view(Weight)]

    def state_dict(self) -> dict[str, np.ndarray]:
        return {"weight": self.weight, "bias": self.bias}

    def load_state_dict(self, tensors: dict[str, np.ndarray], strict: bool = True) -> None:
        for name, array in tensors.items():
            getattr(self, name)[...] = array
