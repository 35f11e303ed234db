"""Grad-CAM for any module: feature maps times the gradient of an answer, found by hooks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

LEAST = 4  # places in a row of a map that says where something is
MOST_TOKENS = 8  # before the patches: a class, registers


def evidence_of(model: nn.Module, images: Tensor, output: int) -> np.ndarray | None:
    """How much each place of the last feature maps adds to an output: (rows, columns) of one image.

    Products of maps and gradients, place by place (HiResCAM), summed over channels. Grad-CAM's mean
    gradient is right only where an average over all places follows. All modules count that give
    maps of the same size as the last one: one layer of a transformer says little.
    """
    found: dict[int, Tensor] = {}

    def keep(module: nn.Module, inputs: tuple[Any, ...], given: Any) -> None:
        if isinstance(given, Tensor) and given.requires_grad and len(_grid(given)):
            found[id(given)] = given  # a Sequential gives the same tensor as its last module

    hooks = [module.register_forward_hook(keep) for module in model.eval().modules()]
    like = next(model.parameters())
    try:
        with torch.enable_grad():
            answer = model(images.to(like.device, like.dtype).requires_grad_())[0, output]
    finally:
        for hook in hooks:
            hook.remove()
    if not found or not answer.requires_grad:
        return None
    gradients = torch.autograd.grad(answer, list(found.values()), allow_unused=True)
    both = zip(found.values(), gradients, strict=True)
    maps = [_grid(t.detach() * g)[0].sum(-1) for t, g in both if g is not None and g.any()]
    same = [one.float() for one in maps if one.shape == maps[-1].shape]
    return torch.stack(same).sum(0).cpu().numpy() if maps else None


def _grid(given: Tensor) -> Tensor:
    """Maps as (B, side, side, C), whatever the order is, or tokens; otherwise empty."""
    if given.ndim == 4 and given.shape[2] == given.shape[3] >= LEAST:
        return given.permute(0, 2, 3, 1)
    if given.ndim == 4 and given.shape[1] == given.shape[2] >= LEAST:
        return given
    for extra in range(MOST_TOKENS + 1) if given.ndim == 3 else ():
        side = round(max(given.shape[1] - extra, 0) ** 0.5)
        if side >= LEAST and side**2 == given.shape[1] - extra:
            return given[:, extra:].reshape(len(given), side, side, -1)
    return given[:0]
