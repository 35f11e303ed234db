"""What the network sees before it decides: the hidden layer, for `zoo generate --distance`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from zoo_cnn.cnn import CNN


@torch.inference_mode()
def hidden(model: CNN, images: Tensor) -> np.ndarray:
    """(B, hidden)"""
    parameter = next(model.parameters())
    maps = model.eval().features(images.to(parameter.device, parameter.dtype))
    return model.head[:-1](maps).float().cpu().numpy()
