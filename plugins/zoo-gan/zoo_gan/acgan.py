"""AC-GAN: the generator is told a class, and the discriminator has to name it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import zoo
from zoo_gan.dcgan import Adversarial, Discriminator, pass_for_real, spot
from zoo_gan.networks import Generator


class NamingDiscriminator(Discriminator):
    """How real an image looks, and scores of its classes."""

    def __init__(self, *trunk: Any, num_classes: int, dropout: float) -> None:
        super().__init__(*trunk)
        self.name = nn.Sequential(nn.Dropout(dropout), nn.Linear(self.trunk.features, num_classes))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        features = self.trunk(images)
        return self.real(features).squeeze(1), self.name(features)  # (B,) and (B, classes)


class ACGAN(nn.Module):
    """Called with images, it gives the scores of the auxiliary classifier."""

    def __init__(
        self,
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 32,
        noise: int = 100,
        width: int = 64,
        dropout: float = 0.0,
        spectral_norm: bool = False,
    ) -> None:
        super().__init__()
        self.noise, self.classes = noise, num_classes
        self.generator = Generator(noise + num_classes, in_channels, image_size, width)
        self.discriminator = NamingDiscriminator(
            in_channels, image_size, width, spectral_norm,
            num_classes=num_classes, dropout=dropout,
        )  # fmt: skip

    def generate(self, noise: Tensor, labels: Tensor) -> Tensor:
        return self.generator(torch.cat([noise, F.one_hot(labels, self.classes).to(noise)], 1))

    def forward(self, images: Tensor) -> Tensor:
        return self.discriminator(images)[1]


class ACGANTask(Adversarial):
    """gamma: the weight of the classes beside real or generated, on both sides."""

    needs, answers = ("class",), zoo.ClassAnswers
    options = {**Adversarial.options, "gamma": 1.0}

    def generate(self, model: Any, batch: zoo.Batch) -> Tensor:
        noise = torch.randn(len(batch), model.noise, device=batch.images.device)
        return model.generate(noise, batch.labels)

    def discriminate(self, model: Any, batch: zoo.Batch, fakes: Tensor) -> dict[str, Tensor]:
        scores, classes = model.discriminator(torch.cat([batch.images, fakes]))
        (real, fake), (named, _) = scores.chunk(2), classes.chunk(2)
        # Only real images teach the classes: early samples look like none of them.
        entropy = F.cross_entropy(named, batch.labels)
        return {
            "loss": spot(real, fake) + self.settings["gamma"] * entropy,
            "real": real,
            "fake": fake,
            "cross_entropy": entropy,
            "accuracy": (named.argmax(1) == batch.labels).float().mean(),
        }

    def deceive(self, model: Any, batch: zoo.Batch, fakes: Tensor) -> Tensor:
        scores, classes = model.discriminator(fakes)
        named = F.cross_entropy(classes, batch.labels)
        return pass_for_real(scores) + self.settings["gamma"] * named
