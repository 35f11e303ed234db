"""The one pass over the images: a frozen backbone computes what the feature cache does not have."""

from __future__ import annotations

import copy
import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from zoo import DataError, Dataset, Interrupted, Preprocess, Split, TrainingError
from zoo.kit import (
    FEATURE_DTYPES,
    Display,
    FeatureFile,
    FeatureKey,
    Features,
    Interruption,
    Writer,
    keep_freed_memory,
    open_ops,
    os_errors,
    wants_channels_last,
)
from zoo_frozen.torch.backbones import FrozenModel

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda images: images,
    "flip": lambda images: images.flip(3),  # (B, c, h, w), left and right exchanged
}
# Images of 224 pixels; the maps of more do not fit a core's cache, and 64 take 1.6 times as long.
CPU_BATCH, CPU_PIXELS = 8, 224 * 224
GPU_BATCH = 256
CPU = torch.device("cpu")
PROBE = 2  # images that say whether folding was right
TOLERANCE = 1e-3  # of the largest feature; what is right differs by a hundredth of that


@dataclass(frozen=True)
class Pass:
    """One pass of a backbone over a split: what decides its features, and how to have them."""

    model: FrozenModel  # says what the backbone is; it may have no memory
    weights: str  # digest of the backbone's tensors
    preprocess: Preprocess
    dataset: Dataset
    split: str
    view: str = "plain"
    dtype: str = FEATURE_DTYPES[0]
    precision: str = "float32"

    @cached_property
    def key(self) -> FeatureKey:
        return FeatureKey(
            backbone=self.model.name,
            structure=hashlib.sha256(str(self.model.backbone).encode()).hexdigest(),
            weights=self.weights,
            layer=self.model.layer,
            pooling=self.model.pooling,
            preprocess=self.preprocess.to_dict(),
            precision=self.precision,
            dtype=self.dtype,
            dataset=self.dataset.digest,
            split=self.split,
            view=self.view,
        )

    @cached_property
    def file(self) -> FeatureFile:
        return FeatureFile.of(self.key, self.dataset.name)

    @property
    def images(self) -> Split:
        found = self.dataset.split(self.split)
        assert found is not None
        return found

    @property
    def label(self) -> str:
        view = f", {self.view}" if self.view != "plain" else ""
        return f"{self.dataset.name} {self.split}{view}"

    def kept(self, say: Callable[[str], None]) -> Features | None:
        """The features, if somebody has computed them."""
        found = self.file.load_sound(say)
        if found is not None:
            self.file.used()
        return found

    def features(
        self,
        make: Callable[[], nn.Module],
        display: Display,
        device: torch.device = CPU,
        batch: int = 0,
        resume: str = "",
    ) -> Features:
        """The features, kept or computed. make: gives the backbone with its weights. batch: 0 lets
        the machine decide. resume: the command that continues after an interruption."""
        if (found := self.kept(display.say)) is not None:
            what = f"Features of {self.label}: {len(self.images):,} images"
            display.say(f"{what}, already in the cache.")
            return found
        made_with = {
            "torch": torch.__version__,
            "device": str(device),
            "threads": torch.get_num_threads(),
            "batch": batch or batch_for(device, self.preprocess.size),
        }
        layout = self.key.layout(
            self.images, self.model.width, dataset=self.dataset.name,
            classes=self.dataset.classes, made_with=made_with,
        )  # fmt: skip
        waiting = lambda: display.say("another process computes these features; waiting")  # noqa: E731
        what = f"features cannot be kept in {self.file.path.parent}"
        hint = "make room there, or choose another folder with ZOO_CACHE; what was kept counts"
        with os_errors(what, DataError, hint), self.file.writing(layout, waiting) as writer:
            if writer.progress.missing:
                size = writer.progress.about["made_with"]["batch"]
                through = self.preprocess, device, self.view, size, self.precision
                extractor = Extractor(make(), *through)
                self._fill(writer, extractor, display, resume)
        found = self.kept(display.say)
        assert found is not None
        return found

    def _fill(self, writer: Writer, extractor: Extractor, display: Display, resume: str) -> None:
        total, done = writer.progress.rows, writer.progress.done
        keep_freed_memory()  # the maps of a layer are as large as those of the next one
        torch.set_flush_denormal(True)
        shown = display.passing(self.label, total, total - done)
        with Interruption() as interruption, shown as advance:

            def rows(block: int) -> Iterator[np.ndarray]:
                where, parts = writer.rows(block), []
                for part in extractor(self.images.images[where.start : where.stop]):
                    parts.append(part)
                    advance(len(part))
                    if interruption.signal:
                        writer.settle()
                        done = writer.progress.done
                        kept = "their features are kept" if done else "too few to be kept"
                        raise Interrupted(
                            f"stopped after {done:,} of {total:,} images of {self.label}; {kept}",
                            resume or "run the same command again to continue",
                            interruption.signal,
                        )
                yield self._checked(np.concatenate(parts), (len(where), self.model.width))

            for block in writer:
                writer.commit_behind(block, rows(block))

    def _checked(self, features: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        with np.errstate(over="ignore"):
            kept = features.astype(self.dtype)
        if kept.shape != shape:
            raise TrainingError(
                f"the backbone gives {kept.shape[1:]} for an image, not {shape[1]} features"
            )
        if not np.isfinite(kept).all():
            raise TrainingError(
                f"the backbone gives numbers that {self.dtype} cannot hold",
                "--set task.dtype=float32" if self.dtype == "float16" else "its weights are bad",
            )
        return kept


class Extractor:
    """Images as bytes to rows of features."""

    def __init__(
        self, backbone: nn.Module, preprocess: Preprocess, device: torch.device, view: str,
        batch: int, precision: str = "float32",
    ) -> None:  # fmt: skip
        self._batch, self._view = batch, VIEWS[view]
        dtype = getattr(torch, precision)
        self._cast = partial(torch.autocast, device.type, dtype, dtype != torch.float32)
        last = wants_channels_last(backbone)
        self._ops = open_ops("torch", device, channels_last=last)
        self._finish = preprocess.finisher(self._ops)
        probe = torch.zeros(PROBE, preprocess.channels, preprocess.size, preprocess.size)
        probe.uniform_(-1, 1, generator=torch.Generator().manual_seed(0))
        layout = torch.channels_last if last else torch.contiguous_format
        network = fold_batch_norms(backbone.eval(), probe)
        network = network.to(device, memory_format=layout)  # type: ignore[call-overload]
        if dtype != torch.float32:
            with self._cast():
                network = lower_weights(network, dtype, probe.to(device))
        self._network = network

    def __call__(self, images: np.ndarray) -> Iterator[np.ndarray]:
        """Features of images (n, h, w, c), a batch at a time: float32 (B, width)."""
        for start in range(0, len(images), self._batch):
            part = images[start : start + self._batch]
            with torch.inference_mode(), self._cast():
                placed, _ = self._ops.place(part, np.arange(len(part)))
                found: Tensor = self._network(self._view(self._finish(placed)))
            yield found.float().cpu().numpy()

    def paces(self, images: np.ndarray) -> Iterator[float]:
        """Seconds for these images, a few times."""
        for _ in range(3):
            started = time.perf_counter()
            for _ in self(images):
                pass
            yield time.perf_counter() - started


def batch_for(device: torch.device, size: int) -> int:
    """A number of images that suits the machine: a rule, so that a resume computes the same."""
    if device.type != "cpu":
        return GPU_BATCH
    return max(1, min(256, CPU_BATCH * CPU_PIXELS // size**2))


@torch.no_grad()
def fold_batch_norms(model: nn.Module, probe: Tensor) -> nn.Module:
    """A faster copy of a network in evaluation mode, or the network itself if that would differ.

    A convolution is taken to feed the first batch norm that is defined after it; `probe`, a few
    images, says whether that was so."""
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


@torch.no_grad()
def lower_weights(network: nn.Module, dtype: torch.dtype, probe: Tensor) -> nn.Module:
    """A copy whose matrices and kernels have the dtype that autocast gives them anew for every
    batch, or the network itself if the features of `probe` would differ by a single bit."""
    lowered = copy.deepcopy(network)
    for layer in lowered.modules():
        if type(layer) in (nn.Conv2d, nn.Linear):
            layer.to(dtype)
    try:
        return lowered if torch.equal(network(probe), lowered(probe)) else network
    except RuntimeError:  # it multiplies its weights by itself, where autocast sees nothing
        return network
