"""Samples of a generative model, drawn through the `generate` capability that an entry declares.

The command, and how far samples are from real images: plugins/zoo-generate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo_core.data.preprocess import Preprocess
from zoo_core.io.console import progress
from zoo_core.io.errors import PluginError, UsageError, did_you_mean
from zoo_core.spec.entries import ModelEntry
from zoo_core.spec.registry import as_reference, registry
from zoo_core.use.load import blocks, capability, load_model, loaded
from zoo_core.weights.references import obtain
from zoo_core.weights.verify import Located

BLOCK = 64  # samples that are drawn at once: their last bits may depend on it, so it is fixed
MOST_SHOWN = 10  # conditions that a sheet of all of them has room for
SHEET_COLUMNS = 8  # of a sheet


class Generator:
    """How samples of a model are drawn. Subclass it, and name it as the `generate` capability.

    Noise and samples are NumPy arrays, whatever the model's framework is.
    """

    noise: tuple[int, ...]  # the shape of one sample's noise; drawn from a standard normal

    def __init__(self, model: Any) -> None:
        self.model = model

    def conditions(self, classes: Sequence[str]) -> Sequence[str]:
        """What can be asked for, by name: the classes, perhaps. Nothing, unless replaced."""
        return ()

    def draw(self, noise: np.ndarray, conditions: np.ndarray | None) -> np.ndarray:
        """Samples (n, c, h, w), as the model is given them, from float32 noise (n, *shape).

        conditions: int64 (n,), numbers of what `conditions` names; None if it names nothing.
        """
        raise NotImplementedError

    def network(self, noise: Any, conditions: Any = None) -> Any:
        """What `draw` does, with arrays of the framework: exported files do this. Optional."""
        raise NotImplementedError


@dataclass(frozen=True)
class Samples:
    images: np.ndarray  # uint8 (n, h, w, c)
    names: tuple[str, ...]  # of the condition of each; () if there are none


@dataclass(frozen=True)
class Sampler:
    """A model that samples can be drawn from."""

    generator: Generator
    preprocess: Preprocess
    names: tuple[str, ...]  # of its conditions

    def draw(
        self,
        noise: np.ndarray,
        chosen: np.ndarray | None,
        advance: Callable[[int], None] = lambda more: None,
    ) -> Samples:
        """The samples of this noise, block by block; advance: called with how many more."""
        p, found = self.preprocess, []
        for part in blocks(len(noise), BLOCK):
            drawn = self.generator.draw(noise[part], None if chosen is None else chosen[part])
            wanted = (len(noise[part]), p.channels, p.size, p.size)
            shape = getattr(drawn, "shape", type(drawn).__name__)
            if not isinstance(drawn, np.ndarray) or shape != wanted:
                raise PluginError(
                    f"{type(self.generator).__name__} must draw an array {wanted}, not {shape}",
                    "docs/hooks.md says what the capability returns",
                )
            found.append(to_pixels(drawn, p))
            advance(len(drawn))
        names = () if chosen is None else tuple(self.labels[i] for i in chosen)
        return Samples(np.concatenate(found), names)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names as they are shown: those that several conditions have are numbered."""
        return tuple(
            name if self.names.count(name) == 1 else f"{name} {self.names[: i + 1].count(name)}"
            for i, name in enumerate(self.names)
        )

    def noise(self, count: int, seed: int) -> np.ndarray:
        """The first rows are the same, however many there are."""
        if count < 1 or seed < 0:
            raise UsageError("the number of samples must be at least 1, and the seed at least 0")
        rng = np.random.default_rng(seed)
        return rng.standard_normal((count, *self.generator.noise), dtype=np.float32)

    def sample(self, count: int, seed: int = 0, condition: str = "") -> Samples:
        """Samples of one condition, or of all of them in turn."""
        noise, chosen = self.noise(count, seed), self.choose(count, condition)
        with progress(f"drawing {count:,} samples", count) as advance:
            return self.draw(noise, chosen, advance)

    def choose(self, count: int, condition: str = "") -> np.ndarray | None:
        if not isinstance(condition, str):
            raise UsageError(f"a class must be given by its name, not by {condition!r}")
        if not self.names:
            if condition:
                raise UsageError("this model does not take a class: leave out --class")
            return None
        asked = condition.casefold()
        both = enumerate(zip(self.names, self.labels, strict=True))
        able = [i for i, names in both if not asked or asked in map(str.casefold, names)]
        if not able:
            known = tuple(dict.fromkeys(self.names))
            hint = did_you_mean(condition, known, f"it has: {', '.join(known)}")
            raise UsageError(f"this model has no class {condition!r}", hint)
        return np.resize(np.array(able, np.int64), count)

    def sheet(self) -> Samples:
        """For a look at a model: rows of conditions where there are some, otherwise anything."""
        rows = min(len(self.names), MOST_SHOWN) or SHEET_COLUMNS
        chosen = np.repeat(np.arange(rows), SHEET_COLUMNS) if self.names else None
        return self.draw(self.noise(rows * SHEET_COLUMNS, seed=0), chosen)


def open_sampler(
    entry: ModelEntry, model: Any, preprocess: Preprocess, classes: Sequence[str]
) -> Sampler:
    """A model as something to draw samples from."""
    generator = capability(entry, "generate")(model)
    return Sampler(generator, preprocess, tuple(generator.conditions(classes)))


def sampler_of(model: Any) -> Sampler:
    """A model that zoo.load returned, as something to draw samples from."""
    about = model.zoo
    return open_sampler(about.entry, model, about.preprocess, about.classes)


def load_sampler(
    reference: str | Path, runs: Path | None = None, device: str = "auto"
) -> tuple[Sampler, Located]:
    """Trained weights to draw samples from, and what is known about them."""
    reference = as_reference(reference)
    if reference in registry().models:  # nobody should train a model to learn that it cannot
        capability(registry().models.get(reference), "generate")
    weights = obtain(reference, runs)
    return sampler_of(load_model(weights, device=device)), weights.located


def generate(
    run: Any, count: int = 64, *, condition: str = "", seed: int = 0, device: str = "auto"
) -> np.ndarray:
    """Samples of a generative model: uint8 (count, height, width, channels).

    run: a run, weights, or a model that `zoo.load` returned, which stays on its device. condition:
    the class to draw, for a model that is told one; otherwise all classes in turn. The same seed
    gives the same samples.
    """
    named = isinstance(run, str | Path)
    source = load_sampler(run, device=device)[0] if named else sampler_of(loaded(run, None, device))
    return source.sample(count, seed, condition).images


def to_pixels(images: np.ndarray, preprocess: Preprocess) -> np.ndarray:
    """What a model is given or makes, (n, c, h, w), as bytes (n, h, w, c)."""
    mean, std = np.array(preprocess.mean), np.array(preprocess.std)
    unit = images.transpose(0, 2, 3, 1) * std + mean
    return np.asarray(np.clip(np.rint(255 * unit), 0, 255), np.uint8)
