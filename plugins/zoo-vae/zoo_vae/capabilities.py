"""How the autoencoders draw samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import zoo

NEAR = 0.5  # how far from the centre of a cluster samples of it are drawn


def as_array(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()


def like(model: Any, array: np.ndarray) -> Tensor:
    """An array on the model's device and, unless it is whole numbers, in its dtype."""
    parameter = next(model.parameters())
    tensor = torch.from_numpy(array).to(parameter.device)
    return tensor.to(parameter.dtype) if tensor.is_floating_point() else tensor


class FromCode(zoo.Generator):
    """The decoder on codes drawn from the prior."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.noise = (model.latent,)

    def network(self, noise: Tensor, conditions: Tensor | None = None) -> Tensor:
        return self.model.decoder(noise)

    @torch.inference_mode()
    def draw(self, noise: np.ndarray, conditions: np.ndarray | None) -> np.ndarray:
        model = self.model.eval()
        labels = None if conditions is None else like(model, conditions)
        return as_array(self.network(like(model, noise), labels))


class FromLabel(FromCode):
    """The same, under a label."""

    def conditions(self, classes: Sequence[str]) -> Sequence[str]:
        return classes

    def network(self, noise: Tensor, conditions: Tensor | None = None) -> Tensor:
        return self.model.decode(noise, conditions)


class NearCentres(FromCode):
    """The decoder on codes around the centres of clusters, once there are some."""

    def conditions(self, classes: Sequence[str]) -> Sequence[str]:
        if not self.model.centres.any():
            return ()
        return [classes[number] for number in self.model.names.tolist()]

    def network(self, noise: Tensor, conditions: Tensor | None = None) -> Tensor:
        codes = noise if conditions is None else self.model.centres[conditions] + NEAR * noise
        return super().network(codes)
