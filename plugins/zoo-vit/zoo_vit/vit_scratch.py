"""A larger vision transformer whose layers share one norm, for images of 224 pixels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo_vit.block import Attention
from zoo_vit.patches import cut, patches_of


class Layer(nn.Module):
    """Attention, then an MLP that begins with a norm of its own; `norm` is everybody's."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)
        )

    def forward(self, tokens: Tensor, norm: nn.Module, first: int | None = None) -> Tensor:
        kept = tokens[:, :first] + self.attention(norm(tokens), first)
        return kept + self.mlp(norm(kept))


class ViTScratch(nn.Module):
    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 224,
        patch_size: int = 16,
        width: int = 768,
        depth: int = 8,
        heads: int = 12,
        hidden: int = 2048,
        pool: str = "class",
    ) -> None:
        super().__init__()
        patches = patches_of(image_size, patch_size)
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth}")
        if pool not in ("class", "mean"):
            raise ValueError(f"pool must be class or mean, not {pool!r}")
        values = in_channels * patch_size * patch_size
        self.patch_size = patch_size
        self.pool = pool
        self.embed = nn.Sequential(
            nn.LayerNorm(values), nn.Linear(values, width), nn.LayerNorm(width)
        )
        self.class_token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 1 + patches, width))
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Layer(width, heads, hidden) for _ in range(depth))
        self.head = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.embed(cut(images, self.patch_size))  # (B, patches, width)
        asking = self.class_token.expand(tokens.shape[0], -1, -1)
        tokens = torch.cat([asking, tokens], dim=1) + self.positions
        for block in self.blocks[:-1]:
            tokens = block(tokens, self.norm)
        # The head needs the class token alone, or the mean over all tokens.
        last = self.blocks[-1](tokens, self.norm, first=1 if self.pool == "class" else None)
        return self.head(self.norm(last).mean(1))  # (B, num_classes)
