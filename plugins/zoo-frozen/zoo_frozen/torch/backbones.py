"""Frozen models, and the weights of their backbones: found wherever they are, known by a digest.
A trained model names it as `sha256:DIGEST` in its option `backbone_weights`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import ModelEntry, OptionError, WeightsError, ZooError
from zoo.kit import (
    cache_dir,
    capability,
    digest_of_tensors,
    qualified_name,
    read_tensors,
    write_tensors,
)

HEADS = ("linear", "mlp")
Config = Mapping[str, Any]
TensorSpec = Mapping[str, Any]  # names to shapes and dtypes
Say = Callable[[str], None]
AT_ONCE = 16  # images; they may be large
OPTION = "backbone_weights"
BY_DIGEST = "sha256:"
DIGEST = re.compile(r"[0-9a-f]{64}")
MOST_TOKENS = 9  # before the patches: a class, registers
MOST = 2  # backbones that a process keeps at hand: a search asks for the same one again and again


class FrozenModel(nn.Module):
    """Images to features to scores: a backbone that stays as it is, and a head that is trained.

    A plugin's model subclasses it, or makes one in a function; docs/frozen.md has an example.
    backbone: a module that turns images into `width` features, (B, width). name: which arithmetic
    that is; another number behind it makes the cache forget what an older version computed. layer,
    pooling: what the features are, in words. The weights come later.
    """

    digest = ""  # of the backbone's weights, where the model was assembled from them
    # Of a model that is fine-tuned: batch norms that go on learning, factors of the learning rate.
    live: Sequence[nn.Module] = ()
    lr_scales: Mapping[str, float] = {}

    def __init__(
        self,
        backbone: nn.Module,
        width: int,
        *,
        name: str,
        layer: str,
        pooling: str = "average",
        num_classes: int = 10,
        head: str = "linear",
        hidden: int = 512,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if head not in HEADS:
            raise ValueError(f"head must be {' or '.join(HEADS)}, not {head!r}")
        self.name, self.layer, self.pooling, self.width = name, layer, pooling, width
        self.backbone = backbone.requires_grad_(False).eval()
        last = nn.Linear(hidden if head == "mlp" else width, num_classes)
        first = [nn.Linear(width, hidden), nn.ReLU()] if head == "mlp" else []
        self.head = nn.Sequential(*first, nn.Dropout(dropout), last)

    def features(self, images: Tensor) -> Tensor:
        features: Tensor = self.backbone(images)
        return features

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(images))
        return scores

    def train(self, mode: bool = True) -> FrozenModel:
        """The backbone stays in evaluation mode: its batch norms have learned all they will."""
        super().train(mode)
        self.backbone.eval()
        for norm in self.live:
            norm.train(mode)
        return self


@torch.inference_mode()
def features_of(model: FrozenModel, images: Tensor) -> np.ndarray:
    """The `features` capability of every frozen model: (B, width), a few images at a time."""
    parameter = next(model.parameters())
    given = images.to(parameter.device, parameter.dtype)
    parts = [model.eval().features(part) for part in torch.split(given, AT_ONCE)]
    return torch.cat(parts).float().cpu().numpy()


class BackboneWeights(NamedTuple):
    tensors: Mapping[str, np.ndarray]  # by the names that they have in the backbone
    digest: str


_at_hand: dict[str, BackboneWeights] = {}


def digest_in(config: Config) -> str:
    """The digest of the backbone that a trained model names; "" where its file is whole."""
    asked = str(config.get(OPTION, ""))
    digest = asked.removeprefix(BY_DIGEST)
    if digest == asked:
        return ""
    if not DIGEST.fullmatch(digest):  # it may be somebody else's text, and names a file here
        raise WeightsError(f"{OPTION} {asked!r} is not a digest")
    return digest


def backbone_weights(
    entry: ModelEntry, config: Config, spec: TensorSpec, say: Say
) -> BackboneWeights:
    """The weights that the option `backbone_weights` asks for: a digest, a file, or "" for those
    that the model's `backbone` capability knows. spec: what the backbone needs."""
    # A digest means the same everywhere; everything else depends on what is where.
    place = digest_in(config) or json.dumps(
        [str(cache_dir("weights")), qualified_name(entry), config], sort_keys=True, default=str
    )
    if place not in _at_hand:
        found = _find(entry, config, spec, say)
        while len(_at_hand) >= MOST:
            del _at_hand[next(iter(_at_hand))]
        _at_hand[place] = found
    return _at_hand[place]


def _find(entry: ModelEntry, config: Config, spec: TensorSpec, say: Say) -> BackboneWeights:
    """From the cache, or from the model's own plugin: it knows where its weights are published."""
    digest, folder = digest_in(config), cache_dir("weights") / "backbones"
    if digest and (copy := folder / f"{digest}.safetensors").exists():
        try:
            found = _fitting(read_tensors(copy), spec, str(copy), say)
            if found.digest == digest:
                return found
            say(f"Warning: {copy} is damaged; looking elsewhere")
        except ZooError as error:
            say(f"Warning: {error}; looking elsewhere")
    asked = "" if digest else str(config[OPTION])
    given = capability(entry, "backbone")({**config, OPTION: asked}, say)
    found = _fitting(given, spec, asked or f"the published weights of {entry.name}", say)
    if digest and found.digest != digest:
        raise WeightsError(
            f"this model needs a backbone with the digest {digest}, and the published "
            f"weights of {entry.name} have {found.digest}",
            f"it was trained on a file: put its copy, {digest}.safetensors, into {folder}, or "
            "have the model published with --full",
        )
    copy = folder / f"{found.digest}.safetensors"
    if asked and not copy.exists():  # the file may move; the trained model will ask for this copy
        write_tensors(copy, found.tensors)
    return found


def _fitting(
    tensors: Mapping[str, np.ndarray], spec: TensorSpec, source: str, say: Say
) -> BackboneWeights:
    """Those of the tensors that the backbone has: not a classifier's last layer."""
    tensors = dict(tensors)
    for name, (shape, _) in spec.items():
        if name not in tensors:
            raise OptionError(f"{source} does not fit this backbone: {name} is missing")
        array = tensors[name]
        if tuple(array.shape) != tuple(shape) and (other := adapted(array, shape)) is not None:
            say(f"{name} is adapted from the shape {list(array.shape)} to {list(shape)}.")
            array = tensors[name] = other
        if tuple(array.shape) != tuple(shape):
            raise OptionError(
                f"{source} does not fit this backbone: {name} has the shape {list(array.shape)}, "
                f"and {list(shape)} is needed",
                "options such as image_size must be those that it was trained with",
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise WeightsError(f"{source}: {name} holds numbers that are not finite")
    kept = {name: np.asarray(tensors[name], dtype) for name, (_, dtype) in spec.items()}
    return BackboneWeights(kept, digest_of_tensors(kept))


def adapted(array: np.ndarray, shape: Sequence[int | None]) -> np.ndarray | None:
    """A tensor for images of another size or with other channels; None: it is neither.

    As timm does it. In float64, so that the digest of the result is the same on every machine.
    """
    wanted, given = tuple(shape), torch.from_numpy(array.astype(np.float64))
    if None in wanted or len(wanted) != array.ndim or array.dtype.kind != "f":
        return None
    if array.ndim == 3 and wanted[0] == len(array) == 1 and wanted[2] == array.shape[2]:
        given = _positions(given, int(wanted[1] or 0))
    elif array.ndim == 4 and wanted == (len(array), wanted[1], *array.shape[2:]):
        given = _stem(given, int(wanted[1] or 0))
    return given.numpy().astype(array.dtype) if tuple(given.shape) == wanted else None


def _positions(given: Tensor, count: int) -> Tensor:
    """Positions (1, T, C) on a square grid of another size; those of tokens stay as they are."""
    for tokens in range(min(MOST_TOKENS, given.shape[1], count)):
        before, after = math.isqrt(given.shape[1] - tokens), math.isqrt(count - tokens)
        if (tokens + before**2, tokens + after**2) == (given.shape[1], count):
            grid = given[:, tokens:].reshape(1, before, before, -1).permute(0, 3, 1, 2)
            grid = F.interpolate(grid, (after, after), mode="bicubic", antialias=True)
            return torch.cat((given[:, :tokens], grid.flatten(2).transpose(1, 2)), 1)
    return given


def _stem(given: Tensor, channels: int) -> Tensor:
    """The kernels of a first convolution, (out, 3, h, w), for a grey image or for more channels."""
    if given.shape[1] != 3:
        return given
    if channels == 1:
        return given.sum(1, keepdim=True)
    return given.repeat(1, -(-channels // 3), 1, 1)[:, :channels] * 3 / channels
