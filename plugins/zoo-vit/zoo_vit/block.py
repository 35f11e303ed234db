"""The transformer's building block: attention, then a small MLP, both around a residual."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


class Dropout(nn.Dropout):
    """nn.Dropout with masks that cost a CPU little.

    Drawing one number for each value took a third of a training step. A single draw of 64 bits
    decides about four values here, each with 16 bits: the rate is right to 1 in 65,536.
    """

    def forward(self, values: Tensor) -> Tensor:
        if not self.training or self.p in (0.0, 1.0) or values.device.type != "cpu":
            return super().forward(values)
        draws = torch.empty((values.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        bits = draws.view(torch.int16)[: values.numel()].view(values.shape)
        kept = bits >= round(self.p * 2**16) - 2**15
        return values * kept.to(values.dtype).mul_(1 / (1 - self.p))


class Attention(nn.Module):
    """Every token asks all tokens, in several heads at once, and gets a mixture of their values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"{heads} heads cannot share a width of {width} evenly")
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        # As nn.MultiheadAttention does: Xavier's bound for the three matrices taken as one.
        for layer in (self.query, self.key_value):
            nn.init.uniform_(layer.weight, -((1.5 / width) ** 0.5), (1.5 / width) ** 0.5)
        for layer in (self.query, self.key_value, self.out):
            nn.init.zeros_(layer.bias)

    def forward(self, tokens: Tensor, first: int | None = None) -> Tensor:
        """What the `first` so many tokens (all, unless said) gather from all of them."""
        query, key, value = self._heads(tokens, first)
        if query.dtype == torch.bfloat16 and query.device.type == "cpu":
            # The fused kernel below takes five times as long there, nearly all of it backward.
            mixed = shares(query, key) @ value
        else:
            # Dropout inside is ten times slower on a CPU, so the attention weights have none.
            mixed = F.scaled_dot_product_attention(query, key, value)  # (B, heads, N, width/heads)
        return self.out(mixed.transpose(1, 2).flatten(2))  # (B, N, width)

    def weights(self, tokens: Tensor, first: int | None = None) -> Tensor:
        """How much each token attends to each: (B, heads, N, N), rows that sum to 1."""
        query, key, _ = self._heads(tokens, first)
        return shares(query, key)

    def _heads(self, tokens: Tensor, first: int | None) -> tuple[Tensor, Tensor, Tensor]:
        query = self.query(tokens[:, :first])
        key, value = self.key_value(tokens).chunk(2, dim=-1)
        query, key, value = (
            x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (query, key, value)
        )
        return query, key, value  # (B, heads, N, width / heads) each


def shares(query: Tensor, key: Tensor) -> Tensor:
    return (query @ key.mT * query.shape[-1] ** -0.5).softmax(-1)


class Block(nn.Module):
    """One encoder layer. `norm` says whether to normalise before each part or after it.

    The same function as nn.TransformerEncoderLayer, with dropout in the same places but for the
    attention weights: after attention, inside the MLP, after the MLP.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        activation: str = "gelu",
        norm: str = "pre",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if norm not in ("pre", "post"):
            raise ValueError(f"norm must be pre or post, not {norm!r}")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be {' or '.join(ACTIVATIONS)}, not {activation!r}")
        self.pre = norm == "pre"
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden),
            ACTIVATIONS[activation](),
            Dropout(dropout),
            nn.Linear(hidden, width),
        )
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, first: int | None = None) -> Tensor:
        """(B, N, width) -> the same, or only its `first` so many tokens.

        Only the class token of the last layer is used, so the last layer need not compute the rest.
        """
        kept = tokens[:, :first]
        if self.pre:
            kept = kept + self.dropout(self.attention(self.norm1(tokens), first))
            return kept + self.dropout(self.mlp(self.norm2(kept)))
        kept = self.norm1(kept + self.dropout(self.attention(tokens, first)))
        return self.norm2(kept + self.dropout(self.mlp(kept)))
