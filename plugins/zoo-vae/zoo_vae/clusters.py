"""The variational autoencoder whose codes are put into clusters; a cluster is named by vote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

import zoo
from zoo_vae.vae import VAE, VAETask

NOT_NAMED = 1e4  # how far away a class is that no cluster is named after


class VAEClusters(VAE):
    """Called with images, it gives scores: a class is as near as the nearest of its clusters."""

    def __init__(self, *, num_classes: int = 10, clusters: int = 10, **options: Any) -> None:
        super().__init__(**options)
        self.classes = num_classes
        self.centres: Tensor
        self.names: Tensor
        self.register_buffer("centres", torch.zeros(clusters, self.latent))
        self.register_buffer("names", torch.zeros(clusters, dtype=torch.int64))

    def forward(self, images: Tensor) -> Tensor:
        mu, _ = self.encode(images)
        away = 0.5 * (mu[:, None] - self.centres).square().sum(2)  # (B, clusters)
        scores = torch.full((len(mu), self.classes), -NOT_NAMED, dtype=away.dtype).to(away.device)
        return scores.scatter_reduce(1, self.names.expand(mu.shape[0], -1), -away, "amax")


class VAEClustersTask(VAETask):
    """Trained as a VAE. At the end the training set decides centres and names of the clusters."""

    needs, answers = ("class",), zoo.ClassAnswers

    @torch.no_grad()
    def finish(self, model: Any, batches: Iterator[zoo.Batch]) -> None:
        codes, labels = self.codes(model, batches)
        centres, members = k_means(codes, len(model.centres), self.recipe.seed)
        names = vote(members, labels, len(centres), model.classes)
        model.centres.copy_(torch.from_numpy(centres))
        model.names.copy_(torch.from_numpy(names))

    def evaluate(
        self, model: Any, batches: Iterator[zoo.Batch], sum_over: zoo.SumOver
    ) -> dict[str, float]:
        """Also what the original measured: clusters and names from the measured images alone."""
        seen: list[Any] = []

        def keeping() -> Iterator[zoo.Batch]:
            for batch in batches:
                if len(batch):
                    seen.append(self.codes(model, iter([batch])))
                yield batch

        figures = super().evaluate(model, keeping(), sum_over)
        right = np.zeros(2)
        if seen:
            codes, labels = (np.concatenate(parts) for parts in zip(*seen, strict=True))
            clusters = min(len(model.centres), len(codes))
            _, members = k_means(codes, clusters, self.recipe.seed)
            names = vote(members, labels, clusters, model.classes)
            right += len(codes), (names[members] == labels).sum()
        images, right = sum_over(right)
        return figures | {"own_vote_accuracy": float(right / images)}

    @staticmethod
    def codes(model: Any, batches: Iterator[zoo.Batch]) -> tuple[np.ndarray, np.ndarray]:
        """mu (n, latent) and true labels (n,) of images."""
        found = [
            (model.encode(batch.images)[0].float().cpu().numpy(), batch.labels.cpu().numpy())
            for batch in batches
        ]
        codes, labels = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return codes, labels


def k_means(codes: np.ndarray, clusters: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres (clusters, latent), and the cluster of each code (n,)."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    # Several threads add up in any order, and the last bits of the result would be luck.
    with threadpool_limits(1):
        found = KMeans(clusters, n_init=4, random_state=seed).fit(codes)
    return found.cluster_centers_.astype(np.float32), found.labels_


def vote(members: np.ndarray, labels: np.ndarray, clusters: int, classes: int) -> np.ndarray:
    """The most common label in each cluster: (clusters,)."""
    votes = np.zeros((clusters, classes), np.int64)
    np.add.at(votes, (members, labels), 1)
    return votes.argmax(1)
