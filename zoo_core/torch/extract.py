"""Batch norms folded into the convolutions before them: the same function, in less time.

Only a copy that computes features is folded. The weights that are kept, hashed and published are
those that came.

The one pass over the pictures: a frozen backbone computes what the cache does not have yet.
"""

from __future__ import annotations

import copy
import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from zoo_core.data.dataset import Dataset, Split
from zoo_core.data.features import FEATURE_DTYPES, FeatureFile, FeatureKey, Features
from zoo_core.data.ops import open_ops
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.blocks import Writer
from zoo_core.io.errors import DataError, Interrupted, OptionError, TrainingError
from zoo_core.io.process import Interruption, keep_freed_memory
from zoo_core.torch.frozen_model import FrozenModel
from zoo_core.torch.learner import wants_channels_last
from zoo_core.train.display import Display

TOLERANCE = 1e-3  # of the largest feature; what is right differs by a hundredth of that


@torch.no_grad()
def fold_batch_norms(model: nn.Module, probe: Tensor) -> nn.Module:
    """A faster copy of a network in evaluation mode, or the network itself if that would differ.

    A convolution is taken to feed the first batch norm that is defined after it, as people write
    them. `probe`, a few pictures, says whether that was so.
    """
    folded = copy.deepcopy(model)
    for module in list(folded.modules()):
        before = ""
        for name, layer in list(module.named_children()):
            if isinstance(layer, nn.Conv2d):
                before = name
            # Exactly this class: others, timm's for example, do more than to normalise.
            elif type(layer) is nn.BatchNorm2d and before:
                conv = getattr(module, before)
                if conv.out_channels == layer.num_features:
                    setattr(module, before, fuse_conv_bn_eval(conv, layer))
                    setattr(module, name, nn.Identity())
                before = ""
    try:
        expected, found = model(probe), folded(probe)
    except RuntimeError:  # shapes that do not fit: the order was another
        return model
    allowed = TOLERANCE * float(expected.abs().max())
    difference = float((expected - found).abs().max())
    return folded if math.isfinite(difference) and difference <= allowed else model


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda images: images,
    "flip": lambda images: images.flip(3),  # (B, c, h, w), left and right exchanged
}
# Pictures of 224 pixels; the maps of more do not fit a core's cache, and 64 take 1.6 times as long.
CPU_BATCH, CPU_PIXELS = 8, 224 * 224
GPU_BATCH = 256
PROBE = 2  # pictures that say whether folding was right


@dataclass(frozen=True)
class Backbone:
    """A frozen network, and what decides what it computes; its weights are read when needed."""

    name: str  # FeatureKey.backbone
    structure: str
    weights: str
    layer: str
    pooling: str
    width: int
    make: Callable[[], nn.Module]  # pictures (B, c, h, w) to features (B, width), with its weights

    @classmethod
    def of(cls, model: FrozenModel, weights: str, make: Callable[[], nn.Module]) -> Backbone:
        """model: may be one without memory."""
        structure = hashlib.sha256(str(model.backbone).encode()).hexdigest()
        return cls(model.name, structure, weights, model.layer, model.pooling, model.width, make)


def key_of(
    backbone: Backbone,
    preprocess: Preprocess,
    dataset: Dataset,
    split: str,
    *,
    view: str = "plain",
    dtype: str = "float16",
) -> FeatureKey:
    if view not in VIEWS:
        raise OptionError(f"there is no view {view!r} of a picture", f"it is: {' or '.join(VIEWS)}")
    if dtype not in FEATURE_DTYPES:
        raise OptionError(
            f"features cannot be {dtype!r}", f"they are: {' or '.join(FEATURE_DTYPES)}"
        )
    return FeatureKey(
        backbone=backbone.name,
        structure=backbone.structure,
        weights=backbone.weights,
        layer=backbone.layer,
        pooling=backbone.pooling,
        preprocess=preprocess.to_dict(),
        precision="float32",
        dtype=dtype,
        dataset=dataset.digest,
        split=split,
        view=view,
    )


def batch_for(device: torch.device, size: int) -> int:
    """A number of pictures that suits the machine: a rule, so that a resume computes the same."""
    if device.type != "cpu":
        return GPU_BATCH
    return max(1, min(256, CPU_BATCH * CPU_PIXELS // size**2))


class Extractor:
    """Pictures as bytes to rows of features."""

    def __init__(
        self,
        backbone: nn.Module,
        preprocess: Preprocess,
        device: torch.device,
        view: str,
        size: int,
    ) -> None:
        self.device, self.batch = device, size
        self._view = VIEWS[view]
        last = wants_channels_last(backbone)
        self._ops = open_ops("torch", device, channels_last=last)
        self._finish = preprocess.finisher(self._ops)
        probe = torch.zeros(PROBE, preprocess.channels, preprocess.size, preprocess.size)
        probe.uniform_(-1, 1, generator=torch.Generator().manual_seed(0))
        layout = torch.channels_last if last else torch.contiguous_format
        network = fold_batch_norms(backbone.eval(), probe)
        self._network = network.to(device, memory_format=layout)  # type: ignore[call-overload]

    def __call__(self, images: np.ndarray) -> Iterator[np.ndarray]:
        """Features of pictures (n, h, w, c), a batch at a time: float32 (B, width)."""
        for start in range(0, len(images), self.batch):
            yield self._features(images[start : start + self.batch])

    @torch.inference_mode()
    def _features(self, images: np.ndarray) -> np.ndarray:
        placed, _ = self._ops.place(images, np.arange(len(images)))
        found: Tensor = self._network(self._view(self._finish(placed)))
        return found.float().cpu().numpy()


def extract(
    backbone: Backbone,
    preprocess: Preprocess,
    dataset: Dataset,
    split: str,
    *,
    view: str = "plain",
    dtype: str = "float16",
    device: torch.device | None = None,
    batch: int = 0,
    display: Display | None = None,
    resume: str = "",
) -> Features:
    """The features of a split: from the cache, or computed and kept there.

    batch: 0 leaves it to the machine. resume: the command that goes on after an interruption.
    """
    device = device or torch.device("cpu")
    display = display or Display(quiet=True)
    pictures = dataset.split(split)
    assert pictures is not None
    key = key_of(backbone, preprocess, dataset, split, view=view, dtype=dtype)
    place = FeatureFile.of(key, dataset.name)
    label = f"{dataset.name} {split}" + (f", {view}" if view != "plain" else "")
    found = place.load_sound(display.say)
    if found is not None:
        display.say(f"Features of {label}: {len(pictures):,} pictures, kept from before.")
    else:
        batch = batch or batch_for(device, preprocess.size)
        made_with = {
            "torch": torch.__version__, "device": str(device), "threads": torch.get_num_threads(),
            "batch": batch,
        }  # fmt: skip
        layout = key.layout(
            pictures, backbone.width, dataset=dataset.name, classes=dataset.classes,
            made_with=made_with,
        )  # fmt: skip
        waiting = lambda: display.say("another process computes these features; waiting")  # noqa: E731
        try:
            with place.writing(layout, waiting) as writer:
                if writer.progress.missing:
                    size = writer.progress.about["made_with"]["batch"]
                    extractor = Extractor(backbone.make(), preprocess, device, view, size)
                    _run_pass(extractor, writer, pictures, display, label, resume)
        except OSError as error:
            raise DataError(
                f"features cannot be kept in {place.path.parent}: {error.strerror or error}",
                "make room there, or choose another folder with ZOO_CACHE; what was kept counts",
            ) from error
        found = place.load()
        assert found is not None
    place.used()
    return found


def cached(
    backbone: Backbone, preprocess: Preprocess, dataset: Dataset, split: str
) -> Features | None:
    """The features of a split if somebody has computed them, in whichever dtype is more exact."""
    for dtype in reversed(FEATURE_DTYPES):
        key = key_of(backbone, preprocess, dataset, split, dtype=dtype)
        place = FeatureFile.of(key, dataset.name)
        if (found := place.load_sound()) is not None:
            place.used()
            return found
    return None


def _run_pass(
    extractor: Extractor, writer: Writer, pictures: Split, display: Display, label: str,
    resume: str,
) -> None:  # fmt: skip
    progress = writer.progress
    width = progress.about["width"]
    dtype = np.dtype(progress.key["dtype"])
    keep_freed_memory()  # the maps of a layer are as large as those of the next one
    torch.set_flush_denormal(True)
    with (
        Interruption() as interruption,
        display.passing(label, progress.rows, progress.rows - progress.done) as advance,
    ):
        for block in writer:
            started = time.perf_counter()
            where = writer.rows(block)
            parts = []
            for part in extractor(pictures.images[where.start : where.stop]):
                parts.append(part)
                advance(len(part))
                if interruption.signal:
                    done = writer.progress.done
                    kept = "their features are kept" if done else "too few to be kept"
                    raise Interrupted(
                        f"stopped after {done:,} of {progress.rows:,} pictures of {label}; {kept}",
                        resume or "the same command goes on where it was",
                        interruption.signal,
                    )
            with np.errstate(over="ignore"):
                features = np.concatenate(parts).astype(dtype)
            if features.shape != (len(where), width):
                raise TrainingError(
                    f"the backbone gives {features.shape[1:]} for a picture, not {width} features"
                )
            if not np.isfinite(features).all():
                raise TrainingError(
                    f"the backbone gives numbers that {dtype} cannot hold",
                    "--set task.dtype=float32" if dtype == np.float16 else "its weights are bad",
                )
            writer.commit(block, features, time.perf_counter() - started)
