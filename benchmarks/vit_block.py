"""nano_vit_p4 against the same network made of nn.TransformerEncoderLayer, in one run.

    python benchmarks/vit_block.py [--batch 128] [--repeat 5]

Both take training steps (forward, backward, Adam) on the same random batch, with dropout 0.1.
Torch's layer drops attention weights, the output of attention, the hidden layer and the output of
the MLP; ours the same but for the attention weights; both drop after embedding. Asked for: 1.4x.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import zoo


class Reference(nn.Module):
    """As one would write it with torch's own layers."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 192, 4, stride=4)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 192))
        self.positions = nn.Parameter(torch.zeros(1, 65, 192))
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(192, 8, 384, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4)
        self.head = nn.Sequential(nn.LayerNorm(192), nn.Linear(192, 10))

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.embed(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(tokens), -1, -1), tokens], dim=1)
        encoded = self.encoder(self.dropout(tokens + self.positions))
        answer: Tensor = self.head(encoded[:, 0])
        return answer


class PlainDropout(nn.Dropout):
    """torch's own, to see what ours saves."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=5, help="best of so many steps of each")
    options = parser.parse_args()
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    images = torch.randn(options.batch, 3, 32, 32)
    labels = torch.randint(0, 10, (options.batch,))
    networks = {
        "nn.TransformerEncoderLayer": Reference(0.1),
        "nano_vit_p4": zoo.create("nano_vit_p4"),
        "nano_vit_p4, torch's dropout": with_plain_dropout(zoo.create("nano_vit_p4")),
        "nano_vit_p4, no dropout": zoo.create("nano_vit_p4", dropout=0.0),
        "nn.TransformerEncoderLayer, no dropout": Reference(0.0),
    }
    sizes = {sum(p.numel() for p in network.parameters()) for network in networks.values()}
    assert len(sizes) == 1, sizes
    optimizers = {
        name: torch.optim.Adam(network.parameters(), 1e-4, fused=True)
        for name, network in networks.items()
    }
    best = dict.fromkeys(networks, float("inf"))
    for round_ in range(options.repeat + 1):  # the first is for warming up
        for name, network in networks.items():
            started = time.perf_counter()
            F.cross_entropy(network.train()(images), labels).backward()
            optimizers[name].step()
            optimizers[name].zero_grad()
            if round_:
                best[name] = min(best[name], time.perf_counter() - started)
    print(f"{sizes.pop():,} parameters, batch {options.batch}, {torch.get_num_threads()} threads")
    for name, seconds in best.items():
        print(f"{name:40} {options.batch / seconds:7.0f} images/s")
    ratio = best["nn.TransformerEncoderLayer"] / best["nano_vit_p4"]
    cost = 1 - best["nano_vit_p4, no dropout"] / best["nano_vit_p4"]
    print(f"nano_vit_p4 is {ratio:.2f}x as fast; dropout is {cost:.0%} of its step")


def with_plain_dropout(network: nn.Module) -> nn.Module:
    for module in list(network.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout):
                setattr(module, name, PlainDropout(child.p))
    return network


if __name__ == "__main__":
    main()
