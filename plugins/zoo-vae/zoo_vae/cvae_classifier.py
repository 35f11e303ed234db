"""The conditional autoencoder with a classifier on the features that its encoder computes."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

import zoo
from zoo_vae.cvae import CVAE, Conditional


class CVAEClassifier(CVAE):
    """Called with images, it gives the classifier's scores. The label is joined after them."""

    def __init__(self, *, dropout: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.head = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(self.mu.in_features - self.classes, self.classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.encoder(images))


class CVAEClassifierTask(Conditional):
    """gamma * cross-entropy + squared error + beta * KL."""

    options = {"beta": 1.0, "gamma": 50.0}
    smooths = True

    def losses(self, model: Any, batch: zoo.Batch) -> dict[str, Tensor]:
        features = model.encoder(batch.images)
        scores = model.head(features)
        error, kl = model.losses(batch.images, features, batch.labels, sampled=True)
        entropy = F.cross_entropy(
            scores, batch.labels, reduction="none", label_smoothing=self.smoothing(model)
        )
        loss = self.settings["gamma"] * entropy + error + self.settings["beta"] * kl
        right = (scores.argmax(1) == batch.labels).float()
        return {"loss": loss, "error": error, "kl": kl, "cross_entropy": entropy, "accuracy": right}

    def code(self, model: Any, images: Tensor, said: Tensor | None) -> Tensor:
        """What the encoder sees before a label is joined to it."""
        return model.encoder(images)

    def smoothing(self, model: Any) -> float:
        return self.recipe.label_smoothing if model.training else 0.0
