"""What the class token looks at, for `zoo explain --method attention`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo_vit.block import Attention


@torch.inference_mode()
def class_attention(model: nn.Module, images: Tensor) -> np.ndarray:
    """How the class token shares its attention out: (layers, B, heads, rows, columns) of patches.

    What it gives to itself is left out, so the shares of an image sum to less than 1.
    """
    seen: list[np.ndarray] = []

    def look(attention: Attention, inputs: tuple[Any, ...]) -> None:
        shares = attention.weights(inputs[0], first=1)[:, :, 0, 1:]  # (B, heads, patches)
        side = round(shares.shape[-1] ** 0.5)
        seen.append(shares.reshape(*shares.shape[:-1], side, side).float().cpu().numpy())

    layers = [layer for layer in model.modules() if isinstance(layer, Attention)]
    hooks = [layer.register_forward_pre_hook(look) for layer in layers]
    try:
        model.eval()(images)
    finally:
        for hook in hooks:
            hook.remove()
    return np.stack(seen)
