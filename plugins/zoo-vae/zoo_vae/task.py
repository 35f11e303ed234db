"""What the training of all autoencoders here has in common: parts of the loss, and figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import zoo
from zoo_vae.drawing import (
    CODES,
    FEWEST,
    RECONSTRUCTED,
    draw_codes,
    draw_reconstructions,
    places_of,
)
from zoo_vae.networks import RANGES

UNUSED = 1.0  # nats of KL for an image below which the code says nothing worth mentioning


def squared_error(output: Tensor, images: Tensor) -> Tensor:
    """Summed over the pixels of each image: (B,)."""
    return (output - images).square().flatten(1).sum(1)


def kl_to_normal(mu: Tensor, log_variance: Tensor) -> Tensor:
    """KL divergence of N(mu, variance) from N(0, 1), summed over the code: (B,)."""
    mu, log_variance = mu.float(), log_variance.float()  # a sum in 16 bits would be a rough one
    return 0.5 * (mu.square() + log_variance.exp() - 1 - log_variance).sum(1)


def sample(mu: Tensor, log_variance: Tensor) -> Tensor:
    """A code drawn so that the gradient reaches what it is drawn from."""
    return mu + (0.5 * log_variance).exp() * torch.randn_like(mu)


def bits_per_dimension(mse: float, nats: float, dimensions: int) -> float:
    """The negative ELBO in bits for each of an image's values.

    The likelihood is a Gaussian around the reconstruction with one variance for all values, the
    best one for the images at hand: their mean squared error `mse`, of pixels from 0 to 1. A
    pixel is one of 256 steps, hence the 8 bits. `nats`: of the code, for an image.
    """
    likelihood = 0.5 * math.log2(2 * math.pi * math.e * max(mse, 1e-12))
    return 8 + likelihood + nats / (dimensions * math.log(2))


class Autoencoding(zoo.Task):
    """Subclasses say with `losses` what a batch costs, image by image."""

    def losses(self, model: Any, batch: zoo.Batch) -> dict[str, Tensor]:
        """(B,) each: `loss`, what is learned from; `error`, the squared error; further parts."""
        raise NotImplementedError

    def reconstruct(self, model: Any, batch: zoo.Batch) -> Tensor:
        """The images as they come back, from the most likely code."""
        return model.reconstruct(batch.images)

    def code(self, model: Any, images: Tensor, said: Tensor | None) -> Tensor:
        """What the report draws of images, (B, numbers); said: the classes it takes them for."""
        return model.encode(images)[0]

    @classmethod
    def check(cls, job: zoo.Job) -> None:
        super().check(job)
        low, high = RANGES[job.config["output"]]
        wanted = ((0 - low) / (high - low),), (1 / (high - low),)
        if (set(job.preprocess.mean), set(job.preprocess.std)) != tuple(map(set, wanted)):
            raise ValueError(
                f"the output is {job.config['output']}, so pixels must be from {low:g} to {high:g}:"
                f" set preprocess.mean={wanted[0][0]:g} and preprocess.std={wanted[1][0]:g}"
            )

    def step(self, batch: zoo.Batch, update: zoo.Update) -> dict[str, Tensor]:
        parts = self.losses(self.model, batch)
        update("model", parts["loss"].mean())
        return self._shown({name: part.detach().mean() for name, part in parts.items()}, batch)

    def _shown(self, parts: dict[str, Any], batch: zoo.Batch) -> dict[str, Any]:
        """The squared error as people read it: of one value of a pixel, from 0 to 1."""
        values = batch.images[0].numel() * self.model.span**2
        return {
            "mse" if name == "error" else name: part / values if name == "error" else part
            for name, part in parts.items()
        }

    def evaluate(
        self, model: Any, batches: Iterator[zoo.Batch], sum_over: zoo.SumOver
    ) -> dict[str, float]:
        sums: dict[str, Tensor] = {}
        count, batch = 0, None
        with torch.random.fork_rng():
            torch.manual_seed(0)  # the codes are samples, and the same ones each time
            for batch in batches:
                if not len(batch):
                    continue
                parts = self.losses(model, batch)
                parts["reconstruction"] = squared_error(
                    self.reconstruct(model, batch), batch.images
                )
                for name, part in parts.items():
                    sums[name] = sums.get(name, 0.0) + part.double().sum()
                count += len(batch)
        totals = sum_over(np.array([count, *(float(value) for value in sums.values())]))
        means = {n: float(v / totals[0]) for n, v in zip(sums, totals[1:], strict=True)}
        assert batch is not None
        values = batch.images[0].numel()
        pixel = values * model.span**2
        figures = self._shown(means, batch)
        figures["reconstruction_mse"] = figures.pop("reconstruction") / pixel
        nats = self.nats(model, figures)
        figures["bits_per_dim"] = bits_per_dimension(figures["mse"], nats, values)
        return figures

    def nats(self, model: Any, figures: dict[str, float]) -> float:
        """What the code of an image costs, on average."""
        return figures["kl"]

    def plots(self, model: Any, batches: Iterator[zoo.Batch]) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        codes: list[Any] = []
        labels: list[Any] = []
        guesses: list[Any] = []
        for batch in batches:
            if not found:
                pair = batch.images, self.reconstruct(model, batch)
                # Pixels from 0 to 1, whichever range the model has.
                both = (part[:RECONSTRUCTED] / model.span + (model.span - 1) / 2 for part in pair)
                found["reconstructions"] = draw_reconstructions(*(p.cpu().numpy() for p in both))
            if self.targets.kind != "class" or sum(map(len, codes)) >= CODES:
                break
            said = model(batch.images).argmax(1) if self.answers else None
            codes.append(self.code(model, batch.images, said).float().cpu().numpy())
            labels.append(batch.labels.cpu().numpy())
            guesses += [] if said is None else [said.cpu().numpy()]
        if sum(map(len, codes)) < FEWEST:
            return found
        kinds = {"true class": labels, "predicted class": guesses}
        colourings = {name: np.concatenate(some)[:CODES] for name, some in kinds.items() if some}
        places = places_of(np.concatenate(codes)[:CODES])
        title = f"t-SNE of the codes of {len(places):,} images"
        return {**found, "codes": draw_codes(places, colourings, self.targets.names, title)}

    def remarks(self, lines: Sequence[Mapping[str, Any]]) -> list[str]:
        kl = lines[-1].get("train_kl") if lines else None
        if kl is None or kl >= UNUSED:
            return []
        return [
            f"The code is hardly used: its KL divergence is {kl:.2g} nats for an image, so every "
            "image comes back as nearly the same one. A smaller task.beta helps."
        ]
