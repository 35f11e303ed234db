"""The small frozen model of these tests, for processes of their own too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors.numpy
import torch

import zoo
from zoo_core.spec.settings import merge

CHANNELS = (4, 8, 12, 16)


def write_weights(path: Path, seed: int, **options: Any) -> Path:
    """What somebody could have trained; its batch norms have seen something."""
    torch.manual_seed(seed)
    backbone = zoo.create("resnet18_features", channels=CHANNELS, **options).backbone.train()
    for _ in range(20):
        backbone(torch.randn(16, 3, 32, 32))
    state = {name: tensor.detach().numpy() for name, tensor in backbone.state_dict().items()}
    safetensors.numpy.save_file(state, path)
    return path


def settings(weights: Path, **changes: Any) -> dict[str, Any]:
    small = {
        "epochs": 3,
        "batch_size": 64,
        "preprocess": {"size": 32},
        "data": {"train_size": 200, "test_size": 50},
        "model": {"channels": CHANNELS, "backbone_weights": str(weights)},
    }
    return merge(small, changes)
