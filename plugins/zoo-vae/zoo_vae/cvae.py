"""The conditional autoencoder: a label goes into the encoder and into the decoder.

It classifies an image by trying all labels. The work that this repeats took the label with the
smallest loss too and was right for one image in ten, which is chance: it averaged the loss over
the batch, so that all images of a batch got one label, and it drew z at random, so that noise
decided between labels. Here each image has its own loss under each label, with z = mu.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import zoo
from zoo_vae.networks import CHANNELS, Decoder, Encoder, one_hot, side_of
from zoo_vae.task import Autoencoding, kl_to_normal, sample, squared_error


class CVAE(nn.Module):
    """Called with images, it gives a score for each label: minus the loss under that label."""

    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 32,
        latent: int = 128,
        output: str = "sigmoid",
    ) -> None:
        super().__init__()
        side = side_of(image_size)
        features = CHANNELS[-1] * side * side
        self.latent, self.classes = latent, num_classes
        self.encoder = Encoder(in_channels)
        self.mu = nn.Linear(features + num_classes, latent)
        self.log_variance = nn.Linear(features + num_classes, latent)
        self.decoder = Decoder(latent + num_classes, in_channels, side, output)
        # The weight of the KL divergence in the loss. It is kept with the weights, because without
        # it the losses of two labels cannot be compared.
        self.beta: Tensor
        self.register_buffer("beta", torch.tensor(1.0))

    @property
    def span(self) -> float:
        return self.decoder.span

    def encode(self, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The code of images whose features the encoder has computed."""
        joined = torch.cat([features, one_hot(labels, self.classes)], 1)
        return self.mu(joined), self.log_variance(joined)  # (B, latent) each

    def decode(self, z: Tensor, labels: Tensor) -> Tensor:
        return self.decoder(torch.cat([z, one_hot(labels, self.classes)], 1))

    def losses(
        self, images: Tensor, features: Tensor, labels: Tensor, *, sampled: bool
    ) -> tuple[Tensor, Tensor]:
        """Squared error and KL of each image under its label: (B,) each."""
        mu, log_variance = self.encode(features, labels)
        z = sample(mu, log_variance) if sampled else mu
        return squared_error(self.decode(z, labels), images), kl_to_normal(mu, log_variance)

    def scores(self, images: Tensor, features: Tensor) -> Tensor:
        """All labels at once; the features of an image are the same for all of them."""
        count = images.shape[0]
        labels = torch.arange(self.classes, device=images.device).repeat(count)  # 0 1 .. 0 1 ..
        error, kl = self.losses(
            images.repeat_interleave(self.classes, 0),
            features.repeat_interleave(self.classes, 0),
            labels,
            sampled=False,
        )
        # Divided by beta it is a log-likelihood, of a Gaussian with variance beta / 2.
        return -(error / self.beta + kl).view(count, self.classes)

    def reconstruct(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        """Under the labels that are given, or those that it takes for the likeliest."""
        labels = self(images).argmax(1) if labels is None else labels
        return self.decode(self.encode(self.encoder(images), labels)[0], labels)

    def forward(self, images: Tensor) -> Tensor:
        return self.scores(images, self.encoder(images))


class Conditional(Autoencoding):
    """What the conditional autoencoders share."""

    needs, answers = ("class",), zoo.ClassAnswers

    def start(self, model: Any) -> None:
        model.beta.fill_(self.settings["beta"])

    def reconstruct(self, model: Any, batch: zoo.Batch) -> Tensor:
        return model.reconstruct(batch.images, batch.labels)

    def code(self, model: Any, images: Tensor, said: Tensor | None) -> Tensor:
        """Under the label that the model itself gives: nobody tells it more."""
        assert said is not None
        return model.encode(model.encoder(images), said)[0]


class CVAETask(Conditional):
    """Squared error + beta * KL, under the image's own label."""

    # Trying all labels costs more than all the rest of an evaluation, so that after an epoch only
    # the first `classified` images are tried. At the end of a run all of them are.
    options = {"beta": 1.0, "classified": 1000}

    def losses(self, model: Any, batch: zoo.Batch) -> dict[str, Tensor]:
        error, kl = model.losses(
            batch.images, model.encoder(batch.images), batch.labels, sampled=True
        )
        return {"loss": error + self.settings["beta"] * kl, "error": error, "kl": kl}

    def evaluate(
        self, model: Any, batches: Iterator[zoo.Batch], sum_over: zoo.SumOver
    ) -> dict[str, float]:
        tried = np.zeros(2)  # images, and those that were right

        def trying() -> Iterator[zoo.Batch]:
            for batch in batches:
                if len(batch) and tried[0] < self.settings["classified"]:
                    right = (model(batch.images).argmax(1) == batch.labels).sum()
                    tried[:] += len(batch), float(right)
                yield batch

        figures = super().evaluate(model, trying(), sum_over)
        images, right = sum_over(tried)
        return figures | ({"accuracy": float(right / images)} if images else {})
