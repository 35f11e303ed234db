"""How the adversarial networks draw samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import zoo


class FromNoise(zoo.Generator):
    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.noise = (model.noise,)

    @torch.inference_mode()
    def draw(self, noise: np.ndarray, conditions: np.ndarray | None) -> np.ndarray:
        model = self.model.eval()
        parameter = next(model.parameters())
        z = torch.from_numpy(noise).to(parameter.device, parameter.dtype)
        if conditions is None:
            return model.generator(z).float().cpu().numpy()
        labels = torch.from_numpy(conditions).to(parameter.device)
        return model.generate(z, labels).float().cpu().numpy()


class FromLabel(FromNoise):
    def conditions(self, classes: Sequence[str]) -> Sequence[str]:
        return classes
