"""A transformer over patches; the mean of all tokens decides."""

from itertools import pairwise

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        shares = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)  # (B, heads, T, T)
        self.seen = shares.detach()
        return self.out((shares @ v).transpose(1, 2).reshape(b, t, width))


class Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        sizes = [width, *hidden, width]
        layers = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.GELU()]
        self.mlp = nn.Sequential(*layers[:-1])

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


class Gaze(nn.Module):
    def __init__(
        self,
        *,
        num_classes=10,
        in_channels=3,
        image_size=8,
        patch_size=4,
        width=16,
        heads=2,
        depth=1,
        hidden=(24,),
    ):
        super().__init__()
        if patch_size < 1 or image_size % patch_size:
            raise ValueError(f"patches of {patch_size} pixels do not fill an image of {image_size}")
        if heads < 1 or width < 1 or width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        if depth < 0:
            raise ValueError(f"there cannot be {depth} blocks")
        tokens = (image_size // patch_size) ** 2
        self.patches = nn.Conv2d(in_channels, width, patch_size, stride=patch_size)
        self.place = nn.Parameter(0.02 * torch.randn(tokens, width))
        self.blocks = nn.Sequential(*(Block(width, heads, hidden) for _ in range(depth)))
        self.head = nn.Linear(width, num_classes)

    def features(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.place  # (B, tokens, width)
        return self.blocks(x).mean(1)  # (B, width)

    def forward(self, images):
        return self.head(self.features(images))  # (B, num_classes)
