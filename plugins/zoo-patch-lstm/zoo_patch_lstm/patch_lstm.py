"""An image read like a text: its patches, row by row, through a bidirectional LSTM."""

from __future__ import annotations

from math import isqrt

import torch
from torch import Tensor, nn

MOST = 16_384  # patches, which are read one after the other


class PatchLSTM(nn.Module):
    """`read` says which outputs the head sees.

    "last" is the last time step: there the forward half has read every patch and the backward half
    one alone. "ends" takes each direction where it has read everything. "mean" is the average over
    all time steps: no patch is further from the head than another, so it learns soonest.

    `memory` is the bias of the forget gates at the start. At 0 they are half shut, and a cell fades
    within one or two patches; at 2 they keep 88 % a step, and it fades over eight.
    """

    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 32,
        patch_size: int = 2,
        width: int = 128,
        hidden: int = 256,
        layers: int = 2,
        dropout: float = 0.1,
        read: str = "last",
        memory: float = 0.0,
    ) -> None:
        super().__init__()
        if patch_size < 1:
            raise ValueError(f"patch_size must be at least 1, not {patch_size}")
        if image_size % patch_size:
            small = [n for n in range(1, isqrt(image_size) + 1) if image_size % n == 0]
            divisors = [*small, *(image_size // n for n in reversed(small))]
            raise ValueError(
                f"patches of {patch_size} pixels do not fill an image of {image_size}; "
                f"try {min(divisors, key=lambda n: abs(n - patch_size))}"
            )
        if read not in ("last", "ends", "mean"):
            raise ValueError(f"read must be last, ends or mean, not {read!r}")
        self.read = read
        self.hidden = hidden
        patches = (image_size // patch_size) ** 2
        if patches > MOST:
            raise ValueError(
                f"patches of {patch_size} pixels cut an image of {image_size} into {patches:,}; "
                f"at most {MOST:,} are allowed"
            )
        self.embed = nn.Conv2d(in_channels, width, patch_size, stride=patch_size)
        self.positions = nn.Parameter(torch.randn(1, patches, width))
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(
            width, hidden, layers, batch_first=True, bidirectional=True,
            dropout=dropout if layers > 1 else 0.0,
        )  # fmt: skip
        if memory:
            for name, bias in self.lstm.named_parameters():
                if name.startswith("bias_hh"):  # in torch's order: input, forget, cell, output gate
                    nn.init.constant_(bias[hidden : 2 * hidden], memory)
        self.head = nn.Sequential(
            nn.LayerNorm(2 * hidden),
            nn.Linear(2 * hidden, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, num_classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        patches = self.embed(images).flatten(2).transpose(1, 2)  # (B, patches, width)
        states, _ = self.lstm(self.dropout(patches + self.positions))  # (B, patches, 2 * hidden)
        if self.read == "last":
            return self.head(states[:, -1])  # (B, num_classes)
        if self.read == "mean":
            return self.head(states.mean(1))
        forward, backward = states[:, -1, : self.hidden], states[:, 0, self.hidden :]
        return self.head(torch.cat([forward, backward], dim=1))
