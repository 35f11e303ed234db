"""The vector-quantised autoencoder: an image is a map of codes out of a codebook."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import zoo
from zoo_vae.networks import CHANNELS, ToPicture, down, side_of, up
from zoo_vae.task import Autoencoding, squared_error

HALVINGS = 2
DEAD = 0.03  # of the use that a code would have if all were used alike, and it is drawn anew


class Residual(nn.Module):
    """A small correction to a map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, channels // 2, 3, padding=1),
            nn.BatchNorm2d(channels // 2),
            nn.ReLU(),
            nn.Conv2d(channels // 2, channels, 1),
        )

    def forward(self, maps: Tensor) -> Tensor:
        return maps + self.layers(maps)


class Codebook(nn.Module):
    """Replaces every vector of a map by the code that is nearest."""

    def __init__(self, codes: int, width: int) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.randn(codes, width))
        # Moving averages: how often a code was the nearest, and the sum of what it was nearest to.
        self.uses: Tensor
        self.sums: Tensor
        self.register_buffer("uses", torch.zeros(codes))
        self.register_buffer("sums", torch.zeros(codes, width))

    def nearest(self, vectors: Tensor) -> Tensor:
        """The numbers of the codes nearest to vectors (n, width): (n,)."""
        away = self.codes.square().sum(1) - 2 * vectors @ self.codes.T  # + |vector|^2, the same
        return away.argmin(1)

    def look_up(self, numbers: Tensor) -> Tensor:
        """Maps (B, width, h, w) of code numbers (B, h, w)."""
        return self.codes[numbers].movedim(3, 1)

    def forward(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """The quantised maps, and the numbers of their codes (B, h, w)."""
        batch, _, height, width = maps.shape
        numbers = self.nearest(maps.movedim(1, 3).flatten(0, 2)).view(batch, height, width)
        return self.look_up(numbers), numbers

    @torch.no_grad()
    def follow(self, maps: Tensor, numbers: Tensor, decay: float, moving: bool) -> None:
        """Note what the codes were used for; where `moving`, make each the mean of its vectors.

        A code that is hardly used becomes one of the vectors at hand. So all of them do at the
        first step, which starts the codebook where the data is.
        """
        vectors, numbers = maps.movedim(1, 3).flatten(0, 2).float(), numbers.flatten()
        count = len(self.codes)
        uses = torch.bincount(numbers, minlength=count).float()
        sums = torch.zeros_like(self.sums).index_add_(0, numbers, vectors)
        self.uses.lerp_(uses, 1 - decay)
        self.sums.lerp_(sums, 1 - decay)
        if moving:
            self.codes.copy_(self.sums / self.uses[:, None].clamp(min=1e-6))
        fair = len(numbers) / count
        dead = self.uses < DEAD * fair
        chosen = vectors[torch.randint(len(vectors), (count,), device=vectors.device)]
        self.codes.copy_(torch.where(dead[:, None], chosen, self.codes))
        self.uses.masked_fill_(dead, fair)
        self.sums.copy_(torch.where(dead[:, None], chosen * fair, self.sums))


class VQVAE(nn.Module):
    """Called with images, it gives them back as its codes describe them."""

    def __init__(
        self,
        *,
        in_channels: int = 3,
        image_size: int = 32,
        codes: int = 512,
        width: int = 64,
        output: str = "sigmoid",
    ) -> None:
        super().__init__()
        self.side = side_of(image_size, HALVINGS)
        a, b, _ = CHANNELS
        self.encoder = nn.Sequential(
            down(in_channels, a),
            down(a, b),
            Residual(b),
            Residual(b),
            nn.Conv2d(b, width, 1),
        )
        self.codebook = Codebook(codes, width)
        self.decoder: Any = nn.Sequential(
            nn.Conv2d(width, b, 3, padding=1),
            Residual(b),
            Residual(b),
            up(b, a),
            ToPicture(a, in_channels, output),
        )

    @property
    def span(self) -> float:
        return self.decoder[-1].span

    @property
    def nats(self) -> float:
        """What the codes of an image cost if all are equally likely."""
        return self.side**2 * math.log(len(self.codebook.codes))

    def reconstruct(self, images: Tensor) -> Tensor:
        return self.decoder(self.codebook(self.encoder(images))[0])

    def forward(self, images: Tensor) -> Tensor:
        return self.reconstruct(images)


class VQVAETask(Autoencoding):
    """Squared error + beta * commitment (+ the codebook's own term, where nothing moves it).

    decay: of the moving averages that the codes follow; 0 has them learn by gradient.
    """

    options = {"beta": 0.25, "decay": 0.99}

    def parameters(self, name: str) -> Iterable[nn.Parameter]:
        moved = self.settings["decay"] > 0
        return [p for p in self.model.parameters() if not moved or p is not self.codes]

    @property
    def codes(self) -> nn.Parameter:
        return self.model.codebook.codes

    def losses(self, model: Any, batch: zoo.Batch) -> dict[str, Tensor]:
        maps = model.encoder(batch.images)  # (B, width, side, side)
        quantised, numbers = model.codebook(maps)
        # Straight through: the decoder's gradient goes to the encoder as if nothing was replaced.
        through = maps + (quantised - maps).detach()
        error = squared_error(model.decoder(through), batch.images)
        commitment = (maps - quantised.detach()).square().flatten(1).sum(1)
        loss = error + self.settings["beta"] * commitment
        if not self.settings["decay"]:
            loss = loss + (maps.detach() - quantised).square().flatten(1).sum(1)
        if model.training:
            decay = self.settings["decay"] or 0.99
            model.codebook.follow(maps.detach(), numbers, decay, self.settings["decay"] > 0)
        return {"loss": loss, "error": error, "commitment": commitment}

    def evaluate(
        self, model: Any, batches: Iterator[zoo.Batch], sum_over: zoo.SumOver
    ) -> dict[str, float]:
        uses = torch.zeros(len(model.codebook.codes), dtype=torch.float64)

        def counting() -> Iterator[zoo.Batch]:
            for batch in batches:
                if len(batch):
                    _, numbers = model.codebook(model.encoder(batch.images))
                    uses.add_(numbers.flatten().cpu().bincount(minlength=len(uses)))
                yield batch

        figures = super().evaluate(model, counting(), sum_over)
        shares = sum_over(uses.numpy())
        shares = shares / shares.sum()
        likely = shares[shares > 0]
        return figures | {
            "codes_used": float((shares > 0).mean()),
            "perplexity": float(np.exp(-(likely * np.log(likely)).sum())),
        }

    def code(self, model: Any, images: Tensor, said: Tensor | None) -> Tensor:
        """The map of the encoder, flat."""
        return model.encoder(images).flatten(1)

    def nats(self, model: Any, figures: dict[str, float]) -> float:
        return model.nats

    def remarks(self, lines: Sequence[Mapping[str, Any]]) -> list[str]:
        last = lines[-1] if lines else {}
        used = next((last[k] for k in ("test_codes_used", "validation_codes_used") if k in last), 1)
        if used > 0.5:
            return []
        return [
            f"Only {used:.0%} of the codes are used: most of the codebook is dead. Fewer "
            "model.codes, or a larger lr, may help."
        ]
