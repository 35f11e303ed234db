"""A vision transformer: patches and a class token, encoder blocks, a head on the class token."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo_vit.block import Block, Dropout
from zoo_vit.patches import cut, patches_of


class ViT(nn.Module):
    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 32,
        patch_size: int = 4,
        width: int = 192,
        depth: int = 4,
        heads: int = 8,
        hidden: int = 384,
        activation: str = "relu",
        norm: str = "post",
        positions: str = "zeros",
        dropout: float = 0.1,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        patches = patches_of(image_size, patch_size)
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth}")
        if positions not in ("zeros", "normal"):
            raise ValueError(f"positions must be zeros or normal, not {positions!r}")
        # Heads keep their size, so that attention needs no scale of its own.
        width, heads, hidden = (round(scale * size) for size in (width, heads, hidden))
        if min(width, hidden) < 1:
            raise ValueError(f"scale {scale:g} leaves a layer with nothing in it")
        start = torch.zeros if positions == "zeros" else torch.randn
        self.patch_size = patch_size
        self.embed = nn.Linear(in_channels * patch_size * patch_size, width)
        self.class_token = nn.Parameter(start(1, 1, width))
        self.positions = nn.Parameter(start(1, 1 + patches, width))
        self.dropout = Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(width, heads, hidden, activation=activation, norm=norm, dropout=dropout)
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.embed(cut(images, self.patch_size))  # (B, patches, width)
        asking = self.class_token.expand(tokens.shape[0], -1, -1)
        tokens = self.dropout(torch.cat([asking, tokens], dim=1) + self.positions)
        for block in self.blocks[:-1]:
            tokens = block(tokens)
        answer = self.blocks[-1](tokens, first=1)[:, 0]  # the class token alone: (B, width)
        return self.head(self.norm(answer))  # (B, num_classes)
