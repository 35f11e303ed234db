"""SimCLR on the network `cnn`: find the other version of an image among those of many others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo_cnn.cnn import CNN

import zoo


class SimCLR(CNN):
    """The body of `cnn` under its own names, so that `--init` takes it, and a projection.

    Called with images it gives their features; the projection is for the loss alone.
    """

    def __init__(
        self,
        *,
        in_channels: int = 3,
        image_size: int = 32,
        channels: Sequence[int] = (32, 64, 128),
        kernel_size: int = 3,
        hidden: int = 512,
        batch_norm: bool = True,
        projection: int = 128,
    ) -> None:
        super().__init__(
            num_classes=1,
            in_channels=in_channels,
            image_size=image_size,
            channels=channels,
            kernel_size=kernel_size,
            hidden=hidden,
            dropout=0.0,
            batch_norm=batch_norm,
        )
        self.head = self.head[:-1]  # what is left ends with the hidden layer
        self.projection = nn.Sequential(
            nn.Linear(hidden, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, projection),
        )

    def codes(self, images: Tensor) -> Tensor:
        """What the loss compares: (B, projection), each of length 1."""
        return F.normalize(self.projection(self(images)).float())


class Contrast(zoo.Task):
    """The loss of SimCLR, NT-Xent: the codes of an image's two versions should be closer to each
    other than to the codes of the other images in the batch."""

    kinds = ("pretraining",)
    figures = {"loss": zoo.Figure(better="lower"), "found": zoo.Figure("%", "higher")}
    options = {"temperature": 0.2}
    pairs = True

    @classmethod
    def check(cls, job: zoo.Job) -> None:
        given = job.recipe.task.get("temperature", 0.2)
        if not (type(given) in (int, float) and 0 < given < 1e3):
            raise ValueError(f"task.temperature is a number above 0, not {given!r}")

    def step(self, batch: zoo.Batch, update: zoo.Update) -> dict[str, Tensor]:
        loss, found = self.compare(self.model, batch.images, batch.second)
        update("model", loss.mean())
        return {"loss": loss.detach().mean(), "found": found.mean()}

    def evaluate(
        self, model: Any, batches: Iterator[zoo.Batch], sum_over: zoo.SumOver
    ) -> dict[str, float]:
        """Images as they are, against one change that is the same each time."""
        sums = np.zeros(3)
        for batch in batches:
            if len(batch):
                loss, found = self.compare(model, batch.images, altered(batch.images))
                sums += float(loss.sum()), float(found.sum()), len(batch)
        loss, found, count = sum_over(sums)
        return {"loss": float(loss / count), "found": float(found / count)}

    def compare(self, model: Any, images: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each image, and whether its other version was the closest: (B,) each."""
        codes = model.codes(torch.cat([images, others]))  # (2B, projection)
        with torch.autocast(codes.device.type, enabled=False):
            scores = codes @ codes.T / self.settings["temperature"]
        scores = scores.masked_fill(torch.eye(len(codes), device=codes.device).bool(), -torch.inf)
        wanted = torch.arange(len(codes), device=codes.device).roll(len(images))
        loss = F.cross_entropy(scores, wanted, reduction="none")
        found = (scores.argmax(1) == wanted).float()
        return loss.view(2, -1).mean(0), found.view(2, -1).mean(0)


def altered(images: Tensor) -> Tensor:
    """The middle, three quarters of each side, mirrored, enlarged, and without colours."""
    side = images.shape[-1]
    edge = side // 8
    middle = images[..., edge : side - edge, edge : side - edge].flip(-1)
    grey = middle.mean(1, keepdim=True).expand_as(middle)
    return F.interpolate(grey, size=(side, side), mode="bilinear", align_corners=False)


@torch.inference_mode()
def features(model: SimCLR, images: Tensor) -> np.ndarray:
    """(B, hidden)"""
    parameter = next(model.parameters())
    return model.eval()(images.to(parameter.device, parameter.dtype)).float().cpu().numpy()
