"""The variational autoencoder, and how it is trained."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

import zoo
from zoo_vae.networks import CHANNELS, Decoder, Encoder, side_of
from zoo_vae.task import Autoencoding, kl_to_normal, sample, squared_error


class VAE(nn.Module):
    """Called with images, it gives them back as it remembers them."""

    def __init__(
        self,
        *,
        in_channels: int = 3,
        image_size: int = 32,
        latent: int = 128,
        output: str = "sigmoid",
    ) -> None:
        super().__init__()
        side = side_of(image_size)
        features = CHANNELS[-1] * side * side
        self.latent = latent
        self.encoder = Encoder(in_channels)
        self.mu = nn.Linear(features, latent)
        self.log_variance = nn.Linear(features, latent)
        self.decoder = Decoder(latent, in_channels, side, output)

    @property
    def span(self) -> float:
        return self.decoder.span

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = self.encoder(images)  # (B, 256 * side * side)
        return self.mu(features), self.log_variance(features)  # (B, latent) each

    def reconstruct(self, images: Tensor) -> Tensor:
        return self.decoder(self.encode(images)[0])

    def forward(self, images: Tensor) -> Tensor:
        return self.reconstruct(images)


class VAETask(Autoencoding):
    """Squared error + beta * KL, both summed over an image."""

    options = {"beta": 1.0}

    def losses(self, model: Any, batch: zoo.Batch) -> dict[str, Tensor]:
        mu, log_variance = model.encode(batch.images)
        error = squared_error(model.decoder(sample(mu, log_variance)), batch.images)
        kl = kl_to_normal(mu, log_variance)
        return {"loss": error + self.settings["beta"] * kl, "error": error, "kl": kl}
