"""DC-GAN: a generator that learns by deceiving a discriminator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import zoo
from zoo_gan.networks import Generator, Trunk, limit

WON = 0.99  # of images and samples told apart: nothing is left for the generator to learn from
ALIKE = 0.4  # of the real images' spread: the samples are nearly all the same


class Discriminator(nn.Module):
    """A number for each image, above 0 for what it takes to be real."""

    def __init__(self, channels: int, image_size: int, width: int, spectral: bool) -> None:
        super().__init__()
        self.trunk = Trunk(channels, image_size, width, spectral)
        self.real = nn.Linear(self.trunk.features, 1)
        if spectral:
            limit(self.real)

    def forward(self, images: Tensor) -> Tensor:
        return self.real(self.trunk(images)).squeeze(1)  # (B,)


class DCGAN(nn.Module):
    """Called with images, it says how real they look."""

    def __init__(
        self,
        *,
        in_channels: int = 3,
        image_size: int = 32,
        noise: int = 100,
        width: int = 64,
        spectral_norm: bool = False,
    ) -> None:
        super().__init__()
        self.noise = noise
        self.generator = Generator(noise, in_channels, image_size, width)
        self.discriminator = Discriminator(in_channels, image_size, width, spectral_norm)

    def forward(self, images: Tensor) -> Tensor:
        return self.discriminator(images)


class Adversarial(zoo.Task):
    """Two optimisers, and the figures of both sides. Subclasses say what each side loses.

    beta1: Adam's first decay, less than usual because the target moves.
    """

    optimizers = ("discriminator", "generator")
    options = {"beta1": 0.5}

    @classmethod
    def check(cls, job: zoo.Job) -> None:
        if set(job.preprocess.mean) != {0.5} or set(job.preprocess.std) != {0.5}:
            raise ValueError(
                "generated pixels are from -1 to 1: set preprocess.mean=0.5 and preprocess.std=0.5"
            )
        if job.recipe.optimizer == "sgd":
            raise ValueError("the two sides are trained with adam or adamw, not with sgd")

    def parameters(self, name: str) -> Iterable[nn.Parameter]:
        return getattr(self.model, name).parameters()

    def make_optimizer(self, name: str) -> torch.optim.Optimizer:
        optimizer = super().make_optimizer(name)
        for group in optimizer.param_groups:
            group["betas"] = (self.settings["beta1"], 0.999)
        return optimizer

    def generate(self, model: Any, batch: zoo.Batch) -> Tensor:
        """As many samples as the batch has images."""
        raise NotImplementedError

    def discriminate(self, model: Any, batch: zoo.Batch, fakes: Tensor) -> dict[str, Tensor]:
        """`loss` of the discriminator, its scores `real` and `fake`, and what else is shown."""
        raise NotImplementedError

    def deceive(self, model: Any, batch: zoo.Batch, fakes: Tensor) -> Tensor:
        """The loss of the generator."""
        raise NotImplementedError

    def step(self, batch: zoo.Batch, update: zoo.Update) -> dict[str, Tensor]:
        fakes = self.generate(self.model, batch)
        told = self.discriminate(self.model, batch, fakes.detach())
        update("discriminator", told["loss"])
        loss = self.deceive(self.model, batch, fakes)
        update("generator", loss)
        return {
            "loss": (told["loss"] + loss).detach(),
            "loss_generator": loss.detach(),
            **self.shown(told),
        }

    def shown(self, told: dict[str, Tensor]) -> dict[str, Tensor]:
        real, fake = told["real"].detach(), told["fake"].detach()
        right = 0.5 * ((real > 0).float().mean() + (fake < 0).float().mean())
        extra = {name: v.detach() for name, v in told.items() if name not in ("real", "fake")}
        loss = extra.pop("loss")
        return {"loss_discriminator": loss, "discriminator_accuracy": right, **extra}

    def evaluate(
        self, model: Any, batches: Iterator[zoo.Batch], sum_over: zoo.SumOver
    ) -> dict[str, float]:
        sums: dict[str, Any] = {}
        count = 0
        moments = np.zeros(0)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            for batch in batches:
                if not len(batch):
                    continue
                fakes = self.generate(model, batch)
                told = self.discriminate(model, batch, fakes)
                loss = self.deceive(model, batch, fakes)
                seen = {"loss": told["loss"] + loss, "loss_generator": loss, **self.shown(told)}
                for name, value in seen.items():
                    sums[name] = sums.get(name, 0.0) + value.double() * len(batch)
                count += len(batch)
                added = np.stack([spread(batch.images), spread(fakes)])
                moments = added if not moments.size else moments + added
        totals = sum_over(np.array([count, *map(float, sums.values())]))
        figures = {n: float(v / totals[0]) for n, v in zip(sums, totals[1:], strict=True)}
        mean, square = np.moveaxis(sum_over(moments), 1, 0) / totals[0]  # (2, pixels) each
        real, fake = np.sqrt(np.maximum(square - mean**2, 0)).mean(1)
        return figures | {"diversity": float(fake / max(real, 1e-9))}

    def remarks(self, lines: Sequence[Mapping[str, Any]]) -> list[str]:
        last = lines[-1] if lines else {}
        told, found = last.get("train_discriminator_accuracy", 0), []
        if told > WON:
            found.append(
                f"The discriminator has won: it tells {told:.1%} of the images apart, and the "
                "generator learns nothing more. A smaller lr, or model.spectral_norm=true, helps."
            )
        diversity = last.get("test_diversity", last.get("validation_diversity", 1))
        if diversity < ALIKE:
            found.append(
                f"The samples are alike: they vary {diversity:.0%} as much as real images do. "
                "The generator has learned too little yet, or has collapsed to a few of them: more "
                "epochs help, or model.spectral_norm=true."
            )
        return found


def spread(images: Tensor) -> np.ndarray:
    """Sums over images of each value and of its square: (2, values)."""
    flat = images.flatten(1).double()
    return torch.stack([flat.sum(0), flat.square().sum(0)]).cpu().numpy()


def spot(real: Tensor, fake: Tensor) -> Tensor:
    """The discriminator's loss: cross-entropy of real against generated, summed over both."""
    return F.softplus(-real).mean() + F.softplus(fake).mean()


def pass_for_real(fake: Tensor) -> Tensor:
    """The generator's, which does not saturate: it is steep where the discriminator is sure."""
    return F.softplus(-fake).mean()


class DCGANTask(Adversarial):
    def generate(self, model: Any, batch: zoo.Batch) -> Tensor:
        return model.generator(torch.randn(len(batch), model.noise, device=batch.images.device))

    def discriminate(self, model: Any, batch: zoo.Batch, fakes: Tensor) -> dict[str, Tensor]:
        real, fake = model.discriminator(torch.cat([batch.images, fakes])).chunk(2)
        return {"loss": spot(real, fake), "real": real, "fake": fake}

    def deceive(self, model: Any, batch: zoo.Batch, fakes: Tensor) -> Tensor:
        return pass_for_real(model.discriminator(fakes))
