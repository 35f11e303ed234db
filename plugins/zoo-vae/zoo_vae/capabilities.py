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

    @torch.inference_mode()
    def draw(self, noise: np.ndarray, conditions: np.ndarray | None) -> np.ndarray:
        return as_array(self.model.eval().decoder(like(self.model, noise)))


class FromLabel(FromCode):
    """The same, under a label."""

    def conditions(self, classes: Sequence[str]) -> Sequence[str]:
        return classes

    @torch.inference_mode()
    def draw(self, noise: np.ndarray, conditions: np.ndarray | None) -> np.ndarray:
        assert conditions is not None
        z, labels = like(self.model, noise), like(self.model, conditions)
        return as_array(self.model.eval().decode(z, labels))


class NearCentres(FromCode):
    """The decoder on codes around the centres of clusters, once there are some."""

    def conditions(self, classes: Sequence[str]) -> Sequence[str]:
        if not self.model.centres.any():
            return ()
        return [classes[number] for number in self.model.names.tolist()]

    @torch.inference_mode()
    def draw(self, noise: np.ndarray, conditions: np.ndarray | None) -> np.ndarray:
        if conditions is None:
            return super().draw(noise, None)
        centres = as_array(self.model.centres)[conditions]
        return super().draw((centres + NEAR * noise).astype(np.float32), None)
