import numpy as np
import torch


@torch.inference_mode()
def attention(model, images):
    """Where the blocks look, the mean over all tokens: (layers, B, heads, rows, columns)."""
    model.eval()(images)
    maps = [block.attention.seen.mean(2) for block in model.blocks]  # (B, heads, tokens) each
    side = round(maps[0].shape[-1] ** 0.5)
    return np.stack([m.reshape(*m.shape[:2], side, side).numpy() for m in maps])


@torch.inference_mode()
def features(model, images):
    return model.eval().features(images).numpy()  # (B, width)
