"""ViT-B/16 up to the class token after the last norm: 768 features of an image.

The parts have the names that torchvision gives them, so that its weights fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import zoo

EPS = 1e-6
MOST = 16_384  # tokens: attention to more would take gigabytes


class Layer(nn.Module):
    """Attention, then an MLP, each on what was normalised before and added to what came in."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, EPS)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width, EPS)
        # The two layers between have no weights; torchvision has dropout there, and counts it.
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Identity(), nn.Linear(hidden, width)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        normed = self.ln_1(tokens)  # (B, T, C)
        tokens = tokens + self.attend(normed)
        return tokens + self.mlp(self.ln_2(tokens))

    def attend(self, tokens: Tensor) -> Tensor:
        layer = self.self_attention
        mixed = F.linear(tokens, layer.in_proj_weight, layer.in_proj_bias)  # (B, T, 3 C)
        query, key, value = (
            part.view(*part.shape[:2], layer.num_heads, -1).transpose(1, 2)
            for part in mixed.chunk(3, 2)
        )  # (B, heads, T, C / heads)
        found = F.scaled_dot_product_attention(query, key, value)
        return layer.out_proj(found.transpose(1, 2).flatten(2))


class ViT(nn.Module):
    """Images (B, 3, h, w) to features (B, width)."""

    def __init__(
        self, *, in_channels: int, image_size: int, patch_size: int, width: int, depth: int,
        heads: int, hidden: int,
    ) -> None:  # fmt: skip
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"patch_size {patch_size} does not divide image_size {image_size}")
        if heads < 1 or width % heads:
            raise ValueError(f"heads {heads} does not divide width {width}")
        tokens = 1 + (image_size // patch_size) ** 2
        if tokens > MOST:
            raise ValueError(f"an image has {tokens:,} patches; at most {MOST:,} are allowed")
        self.conv_proj = nn.Conv2d(in_channels, width, patch_size, patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.encoder: Any = nn.Module()
        self.encoder.pos_embedding = nn.Parameter(0.02 * torch.randn(1, tokens, width))
        self.encoder.layers = nn.Sequential()
        for number in range(depth):
            self.encoder.layers.add_module(f"encoder_layer_{number}", Layer(width, heads, hidden))
        self.encoder.ln = nn.LayerNorm(width, EPS)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.conv_proj(images).flatten(2).transpose(1, 2)  # (B, T - 1, C)
        first = self.class_token.expand(images.shape[0], -1, -1)
        tokens = torch.cat((first, patches), 1) + self.encoder.pos_embedding
        return self.encoder.ln(self.encoder.layers(tokens))[:, 0]


# ---------------------------------------------------------------- the model of the zoo

IMAGENET = zoo.Pretrained(
    name="ViT-B/16, ImageNet (torchvision's IMAGENET1K_V1)",
    url="https://download.pytorch.org/models/vit_b_16-c867db91.pth",
    sha256="c867db91",
    option="backbone_weights",
)


def finetune(
    *,
    in_channels: int = 3,
    image_size: int = 224,
    patch_size: int = 16,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    mlp: int = 3072,
    backbone_weights: str = "",
    **head: Any,
) -> zoo.FrozenModel:
    backbone = ViT(
        in_channels=in_channels, image_size=image_size, patch_size=patch_size, width=width,
        depth=depth, heads=heads, hidden=mlp,
    )  # fmt: skip
    # The number of heads shows in no weight; the words must have it.
    name = f"vit 1, {heads} heads"
    return zoo.FrozenModel(
        backbone, width, name=name, layer="encoder.ln", pooling="class token", **head
    )


def imagenet_tensors(
    config: Mapping[str, Any], say: Callable[[str], None]
) -> dict[str, np.ndarray]:
    return zoo.pretrained_tensors(IMAGENET, config["backbone_weights"], say)
