"""Samples of a generative model, through the `generate` capability that its entry declares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo_core.data.preprocess import Preprocess
from zoo_core.errors import PluginError, UsageError, ZooError, did_you_mean
from zoo_core.files import atomic_write
from zoo_core.registry import registry
from zoo_core.targets import describe, resolve
from zoo_core.types import ModelEntry

if TYPE_CHECKING:
    from zoo_core.train.job import Job

BLOCK = 64  # samples that are drawn at once: their last bits may depend on it, so it is fixed
MOST_SHOWN = 10  # conditions that a sheet of all of them has room for
COLUMNS = 8  # of a sheet
SNAPSHOTS = 6  # sheets in the course of a run, at most


class Generator:
    """How samples of a model are drawn. Subclass it, and name it as the `generate` capability.

    Noise and pictures are NumPy arrays, whatever the model's framework is.
    """

    noise: tuple[int, ...]  # the shape of one sample's noise; drawn from a standard normal

    def __init__(self, model: Any) -> None:
        self.model = model

    def conditions(self, classes: Sequence[str]) -> Sequence[str]:
        """What can be asked for, by name: the classes, perhaps. Nothing, unless replaced."""
        return ()

    def draw(self, noise: np.ndarray, conditions: np.ndarray | None) -> np.ndarray:
        """Pictures (n, c, h, w), as the model is given them, from float32 noise (n, *shape).

        conditions: int64 (n,), numbers of what `conditions` names; None if it names nothing.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Samples:
    images: np.ndarray  # uint8 (n, h, w, c)
    names: tuple[str, ...]  # of the condition of each; () if there are none


@dataclass(frozen=True)
class Source:
    """A model that samples can be drawn from."""

    generator: Generator
    preprocess: Preprocess
    names: tuple[str, ...]  # of its conditions

    def draw(self, noise: np.ndarray, chosen: np.ndarray | None) -> Samples:
        blocks = [
            self._block(noise[start : start + BLOCK], chosen, start)
            for start in range(0, len(noise), BLOCK)
        ]
        names = () if chosen is None else tuple(self.labels[i] for i in chosen)
        return Samples(np.concatenate(blocks), names)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names as they are shown: those that several conditions have are numbered."""
        return tuple(
            name if self.names.count(name) == 1 else f"{name} {self.names[: i + 1].count(name)}"
            for i, name in enumerate(self.names)
        )

    def _block(self, noise: np.ndarray, chosen: np.ndarray | None, start: int) -> np.ndarray:
        some = None if chosen is None else chosen[start : start + len(noise)]
        pictures = self.generator.draw(noise, some)
        p = self.preprocess
        wanted = (len(noise), p.channels, p.size, p.size)
        shape = getattr(pictures, "shape", type(pictures).__name__)
        if not isinstance(pictures, np.ndarray) or shape != wanted:
            raise PluginError(
                f"{type(self.generator).__name__} must draw an array {wanted}, not {shape}",
                "docs/hooks.md says what the capability returns",
            )
        return to_pixels(pictures, p)

    def noise(self, count: int, seed: int) -> np.ndarray:
        """The first rows are the same, however many there are."""
        if count < 1 or seed < 0:
            raise UsageError("at least one sample is drawn, and a seed is 0 or more")
        rng = np.random.default_rng(seed)
        return rng.standard_normal((count, *self.generator.noise), dtype=np.float32)

    def sample(self, count: int, seed: int = 0, condition: str = "") -> Samples:
        """Samples of one condition, or of all of them in turn."""
        return self.draw(self.noise(count, seed), self.choose(count, condition))

    def choose(self, count: int, condition: str = "") -> np.ndarray | None:
        if not isinstance(condition, str):
            raise UsageError(f"a class is asked for by its name, not by {condition!r}")
        if condition and not self.names:
            raise UsageError("this model is not told what to draw: leave out --class")
        if not self.names:
            return None
        asked = condition.casefold()
        able = [
            i
            for i, names in enumerate(zip(self.names, self.labels, strict=True))
            if not asked or asked in map(str.casefold, names)
        ]
        if not able:
            known = tuple(dict.fromkeys(self.names))
            hint = did_you_mean(condition, known, f"it knows: {', '.join(known)}")
            raise UsageError(f"this model cannot be asked for {condition!r}", hint)
        return np.resize(np.array(able, np.int64), count)

    def interpolate(self, rows: int, steps: int, seed: int = 0, condition: str = "") -> Samples:
        """Rows of samples, each on the way from one noise to another."""
        ends = self.noise(2 * rows, seed)
        noise = np.concatenate(
            [on_the_way(ends[i], ends[i + 1], steps) for i in range(0, 2 * rows, 2)]
        )
        chosen = self.choose(rows, condition)
        return self.draw(noise, None if chosen is None else np.repeat(chosen, steps))

    def sheet(self, seed: int = 0) -> Samples:
        """For a look at a model: rows of conditions where there are some, otherwise anything."""
        rows = min(len(self.names), MOST_SHOWN) or COLUMNS
        chosen = np.repeat(np.arange(rows), COLUMNS) if self.names else None
        return self.draw(self.noise(rows * COLUMNS, seed), chosen)


def on_the_way(start: np.ndarray, end: np.ndarray, steps: int) -> np.ndarray:
    """From one noise to another along the sphere that noise lies on: (steps, *shape).

    A straight line would lead through the middle, where hardly any noise is.
    """
    a, b = start.ravel().astype(float), end.ravel().astype(float)
    cosine = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
    angle = math.acos(np.clip(cosine, -1, 1)) or 1e-9
    parts = np.linspace(0, 1, steps)[:, None]
    rows = (np.sin((1 - parts) * angle) * a + np.sin(parts * angle) * b) / math.sin(angle)
    return np.asarray(rows.reshape(steps, *start.shape), np.float32)


def open_source(
    entry: ModelEntry, model: Any, preprocess: Preprocess, classes: Sequence[str]
) -> Source:
    """A model as something to draw samples from."""
    check_able(entry)
    generator = resolve(entry.capabilities["generate"], f"model {entry.name!r}")(model)
    return Source(generator, preprocess, tuple(generator.conditions(classes)))


def check_able(entry: ModelEntry) -> None:
    if "generate" not in entry.capabilities:
        able = [other.name for other in registry().models if "generate" in other.capabilities]
        raise UsageError(
            f"model {entry.name!r} declares no way to draw samples",
            f"these do: {', '.join(able)}" if able else "a plugin of generative models brings some",
        )


def to_pixels(pictures: np.ndarray, preprocess: Preprocess) -> np.ndarray:
    """What a model is given or makes, (n, c, h, w), as bytes (n, h, w, c)."""
    mean, std = np.array(preprocess.mean), np.array(preprocess.std)
    unit = pictures.transpose(0, 2, 3, 1) * std + mean
    return np.asarray(np.clip(np.rint(255 * unit), 0, 255), np.uint8)


# ---------------------------------------------------------------- in the course of a run


class Snapshots:
    """Sheets of samples from the same noise, every few epochs, in the pictures of a run."""

    def __init__(self, job: Job) -> None:
        self.job = job
        able = job.run is not None and "generate" in job.entry.capabilities
        self.every = math.ceil(job.recipe.epochs / SNAPSHOTS) if able else 0

    def after(self, epoch: int, model: Any) -> None:
        """The last epoch's are the report's, which draws what training came to."""
        if not self.every or epoch % self.every or epoch == self.job.recipe.epochs:
            return
        try:
            self._draw(epoch, model)
        except Exception as error:  # a plugin's code; the training is worth more than a picture
            self.every = 0
            self.job.display.warn(f"no samples are drawn in this run: {describe(error)}")

    def _draw(self, epoch: int, model: Any) -> None:
        from zoo_core.report.grid import picture_grid

        job = self.job
        assert job.run is not None
        source = open_source(job.entry, model, job.preprocess, job.dataset.classes)
        samples = source.sheet()
        title = f"{job.entry.name} on {job.dataset.name}: samples after epoch {epoch}"
        sheet = picture_grid(samples.images, samples.names or None, columns=COLUMNS, title=title)
        with atomic_write(job.run.path / "pictures" / f"samples-{epoch:03d}.png") as temporary:
            sheet.save(temporary, format="png")


def blocks(images: np.ndarray, size: int = 256) -> Iterator[np.ndarray]:
    for start in range(0, len(images), size):
        yield images[start : start + size]


def load_source(reference: Any, runs: Path | None = None) -> tuple[Source, Any]:
    """Trained weights, or a model of zoo.load, to draw samples from; and what was loaded."""
    from zoo_core.train.predict import in_memory, load_run

    if isinstance(reference, str):
        try:  # nobody should train a model first, to learn then that it cannot
            entry = registry().models.get(reference)
        except ZooError:
            pass  # a run, or weights
        else:
            check_able(entry)
    loaded = load_run(reference, runs) if isinstance(reference, str) else in_memory(reference)
    return open_source(loaded.entry, loaded.model, loaded.preprocess, loaded.classes), loaded
