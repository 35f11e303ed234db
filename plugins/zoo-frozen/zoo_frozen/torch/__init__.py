"""Frozen backbones in torch: their weights, their features, the trainer of their heads."""

from zoo.kit import calm_threads

calm_threads()  # before anything here imports torch
