"""How the adversarial networks draw samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import zoo


class FromNoise(zoo.Generator):
    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.noise = (model.noise,)

    def network(self, noise: Tensor, conditions: Tensor | None = None) -> Tensor:
        if conditions is None:
            return self.model.generator(noise)
        return self.model.generate(noise, conditions)

    @torch.inference_mode()
    def draw(self, noise: np.ndarray, conditions: np.ndarray | None) -> np.ndarray:
        parameter = next(self.model.eval().parameters())
        z = torch.from_numpy(noise).to(parameter.device, parameter.dtype)
        labels = None if conditions is None else torch.from_numpy(conditions).to(parameter.device)
        return self.network(z, labels).float().cpu().numpy()


class FromLabel(FromNoise):
    def conditions(self, classes: Sequence[str]) -> Sequence[str]:
        return classes
